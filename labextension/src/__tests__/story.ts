/** The stories of the shared fixtures, and states of a run for the tests of the view. */
import MarkdownIt from 'markdown-it';

import { Channel, type FromRun } from '../channel';
import type { SavedRun } from '../lab/outputs';
import type { Approval, Asked, AskedCall, Choice, Drawn, Offers, Snapshot } from '../protocol';
import type { Lab } from '../view/host';
import planned from './fixtures/plan.json';
import told from './fixtures/run.json';

/** An event of the kernel's, and the messages about it. */
export interface Moment {
  type: string;
  call_id: string | null;
  approval_id: string | null;
  messages: FromRun[];
}

export const MOMENTS = told.moments as unknown as Moment[];
export const SNAPSHOT = told.snapshot as unknown as Snapshot;
export const RUN = told.run as unknown as SavedRun;
export const HTML = told.html;
export const PLAN_MOMENTS = planned.moments as unknown as Moment[];
export const PLAN_SNAPSHOT = planned.snapshot as unknown as Snapshot;

/** The run after these moments. */
export function after(moments: readonly Moment[]): Snapshot {
  const channel = new Channel(() => undefined);
  moments.flatMap(({ messages }) => messages).forEach(message => channel.receive(message));
  if (channel.run === null) {
    throw new Error('nothing was told');
  }
  return structuredClone(channel.run);
}

/** The run after all moments up to and including the first that fits. */
export function upTo(fits: (moment: Moment) => boolean): Snapshot {
  return after(MOMENTS.slice(0, MOMENTS.findIndex(fits) + 1));
}

/** The run in which a user is asked about the call with that id. */
export function asking(callId: string): Snapshot {
  return upTo(({ type, call_id }) => type === 'approval_requested' && call_id === callId);
}

/** The plan after its first `moments`: 1 proposed, 2 proposed anew, 3 approved. */
export function plan(moments: number): Snapshot {
  return after(PLAN_MOMENTS.slice(0, moments));
}

/** The start of a run with one open step. */
export function begun(): Snapshot {
  return upTo(({ type }) => type === 'step_started');
}

/** The same with one of its blocks changed, or added in a parent. */
export function withBlock(run: Snapshot, drawn: Partial<Drawn>, parent = 'r'): Snapshot {
  const { key = '' } = drawn;
  const before = run.set.find(each => each.key === key);
  const set = run.set.filter(each => each !== before);
  const order = before ? {} : { [parent]: [...(run.order[parent] ?? []), key] };
  const block: Drawn = { html: '<p></p>', more: '', own: null, ...before, ...drawn, key };
  return { ...run, set: [...set, block], order: { ...run.order, ...order } };
}

/** The same without one of its blocks. */
export function without(run: Snapshot, key: string): Snapshot {
  const order = Object.entries(run.order).map(([parent, keys]): [string, string[]] => [
    parent,
    keys.filter(each => each !== key)
  ]);
  const set = run.set.filter(each => each.key !== key);
  return { ...run, set, order: Object.fromEntries(order) };
}

/** The key of the call that is asked about as c2, and of its form. */
export const PLOT = 'r/s2/c0';
export const FORM = `${PLOT}/a`;

/** The form of a run. */
export function formOf(run: Snapshot, key = FORM): Asked {
  return run.set.find(each => each.key === key)?.own as Asked;
}

/** The run that asks about c2, with its form changed, and the HTML of the call. */
export function asked(changes: Partial<Asked>, html?: string): Snapshot {
  const run = asking('c2');
  const own = { ...formOf(run), ...changes };
  return withBlock(withBlock(run, { key: FORM, own }), { key: PLOT, ...(html && { html }) });
}

export const APPROVAL: Approval = {
  id: 'a2',
  question: 'May run_python run?',
  choices: (['approve', 'always', 'folder', 'deny'] as const).map((answer): Choice => ({
    answer,
    label: `Say ${answer}`
  })),
  covers: ''
};

/** The fields of a call that has no code: it is edited as JSON. */
export const AS_JSON = { code: null, language: 'python' };

/** Return what is asked about one call, and the call that has those arguments. */
export function askAbout(name: string, given: object, changes: Partial<Asked> = {}): Asked {
  const call: AskedCall = { id: 'c1', name, note: '', arguments: { ...given }, ...AS_JSON };
  const none = { about: name, question: null, late: null };
  const about = { run_id: 'run-1', approval: APPROVAL, calls: [call] };
  return { type: 'asked', ...about, ...none, ...changes };
}

/** A call as the kernel draws it, with this code. */
export function callHtml(code: string, status = 'awaiting_approval', name = 'run_python'): string {
  const text = code.replace(/[&<]/g, sign => (sign === '&' ? '&amp;' : '&lt;'));
  return (
    `<details class="ia-tool" data-tool="${name}" data-state="${status}" open>` +
    `<summary class="ia-line"><span class="ia-summary">${name}</span></summary>\n` +
    `<blockquote class="ia-body"><p class="ia-caption">${name}</p>` +
    `<pre><code class="language-python">${text}</code></pre></blockquote></details>`
  );
}

export const OFFERS: Offers = { sources: [], cells: [], go_on: null, undo: null };

/** A saved run of one step, the answer, with calls that ran that code; and its HTML, with Markdown. */
export function savedOf(
  text: string,
  sources: string[] = [],
  changes: Partial<SavedRun> = {}
): [string, SavedRun] {
  const calls = sources.map(() => ({ call: { name: 'run_python' }, status: 'success' }));
  const steps = [{ executions: calls }];
  const offers = { ...OFFERS, sources };
  const code = '<p class="ia-caption">run_python</p>\n<pre><code></code></pre>';
  const tools = calls.map(() => `<details class="ia-tool">${code}</details>`).join('');
  const answer = `<div class="ia-markdown">${new MarkdownIt({ html: true }).render(text)}</div>`;
  const step = `<div class="ia-answer">${answer}${tools}</div>`;
  return [
    `<div class="ipyagent-card ia-done">${step}</div>`,
    { ...RUN, steps, offers, ...changes }
  ];
}

/** JupyterLab around a card: what a test does not give does nothing. */
export function labWith(parts: Partial<Lab>): Lab {
  return {
    insertCells: () => null,
    askBelow: () => null,
    runAgain: () => Promise.resolve(''),
    runCells: () => null,
    edit: () => null,
    chooseModel: () => Promise.resolve(false),
    ask: () => undefined,
    ...parts
  };
}
