import { describe, expect, it, vi } from 'vitest';

import { Channel, ToRun } from '../channel';
import {
  Bundle,
  CellState,
  findMissingRun,
  insertRun,
  isUnfinished,
  Output,
  SavedRun
} from '../lab/outputs';
import type { RunLine, Snapshot } from '../protocol';
import { Card } from '../view/card';
import widget, { WidgetModel } from '../widget';
import { asking } from './story';

const MIME = 'application/vnd.ipyagent.run+json';
const CARD = {
  'text/plain': 'ipyagent is running…',
  'application/vnd.jupyter.widget-view+json': { model_id: 'x' }
};

const output = (data: Bundle): Output =>
  ({ output_type: 'display_data', data, metadata: {} }) as Output;
const bundle = (run: Partial<SavedRun> & { id: string }): Bundle => ({
  [MIME]: { parent_id: null, cell_id: null, status: 'running', ...run }
});
const SNAPSHOT: Snapshot = { ...asking('c2'), seq: 1 };
const text = output({ 'text/plain': 'from an earlier execution' });

describe('a run whose kernel is gone', () => {
  it('hears and draws nothing more of it', () => {
    const channel = new Channel(() => undefined);
    channel.receive(SNAPSHOT);
    const view = new Card(channel);
    expect(view.element.querySelectorAll('button').length).toBeGreaterThan(1);
    channel.disconnect();
    channel.receive({ ...SNAPSHOT, seq: 2 });
    expect(view.element.querySelector<HTMLElement>('.ipyagent-card')?.dataset.state).toBe('failed');
    expect(view.element.querySelectorAll('button')).toHaveLength(0);
    view.dispose();
  });
});

describe('the widget', () => {
  class Model implements WidgetModel {
    sent: ToRun[] = [];
    private callbacks = new Map<string, (message: unknown) => void>();
    on(event: string, callback: (message: unknown) => void): void {
      this.callbacks.set(event, callback);
    }
    off(event: string): void {
      this.callbacks.delete(event);
    }
    send(message: ToRun): void {
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
    vi.stubGlobal('requestAnimationFrame', (draw: () => void) => draw());
    model.tell('msg:custom', SNAPSHOT);
    vi.unstubAllGlobals();
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
    const outputs = insertRun([text, output(CARD), text], run, null);
    expect(outputs).toEqual([text, output(run), text]);
    const ended = bundle({ id: 'r1', status: 'done' });
    expect(insertRun(outputs, ended, null)).toEqual([text, output(ended), text]);
  });

  it('have a run once, whichever page put it there', () => {
    const ended = bundle({ id: 'r1', status: 'done' });
    const twice = [output(bundle({ id: 'r1' })), text, output(bundle({ id: 'r1' }))];
    expect(insertRun(twice, ended, null)).toEqual([output(ended), text]);
  });

  it('lose what an earlier execution has left', () => {
    const run = bundle({ id: 'r2' });
    const old = output(bundle({ id: 'r1', status: 'done' }));
    expect(insertRun([text, old], run, null)).toEqual([output(run)]);
  });

  it('get a plan after the run that proposed it', () => {
    const [led, run] = [bundle({ id: 'r1', status: 'done' }), bundle({ id: 'r2' })];
    expect(insertRun([], run, led)).toEqual([output(led), output(run)]);
    expect(insertRun([text, output(led)], run, led)).toEqual([text, output(led), output(run)]);
  });
});

describe('a cell lacks', () => {
  const line = (run: Partial<RunLine>): RunLine => ({
    id: 'r1',
    cell_id: 'cell',
    live: false,
    prompt: 'Go.',
    taken_back: [],
    facts: [],
    steps: 1,
    started_at: '2026-03-01T12:00:00Z',
    duration: 10,
    ...run
  });
  const noon = Date.parse('2026-03-01T12:00:00Z');
  const known = (more: Partial<CellState>): CellState => ({
    cellId: 'cell',
    source: '%%agent\nGo.',
    outputs: [],
    runs: [],
    placed: null,
    isDrawn: false,
    isRunning: false,
    isShared: false,
    isUnknown: false,
    saved: noon - 1_000,
    opened: noon + 60_000,
    ...more
  });
  const live = line({ live: true });

  it('a run that is on, unless JupyterLab draws it or it is there', () => {
    const wanted = { which: { run_id: 'r1' }, isLive: true };
    expect(findMissingRun(known({ runs: [live] }))).toEqual(wanted);
    expect(findMissingRun(known({ runs: [live], isDrawn: true }))).toBeNull();
    expect(findMissingRun(known({ runs: [live], placed: 'r1' }))).toBeNull();
    expect(findMissingRun(known({ runs: [live], placed: 'r0' }))).toEqual(wanted);
    expect(findMissingRun(known({ runs: [{ ...live, cell_id: 'other' }] }))).toBeNull();
  });

  it('a run that is on in a shared document, unless another page draws it', () => {
    const shared = { runs: [live], isShared: true };
    expect(findMissingRun(known(shared))?.isLive).toBe(true);
    expect(findMissingRun(known({ ...shared, outputs: [output(CARD)] }))).toBeNull();
    expect(findMissingRun(known({ runs: [live], outputs: [output(CARD)] }))?.isLive).toBe(true);
  });

  it('the end of a run in a shared document whose page is gone', () => {
    const left = { outputs: [output(bundle({ id: 'r1' }))], runs: [line({})], isRunning: true };
    expect(findMissingRun(known(left))).toBeNull();
    expect(findMissingRun(known({ ...left, isShared: true }))).toEqual({
      which: { run_id: 'r1' },
      isLive: false
    });
    expect(findMissingRun(known({ ...left, isShared: true, isDrawn: true }))).toBeNull();
  });

  it('the end of a run that was put there', () => {
    const wanted = { which: { run_id: 'r1' }, isLive: false };
    expect(findMissingRun(known({ runs: [line({})], placed: 'r1' }))).toEqual(wanted);
    expect(findMissingRun(known({ placed: 'r1', isUnknown: true }))).toBeNull();
  });

  it('what became of a card that was saved in mid-run', () => {
    const outputs = [output(CARD)];
    expect(findMissingRun(known({ outputs }))).toEqual({
      which: { cell_id: 'cell' },
      isLive: false
    });
    expect(findMissingRun(known({ outputs, isRunning: true }))).toBeNull();
    expect(findMissingRun(known({ outputs, isUnknown: true }))).toBeNull();
    const drawn = [output(bundle({ id: 'r7' }))];
    expect(findMissingRun(known({ outputs: drawn }))?.which).toEqual({ run_id: 'r7' });
    const draft = [output(bundle({ id: 'r7', status: 'draft' }))];
    expect(findMissingRun(known({ outputs: draft }))).toBeNull();
  });

  it('the mark of a run that was taken back, or put back, since it was drawn', () => {
    const drawn = (more: object) => [output(bundle({ id: 'r1', status: 'done', ...more }))];
    const runs = [{ ...line(), taken_back: ['c1'] }];
    const wanted = { which: { run_id: 'r1' }, isLive: false };
    expect(findMissingRun(known({ runs, outputs: drawn({}) }))).toEqual(wanted);
    expect(findMissingRun(known({ runs, outputs: drawn({ taken_back: ['c1'] }) }))).toBeNull();
    const back = [line()];
    expect(findMissingRun(known({ runs: back, outputs: drawn({ taken_back: ['c1'] }) }))).toEqual(
      wanted
    );
  });

  it('a run that ended after the notebook was saved and before it was opened', () => {
    const runs = [line({})];
    expect(findMissingRun(known({ runs }))).toEqual({ which: { run_id: 'r1' }, isLive: false });
    expect(findMissingRun(known({ runs, saved: noon + 20_000 }))).toBeNull();
    expect(findMissingRun(known({ runs, opened: noon + 5_000 }))).toBeNull();
    expect(findMissingRun(known({ runs, source: 'print(1)' }))).toBeNull();
    expect(findMissingRun(known({ runs, isDrawn: true }))).toBeNull();
    const outputs = [output(bundle({ id: 'r1', status: 'done' }))];
    expect(findMissingRun(known({ runs, outputs }))).toBeNull();
  });
});
