import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Channel, FromRun, ToRun } from '../channel';
import type { Changes, Snapshot, Transcript } from '../protocol';
import { asking, begun, CUT_OFF, inStep, MOMENTS, TRANSCRIPT } from './story';

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
