import { describe, expect, it } from 'vitest';

import { Channel } from '../channel';
import { cutOff } from '../cutoff';
import type { RunSummary } from '../lab/messages';
import { Known, missing } from '../lab/missing';
import { Bundle, isUnfinished, Output, withRun } from '../lab/outputs';
import { advance, NOTHING, runState } from '../model';
import type { Event, FrontEndMessage, Run } from '../protocol';
import { RunView } from '../view/run';
import widget, { WidgetModel } from '../widget';
import { asking, begun, plan, RUN, upTo } from './story';

const MIME = 'application/vnd.ipyagent.run+json';
const CARD = {
  'text/plain': 'ipyagent is running…',
  'application/vnd.jupyter.widget-view+json': { model_id: 'x' }
};

const output = (data: Bundle): Output =>
  ({ output_type: 'display_data', data, metadata: {} }) as Output;
const bundle = (run: Partial<Run> & { id: string }): Bundle => ({
  [MIME]: { ...RUN, status: 'running', ...run }
});
const text = output({ 'text/plain': 'from an earlier execution' });

describe('a run whose kernel is gone', () => {
  it('has failed, asks nothing, and keeps what was said', () => {
    const state = cutOff(asking('c2'));
    expect(runState(state)).toBe('failed');
    expect(state.approvals).toEqual({});
    expect(state.run?.error).toContain('The kernel was restarted or stopped');
    const before = asking('c2').run?.steps.length;
    expect(state.run?.steps).toHaveLength(before ?? 0);
    const statuses = state.run?.steps.flatMap(s => s.executions.map(e => e.status)) ?? [];
    expect(statuses).toContain('cancelled');
    expect(statuses).not.toContain('awaiting_approval');
  });

  it('does not know what became of a call that had begun', () => {
    const running = upTo(event => event.type === 'tool_running');
    const [call] = cutOff(running).run?.steps.at(-1)?.executions.slice(-1) ?? [];
    expect(call.status).toBe('unknown');
  });

  it('shows the part of a reply that had come', () => {
    const delta: Event = { type: 'message_delta', step: 1, kind: 'text', text: 'Half a sen' };
    const state = cutOff(
      [{ type: 'message_started', step: 1 } as Event, delta].reduce(advance, begun())
    );
    expect(state.run?.steps[0].message?.content).toEqual([{ type: 'text', text: 'Half a sen' }]);
  });

  it('is as it was where it had ended, and where only a plan waits', () => {
    const ended = { ...NOTHING, run: RUN };
    expect(cutOff(ended)).toBe(ended);
    expect(cutOff(NOTHING)).toBe(NOTHING);
    const waiting = cutOff(plan(1));
    expect(waiting.run?.status).toBe('draft');
    expect(waiting.planApproval).toBeNull();
  });

  it('hears and draws nothing more of it', () => {
    const channel = new Channel(() => undefined);
    const snapshot = { op: 'snapshot', seq: 1, plan_approval: null, ...asking('c2') };
    channel.receive(snapshot);
    const view = new RunView(channel);
    view.update(channel.state);
    expect(view.element.querySelectorAll('button').length).toBeGreaterThan(1);
    channel.cut();
    channel.receive({ ...snapshot, seq: 2 });
    view.update(channel.state);
    expect(view.element.dataset.state).toBe('failed');
    expect(view.element.querySelectorAll('button')).toHaveLength(0);
    view.dispose();
  });
});

describe('the widget', () => {
  class Model implements WidgetModel {
    sent: FrontEndMessage[] = [];
    private callbacks = new Map<string, (message: unknown) => void>();
    on(event: string, callback: (message: unknown) => void): void {
      this.callbacks.set(event, callback);
    }
    off(event: string): void {
      this.callbacks.delete(event);
    }
    send(message: FrontEndMessage): void {
      this.sent.push(message);
    }
    tell(event: string, message?: unknown): void {
      this.callbacks.get(event)?.(message);
    }
  }

  const shown = (): { model: Model; card: HTMLElement } => {
    const made = widget();
    const model = new Model();
    const el = document.createElement('div');
    made.initialize({ model });
    made.render({ model, el });
    model.tell('msg:custom', { op: 'snapshot', seq: 1, plan_approval: null, ...asking('c2') });
    return { model, card: el.querySelector<HTMLElement>('[data-ipyagent=run]') ?? el };
  };

  it('is cut off when ipywidgets says that its comm is dead', () => {
    const { model, card } = shown();
    expect(card.dataset.state).toBe('waiting');
    model.tell('comm_live_update');
    expect(card.dataset.state).toBe('failed');
  });

  it('is cut off when the extension says that its kernel is gone', () => {
    const { card } = shown();
    card.dispatchEvent(new Event('ipyagent:cut-off'));
    expect(card.dataset.state).toBe('failed');
  });
});

describe('the outputs of a cell', () => {
  it('know an unfinished card in both forms', () => {
    expect(isUnfinished(output(CARD))).toBe(true);
    expect(isUnfinished(output({ ...CARD, 'text/plain': 'a widget of yours' }))).toBe(false);
    expect(isUnfinished(output(bundle({ id: 'r1' })))).toBe(true);
    expect(isUnfinished(output(bundle({ id: 'r1', status: 'done' })))).toBe(false);
    expect(isUnfinished(text)).toBe(false);
  });

  it('get a run in place of its card, and keep what was printed around it', () => {
    const run = bundle({ id: 'r1' });
    const outputs = withRun([text, output(CARD), text], run, null);
    expect(outputs).toEqual([text, output(run), text]);
    const ended = bundle({ id: 'r1', status: 'done' });
    expect(withRun(outputs, ended, null)).toEqual([text, output(ended), text]);
  });

  it('lose what an earlier execution has left', () => {
    const run = bundle({ id: 'r2' });
    const old = output(bundle({ id: 'r1', status: 'done' }));
    expect(withRun([text, old], run, null)).toEqual([output(run)]);
  });

  it('get a plan after the run that proposed it', () => {
    const [led, run] = [bundle({ id: 'r1', status: 'done' }), bundle({ id: 'r2' })];
    expect(withRun([], run, led)).toEqual([output(led), output(run)]);
    expect(withRun([text, output(led)], run, led)).toEqual([text, output(led), output(run)]);
  });
});

describe('a cell lacks', () => {
  const summary = (run: Partial<RunSummary>): RunSummary => ({
    id: 'r1',
    cell_id: 'cell',
    live: false,
    prompt: 'Go.',
    model: 'm',
    status: 'done',
    stop_reason: null,
    steps: 1,
    tokens: 0,
    cost_usd: null,
    started_at: '2026-03-01T12:00:00Z',
    duration: 10,
    ...run
  });
  const noon = Date.parse('2026-03-01T12:00:00Z');
  const known = (more: Partial<Known>): Known => ({
    cellId: 'cell',
    source: '%%agent\nGo.',
    outputs: [],
    runs: [],
    placed: null,
    isDrawn: false,
    isRunning: false,
    isUnknown: false,
    saved: noon - 1_000,
    opened: noon + 60_000,
    ...more
  });
  const live = summary({ live: true, status: 'running' });

  it('a run that is on, unless JupyterLab draws it or it is there', () => {
    const wanted = { which: { run_id: 'r1' }, isLive: true };
    expect(missing(known({ runs: [live] }))).toEqual(wanted);
    expect(missing(known({ runs: [live], isDrawn: true }))).toBeNull();
    expect(missing(known({ runs: [live], placed: 'r1' }))).toBeNull();
    expect(missing(known({ runs: [live], placed: 'r0' }))).toEqual(wanted);
    expect(missing(known({ runs: [{ ...live, cell_id: 'other' }] }))).toBeNull();
  });

  it('the end of a run that was put there', () => {
    const wanted = { which: { run_id: 'r1' }, isLive: false };
    expect(missing(known({ runs: [summary({})], placed: 'r1' }))).toEqual(wanted);
    expect(missing(known({ placed: 'r1', isUnknown: true }))).toBeNull();
  });

  it('what became of a card that was saved in mid-run', () => {
    const outputs = [output(CARD)];
    expect(missing(known({ outputs }))).toEqual({ which: { cell_id: 'cell' }, isLive: false });
    expect(missing(known({ outputs, isRunning: true }))).toBeNull();
    expect(missing(known({ outputs, isUnknown: true }))).toBeNull();
    const drawn = [output(bundle({ id: 'r7' }))];
    expect(missing(known({ outputs: drawn }))?.which).toEqual({ run_id: 'r7' });
    const draft = [output(bundle({ id: 'r7', status: 'draft' }))];
    expect(missing(known({ outputs: draft }))).toBeNull();
  });

  it('a run that ended after the notebook was saved and before it was opened', () => {
    const runs = [summary({})];
    expect(missing(known({ runs }))).toEqual({ which: { run_id: 'r1' }, isLive: false });
    expect(missing(known({ runs, saved: noon + 20_000 }))).toBeNull();
    expect(missing(known({ runs, opened: noon + 5_000 }))).toBeNull();
    expect(missing(known({ runs, source: 'print(1)' }))).toBeNull();
    expect(missing(known({ runs, isDrawn: true }))).toBeNull();
    const outputs = [output(bundle({ id: 'r1', status: 'done' }))];
    expect(missing(known({ runs, outputs }))).toBeNull();
  });
});
