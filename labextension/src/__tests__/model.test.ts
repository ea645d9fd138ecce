import { describe, expect, it } from 'vitest';

import { applyChanges, cutOff, isOver } from '../model';
import type { Replacement } from '../protocol';
import {
  after,
  asking,
  begun,
  CUT_OFF,
  MOMENTS,
  plan,
  PLAN_MOMENTS,
  PLAN_TRANSCRIPT,
  tellings,
  TRANSCRIPT,
  upTo
} from './story';

const put = (path: (string | number)[], value: unknown): Replacement[] => [{ path, value }];

describe('the model', () => {
  it('comes by all changes to the transcript that Python has', () => {
    expect(after(MOMENTS)).toEqual(TRANSCRIPT);
    expect(after(PLAN_MOMENTS)).toEqual(PLAN_TRANSCRIPT);
  });

  it('never changes the transcript that it was given', () => {
    const before = begun();
    const copy = structuredClone(before);
    MOMENTS.slice(3).reduce<typeof before | null>((now, { changes }) => {
      return applyChanges(now, changes);
    }, before);
    expect(before).toEqual(copy);
  });

  it('keeps what is not on the path of a change as the same object', () => {
    const before = TRANSCRIPT;
    const now = applyChanges(before, put(['steps', 1, 'calls', 0, 'glyph'], '!'));
    expect(now?.steps[1].calls[0].glyph).toBe('!');
    expect(now?.steps[0]).toBe(before.steps[0]);
    expect(now?.steps[1].calls[0].request).toBe(before.steps[1].calls[0].request);
    expect(now?.header).toBe(before.header);
    expect(now?.steps[1]).not.toBe(before.steps[1]);
  });

  it('lets lists grow at their end, and texts', () => {
    const grown = applyChanges(begun(), [
      ...put(['notes', begun().notes.length], 'one more'),
      { path: ['notes', begun().notes.length], append: ', and on' }
    ]);
    expect(grown?.notes.at(-1)).toBe('one more, and on');
  });

  it.each([
    [['steps', 99], 'x'],
    [['nothing'], 'x'],
    [['header', 'model', 'x'], 'x'],
    [['steps', 'length'], 0],
    [['steps', -1], 'x'],
    [['__proto__', 'polluted'], 'x'],
    [['constructor', 'prototype', 'polluted'], 'x'],
    [['steps', 0, '__proto__'], 'x']
  ])('refuses a change at %j, which is no place', (path, value) => {
    expect(() => applyChanges(begun(), put(path, value))).toThrow('no place');
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  it('refuses changes before there is a transcript, and text after what is none', () => {
    expect(() => applyChanges(null, put(['notes'], []))).toThrow('no place');
    expect(() => applyChanges(begun(), [{ path: ['steps'], append: 'x' }])).toThrow('only a text');
  });

  it('keeps what streams until the message is finished', () => {
    const streaming = tellings(MOMENTS).find(({ steps }) => steps[0]?.text === "I'll look at ");
    expect(streaming?.steps[0]).toMatchObject({
      is_streaming: true,
      thinking: { title: 'Thinking…', text: 'What is in sales?' }
    });
    expect(upTo(({ type }) => type === 'message_finished').steps[0].is_streaming).toBe(false);
  });

  it('knows which runs are over', () => {
    expect(isOver(begun())).toBe(false);
    expect(isOver(asking('c2'))).toBe(false);
    expect(isOver(plan(1))).toBe(false);
    expect(isOver(TRANSCRIPT)).toBe(true);
  });
});

describe('a run whose kernel is gone', () => {
  it('has failed, and what it was about to do did not happen', () => {
    const { header, ending, steps } = cutOff(asking('c2'), CUT_OFF);
    expect(header).toMatchObject({ state: 'failed', state_text: 'failed' });
    expect(ending?.title).toContain('The kernel was restarted or stopped');
    const [call] = steps[1].calls;
    expect(call).toMatchObject({ status: 'cancelled', glyph: '■', approval: null });
  });

  it('may have done what was running', () => {
    const running = upTo(({ type, call_id }) => type === 'tool_running' && call_id === 'c2');
    const [call] = cutOff(running, CUT_OFF).steps[1].calls;
    expect(call).toMatchObject({ status: 'unknown', glyph: '!', verdict: 'unknown outcome' });
    expect(cutOff(running, CUT_OFF).steps[0].calls[0].status).toBe('success');
  });

  it('keeps what had been said, and waits for nothing', () => {
    const streaming = tellings(MOMENTS).find(({ steps }) => steps[0]?.text === "I'll look at ");
    const [step] = cutOff(streaming ?? begun(), CUT_OFF).steps;
    expect(step).toMatchObject({ text: "I'll look at ", is_streaming: false, waiting: null });
  });

  it('is a plan that waits for another kernel, without buttons', () => {
    const waiting = cutOff(plan(2), CUT_OFF);
    expect(waiting.header.state).toBe('waiting');
    expect(waiting.plan?.approval).toBeNull();
  });

  it('is as it was where it had ended', () => {
    expect(cutOff(TRANSCRIPT, CUT_OFF)).toBe(TRANSCRIPT);
  });
});
