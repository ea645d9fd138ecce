import { beforeEach, describe, expect, it, vi } from 'vitest';

import { applyChanges, Channel, cutOff, FromRun, isOver, ToRun } from '../channel';
import type { Changes, Replacement, Snapshot, Transcript } from '../protocol';
import {
  after,
  asking,
  begun,
  CUT_OFF,
  inStep,
  MOMENTS,
  plan,
  PLAN_MOMENTS,
  PLAN_TRANSCRIPT,
  tellings,
  TRANSCRIPT,
  upTo
} from './story';

const snapshot = (seq: number, transcript: Transcript | null = begun()): Snapshot => ({
  type: 'snapshot',
  seq,
  transcript,
  cut_off: CUT_OFF
});
const notes = (seq: number, ...texts: string[]): Changes => ({
  type: 'changes',
  seq,
  changes: [{ path: ['notes'], value: texts }]
});

describe('the channel', () => {
  let sent: ToRun[];
  let channel: Channel;

  beforeEach(() => {
    sent = [];
    channel = new Channel(message => sent.push(message));
  });

  it('says hello until it is answered, or closed', () => {
    vi.useFakeTimers();
    channel.start();
    vi.advanceTimersByTime(700);
    expect(sent).toHaveLength(3);
    channel.receive(snapshot(1));
    vi.advanceTimersByTime(60_000);
    expect(sent).toHaveLength(3);

    const other = new Channel(message => sent.push(message));
    other.start();
    other.close();
    vi.advanceTimersByTime(60_000);
    expect(sent).toHaveLength(4);
    vi.useRealTimers();
  });

  it('says hello with an id of its own', () => {
    channel.start();
    const other = new Channel(message => sent.push(message));
    other.start();
    channel.close();
    other.close();
    const ids = sent.map(message => (message.type === 'init' ? message.id : null));
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(2);
    expect(ids[0]).toMatch(/^\d+(-\d+){3}$/);
  });

  it('follows numbered changes from a snapshot to the finished run', () => {
    channel.receive(snapshot(7, null));
    MOMENTS.forEach(({ changes }, i) => {
      channel.receive({ type: 'changes', seq: 8 + i, changes } satisfies FromRun);
    });
    expect(channel.transcript).toEqual(TRANSCRIPT);
    expect(sent).toEqual([]);
  });

  it('ignores changes until the first snapshot, and those that the snapshot includes', () => {
    channel.receive(notes(3, 'early'));
    channel.receive(snapshot(5));
    channel.receive(notes(4, 'old'));
    channel.receive(notes(5, 'old'));
    expect(channel.transcript).toEqual(begun());
    channel.receive(notes(6, 'new'));
    expect(channel.transcript?.notes).toEqual(['new']);
    expect(sent).toEqual([]);
  });

  it('asks once for everything after a gap, and goes on from the snapshot', () => {
    channel.receive(snapshot(1));
    channel.receive(notes(3, 'after a gap'));
    channel.receive(notes(4, 'still in it'));
    expect(sent).toEqual([{ type: 'resync' }]);
    channel.receive(snapshot(4, asking('c2')));
    channel.receive(notes(5, 'whole again'));
    expect(channel.transcript?.notes).toEqual(['whole again']);
    expect(channel.transcript?.steps[1].calls[0].approval?.id).toBe('a2');
    expect(sent).toHaveLength(1);
  });

  it('asks for everything when changes do not fit what it knows', () => {
    channel.receive(snapshot(0, null));
    channel.receive(notes(1, 'of a run that never started'));
    expect(sent).toEqual([{ type: 'resync' }]);
  });

  it('has the question and the retry of a run that was on before the page was (P42)', () => {
    const waiting = { text: 'Retry 1/2', seconds: 0.5 };
    channel.receive(snapshot(9, inStep(asking('c2'), { waiting })));
    expect(channel.transcript?.steps[1]).toMatchObject({ waiting });
    channel.decide('a2', { decision: 'approve', reason: '' });
    const answer = { decision: 'approve', reason: '' };
    expect(sent).toEqual([{ type: 'decide', approval_id: 'a2', answer }]);
  });

  it('ignores a snapshot that is older than what it knows', () => {
    channel.receive(snapshot(2));
    channel.receive(notes(3, 'newer'));
    channel.receive(snapshot(2));
    expect(channel.transcript?.notes).toEqual(['newer']);
  });

  it('sends one decision for an approval, whatever is pressed', () => {
    channel.decide('a2', { decision: 'deny', reason: 'no' });
    channel.decide('a2', { decision: 'approve', reason: '' });
    const answer = { decision: 'deny', reason: 'no' };
    expect(sent).toEqual([{ type: 'decide', approval_id: 'a2', answer }]);
  });

  it.each([null, undefined, 'text', 7, {}, { type: 'busy' }])(
    'ignores what is not of it: %s',
    other => {
      channel.receive(other);
      expect(channel.transcript).toBeNull();
    }
  );

  it('tells its listeners until they leave', () => {
    const seen: unknown[] = [];
    const leave = channel.subscribe(transcript => seen.push(transcript));
    channel.receive(snapshot(1));
    leave();
    channel.receive(snapshot(2));
    expect(seen).toHaveLength(1);
  });

  it('hears nothing more once the kernel is gone, and shows that', () => {
    channel.receive(snapshot(1, asking('c2')));
    channel.disconnect();
    expect(channel.transcript?.header.state).toBe('failed');
    channel.receive(snapshot(2));
    channel.receive(notes(2, 'late'));
    expect(channel.transcript?.header.state).toBe('failed');
  });

  it('has nothing to show where the kernel went before it had said anything', () => {
    channel.disconnect();
    expect(channel.transcript).toBeNull();
  });
});

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
    const streaming = tellings(MOMENTS).find(({ steps }) =>
      steps[0]?.blocks[0]?.includes("I'll look at")
    );
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
    const streaming = tellings(MOMENTS).find(({ steps }) =>
      steps[0]?.blocks[0]?.includes("I'll look at")
    );
    const [step] = cutOff(streaming ?? begun(), CUT_OFF).steps;
    expect(step).toMatchObject({ is_streaming: false, waiting: null });
    expect(step.blocks[0]).toContain("I'll look at");
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
