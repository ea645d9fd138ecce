import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Channel } from '../channel';
import { NOTHING } from '../model';
import type { EventsMessage, FrontEndMessage, SnapshotMessage } from '../protocol';
import { asking, begun, EVENTS, RUN } from './story';

const snapshot = (seq: number, state = begun()): SnapshotMessage => ({
  op: 'snapshot',
  seq,
  plan_approval: state.planApproval,
  ...state
});
const notice = (seq: number, text: string): EventsMessage => ({
  op: 'events',
  seq,
  events: [{ type: 'notice', text }]
});

describe('the channel', () => {
  let sent: FrontEndMessage[];
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
    const ids = sent.map(message => (message.kind === 'init' ? message.id : null));
    expect(ids).toHaveLength(2);
    expect(new Set(ids).size).toBe(2);
    expect(ids[0]).toMatch(/^\d+(-\d+){3}$/);
  });

  it('follows numbered events from a snapshot to the finished run', () => {
    channel.receive({ op: 'snapshot', seq: 7, plan_approval: null, ...NOTHING });
    EVENTS.forEach((event, i) => {
      channel.receive({ op: 'events', seq: 8 + i, events: [event] });
    });
    expect(channel.state.run).toEqual(RUN);
    expect(sent).toEqual([]);
  });

  it('ignores events until the first snapshot, and events that the snapshot includes', () => {
    channel.receive(notice(3, 'early'));
    channel.receive(snapshot(5));
    channel.receive(notice(4, 'old'));
    channel.receive(notice(5, 'old'));
    channel.receive(notice(6, 'new'));
    expect(channel.state.run?.notes.slice(1)).toEqual(['new']);
    expect(sent).toEqual([]);
  });

  it('asks once for everything after a gap, and goes on from the snapshot', () => {
    channel.receive(snapshot(1));
    channel.receive(notice(3, 'after a gap'));
    channel.receive(notice(4, 'still in it'));
    expect(sent).toEqual([{ kind: 'resync' }]);
    channel.receive(snapshot(4, asking('c2')));
    channel.receive(notice(5, 'whole again'));
    expect(channel.state.run?.notes.at(-1)).toBe('whole again');
    expect(channel.state.approvals).toEqual({ c2: 'a2' });
    expect(sent).toHaveLength(1);
  });

  it('asks for everything when events do not fit what it knows', () => {
    channel.receive({ op: 'snapshot', seq: 0, plan_approval: null, ...NOTHING });
    channel.receive(notice(1, 'of a run that never started'));
    expect(sent).toEqual([{ kind: 'resync' }]);
  });

  it('has the question and the retry of a run that was on before the page was (P42)', () => {
    const busy = { step: 1, attempt: 1, of: 2, delay: 0.5, reason: 'Busy.' };
    const retry = { type: 'retry_scheduled', ...busy } as const;
    channel.receive({ ...snapshot(9, asking('c2')), retry });
    expect(channel.state).toMatchObject({ approvals: { c2: 'a2' }, retry });
    channel.decide('a2', { decision: 'approve', reason: '' });
    expect(sent).toEqual([{ kind: 'decide', approval_id: 'a2', decision: 'approve', reason: '' }]);
    channel.receive(notice(10, 'on it goes'));
    expect(channel.state.retry).toBeNull();
  });

  it('hears that a decision came too late (P23)', () => {
    channel.receive(snapshot(1, asking('c2')));
    const late = { call_id: 'c2', decision: 'denied', at: '2025-03-01T09:30:00Z' } as const;
    channel.receive({ op: 'late', ...late });
    expect(channel.state.late).toEqual({ c2: { decision: late.decision, at: late.at } });
    channel.receive(snapshot(2, asking('c2')));
    expect(Object.keys(channel.state.late)).toEqual(['c2']);
  });

  it('ignores a snapshot that is older than what it knows', () => {
    channel.receive(snapshot(2));
    channel.receive(notice(3, 'newer'));
    channel.receive(snapshot(2));
    expect(channel.state.run?.notes.at(-1)).toBe('newer');
  });

  it('sends one decision for an approval, whatever is pressed', () => {
    channel.decide('a2', { decision: 'deny', reason: 'no' });
    channel.decide('a2', { decision: 'approve', reason: '' });
    expect(sent).toEqual([{ kind: 'decide', approval_id: 'a2', decision: 'deny', reason: 'no' }]);
  });

  it.each([null, undefined, 'text', 7, {}, { op: 'busy' }])(
    'ignores what is not of it: %s',
    other => {
      channel.receive(other);
      expect(channel.state.run).toBeNull();
    }
  );

  it('tells its listeners until they leave', () => {
    const seen: unknown[] = [];
    const leave = channel.subscribe(state => seen.push(state));
    channel.receive(snapshot(1));
    leave();
    channel.receive(snapshot(2));
    expect(seen).toHaveLength(1);
  });
});
