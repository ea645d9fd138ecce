import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Channel, RunView, ToRun } from '../channel';
import type { Changes, Snapshot } from '../protocol';
import { after, asking, begun, MOMENTS, PLAN_MOMENTS, PLAN_SNAPSHOT, SNAPSHOT } from './story';

const snapshot = (seq: number, run = begun()): Snapshot => ({ ...run, seq });
const drawn = (html: string) => ({ key: 'r/n', html, more: '', own: null });
const notes = (seq: number, html: string, changes: Partial<Changes> = {}): Changes => {
  const none = { order: {}, more: [], drop: [] };
  return { type: 'changes', seq, set: [drawn(html)], ...none, ...changes };
};

describe('the channel', () => {
  let sent: ToRun[];
  let channel: Channel;
  let frames: (() => void)[];

  const note = () => channel.run?.set.find(({ key }) => key === 'r/n')?.html;

  beforeEach(() => {
    sent = [];
    channel = new Channel(message => sent.push(message));
    frames = [];
    vi.stubGlobal('requestAnimationFrame', (draw: () => void) => frames.push(draw));
  });

  afterEach(() => vi.unstubAllGlobals());

  /** Paint the page, which is not hidden. */
  const paint = () => frames.splice(0).forEach(draw => draw());

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

  it('has the last snapshot whether it came as one or bit by bit', () => {
    const order = (run: Snapshot | null) => {
      const set = [...(run?.set ?? [])].sort((one, other) => one.key.localeCompare(other.key));
      const keys = new Set(['', ...set.map(({ key }) => key)]);
      const parents = Object.entries(run?.order ?? {})
        .map(([parent, below]) => [parent, below.filter(key => keys.has(key))] as const)
        .filter(([parent, below]) => keys.has(parent) && below.length > 0);
      return { ...run, set, order: Object.fromEntries(parents) };
    };
    expect(order(after(MOMENTS))).toEqual(order(SNAPSHOT));
    expect(order(after(PLAN_MOMENTS))).toEqual(order(PLAN_SNAPSHOT));
  });

  it('ignores changes until the first snapshot, and those that the snapshot includes', () => {
    channel.receive(notes(3, 'early'));
    channel.receive(snapshot(5));
    channel.receive(notes(4, 'old'));
    channel.receive(notes(5, 'old'));
    expect(channel.run?.set).toEqual(begun().set);
    channel.receive(notes(6, 'new'));
    expect(note()).toBe('new');
    expect(sent).toEqual([]);
  });

  it('asks once for everything after a gap, and goes on from the snapshot', () => {
    channel.receive(snapshot(1));
    channel.receive(notes(3, 'after a gap'));
    channel.receive(notes(4, 'still in it'));
    expect(sent).toEqual([{ type: 'resync' }]);
    channel.receive(snapshot(4, asking('c2')));
    channel.receive(notes(5, 'whole again'));
    expect(note()).toBe('whole again');
    expect(channel.run?.set.some(({ key }) => key === 'r/s2/c0/a')).toBe(true);
    expect(sent).toHaveLength(1);
  });

  it.each<Partial<Changes>>([
    { more: [{ key: 'r/gone', text: 'x' }] },
    { order: { r: ['r/h', 'r/gone'] } },
    { order: { 'r/gone': ['r/h'] } }
  ])('asks for everything when changes do not fit what it knows: %j', changes => {
    channel.receive(snapshot(0));
    channel.receive(notes(1, 'new', changes));
    expect(sent).toEqual([{ type: 'resync' }]);
  });

  it('adds words to those that it knows', () => {
    channel.receive(snapshot(0));
    channel.receive(notes(1, 'n', { more: [{ key: 'r/n', text: 'one' }] }));
    channel.receive(notes(2, 'n', { set: [], more: [{ key: 'r/n', text: ' two' }] }));
    expect(channel.run?.set.find(({ key }) => key === 'r/n')?.more).toBe('one two');
  });

  it('sends decisions on a run that was on before the page was (P42)', () => {
    channel.receive(snapshot(9, asking('c2')));
    channel.decide('a2', { decision: 'approve', reason: '' });
    const answer = { decision: 'approve', reason: '' };
    expect(sent).toEqual([{ type: 'decide', approval_id: 'a2', answer }]);
  });

  it('ignores a snapshot that is older than what it knows', () => {
    channel.receive(snapshot(2));
    channel.receive(notes(3, 'newer'));
    channel.receive(snapshot(2));
    expect(note()).toBe('newer');
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
      expect(channel.run).toBeNull();
    }
  );

  it('draws in its views until they leave, in one that comes later all of it', () => {
    const view = { update: vi.fn<RunView['update']>(), cutOff: vi.fn() };
    const leave = channel.subscribe(view);
    channel.receive(snapshot(1));
    paint();
    leave();
    channel.receive(notes(2, 'new'));
    expect(view.update).toHaveBeenCalledOnce();
    channel.subscribe(view);
    const [again] = view.update.mock.calls[1];
    expect(again).toMatchObject({ type: 'snapshot', seq: 2 });
    expect(again.set).toContainEqual(drawn('new'));
    expect(view.cutOff).not.toHaveBeenCalled();
  });

  it('draws in the next frame: one message as it is, of several what the run has become', () => {
    const view = { update: vi.fn<RunView['update']>(), cutOff: vi.fn() };
    channel.subscribe(view);
    channel.receive(snapshot(1));
    channel.receive(notes(2, 'one'));
    channel.receive(notes(3, 'two'));
    expect(view.update).not.toHaveBeenCalled();
    paint();
    const [[whole]] = view.update.mock.calls;
    expect(whole).toEqual({ ...channel.run, type: 'snapshot', seq: 3 });
    expect(whole.set).toContainEqual(drawn('two'));
    channel.receive(notes(4, 'three'));
    paint();
    expect(view.update).toHaveBeenLastCalledWith(notes(4, 'three'));
    expect(view.update).toHaveBeenCalledTimes(2);
  });

  it('draws what a hidden page has missed for who comes, and adds no word twice', () => {
    const [one, other] = [0, 1].map(() => ({ update: vi.fn(), cutOff: vi.fn() }));
    channel.subscribe(one);
    channel.receive(snapshot(1));
    channel.receive(notes(2, 'n', { more: [{ key: 'r/n', text: 'word' }] }));
    channel.subscribe(other);
    paint();
    expect([one, other].map(({ update }) => update.mock.calls)).toEqual([
      [[channel.run]],
      [[channel.run]]
    ]);
  });

  it('hears nothing more once the kernel is gone, and says that to all views', () => {
    const [one, other] = [0, 1].map(() => ({ update: vi.fn(), cutOff: vi.fn() }));
    channel.subscribe(one);
    channel.receive(snapshot(1, asking('c2')));
    channel.disconnect();
    channel.receive(snapshot(2));
    channel.receive(notes(2, 'late'));
    channel.subscribe(other);
    expect([one, other].map(({ update }) => update.mock.calls.length)).toEqual([1, 1]);
    expect([one, other].map(({ cutOff }) => cutOff.mock.calls)).toEqual([
      [[SNAPSHOT.gone]],
      [[SNAPSHOT.gone]]
    ]);
  });

  it('has nothing to show where the kernel went before it had said anything', () => {
    const view = { update: vi.fn(), cutOff: vi.fn() };
    channel.subscribe(view);
    channel.disconnect();
    expect(view.cutOff).not.toHaveBeenCalled();
  });
});
