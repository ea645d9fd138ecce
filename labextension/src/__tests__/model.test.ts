import { describe, expect, it } from 'vitest';

import { advance, answeringStep, fold, NOTHING, runState } from '../model';
import type { Run } from '../protocol';
import { asking, begun, EVENTS, PLAN_EVENTS, PLAN_RUN, RUN, upTo } from './story';

describe('the model', () => {
  it('folds the shared events into the run that Python folds them into', () => {
    expect(EVENTS.reduce<Run | null>(fold, null)).toEqual(RUN);
    expect(PLAN_EVENTS.reduce<Run | null>(fold, null)).toEqual(PLAN_RUN);
  });

  it('refuses events before a run has started', () => {
    expect(() => fold(null, { type: 'notice', text: '' })).toThrow('before run_started');
  });

  it('never changes the state that it was given', () => {
    const before = begun();
    const copy = structuredClone(before);
    EVENTS.slice(1).reduce(advance, before);
    expect(before).toEqual(copy);
  });

  it('keeps what streams until the message is finished', () => {
    const open = upTo(
      event => event.type === 'message_delta' && event.text === "I'll look at "
    ).open;
    expect(open).toEqual({ step: 1, text: "I'll look at ", thinking: 'What is in sales?' });
    expect(upTo(event => event.type === 'message_finished').open).toBeNull();
  });

  it('forgets what had streamed when the request is tried again', () => {
    expect(upTo(event => event.type === 'retry_scheduled').open).toBeNull();
  });

  it('knows which calls wait, until they are decided', () => {
    expect(asking('c2').approvals).toEqual({ c2: 'a2' });
    expect(upTo(e => e.type === 'approval_decided' && e.call_id === 'c2').approvals).toEqual({});
  });

  it('says how a run stands in the words of the public contract', () => {
    const ended = (changes: Partial<Run>) => runState({ ...NOTHING, run: { ...RUN, ...changes } });
    expect(runState(begun())).toBe('running');
    expect(runState(asking('c2'))).toBe('waiting');
    expect(ended({ status: 'done', stop_reason: 'finished' })).toBe('done');
    expect(ended({ status: 'done', stop_reason: 'planned' })).toBe('done');
    expect(ended({ status: 'done', stop_reason: 'max_steps' })).toBe('partial');
    expect(ended({ status: 'draft' })).toBe('waiting');
    expect(ended({ status: 'error', stop_reason: 'error' })).toBe('failed');
    expect(ended({ status: 'cancelled', stop_reason: 'interrupted' })).toBe('cancelled');
  });

  it('takes for the answer the last text that asks for no tool', () => {
    expect(answeringStep(RUN)).toBe(5);
    expect(answeringStep({ ...RUN, steps: RUN.steps.slice(0, 3) })).toBeNull();
  });

  it('writes a retry with the decimals that Python writes', () => {
    const noteFor = (delay: number) =>
      fold(begun().run, {
        type: 'retry_scheduled',
        step: 1,
        attempt: 1,
        of: 2,
        delay,
        reason: 'Busy.'
      }).steps[0].notes;
    expect(noteFor(0.25)).toEqual(['Busy. Retry 1/2 in 0.2 s.']);
    expect(noteFor(0.75)).toEqual(['Busy. Retry 1/2 in 0.8 s.']);
    expect(noteFor(1)).toEqual(['Busy. Retry 1/2 in 1.0 s.']);
  });
});
