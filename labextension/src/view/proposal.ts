/** A proposed change of a notebook, with buttons to approve or deny it. */
import type { Call } from '../protocol';
import { ApprovalView } from './approval';
import { changesOf } from './diff';
import { h, textBox } from './dom';
import type { Decide } from './form';
import { highlight } from './highlight';
import { reveal, revealWithin } from './reveal';

/** The length of a quoted line. */
const WIDTH = 200;

/** A proposed change, and who proposes it. */
interface Proposed {
  readonly call: Call;
  /** The source of the cell to change; null for a new cell. */
  readonly before: string | null;
  /** The notebook whose agent asks, if it is another. */
  readonly asking: string | null;
}

/** Draws a proposed change and its buttons. */
export class ProposalView {
  readonly element: HTMLElement;

  private approval: ApprovalView;
  private outdated = h(
    'p',
    { class: 'ipyagent-concern', role: 'status', hidden: '' },
    '⚠ You have changed this cell since. Approving would fail and leave your text as it is.'
  );

  constructor(proposed: Proposed, decide: Decide) {
    const { call, before, asking } = proposed;
    const { concern } = call;
    const agent = asking === null ? 'The agent' : `The agent of ${asking}`;
    const what = before === null ? `a new ${kindOf(call)} cell` : 'a change of this cell';
    const attributes = { 'data-ipyagent': 'proposal', 'data-tool': call.name, role: 'group' };
    const head = h('p', { class: 'ipyagent-proposal-title' }, reveal(`${agent} proposes ${what}`));
    const about = h('div', { class: 'ipyagent-proposal-content' }, content(call));
    this.approval = new ApprovalView((_, answer) => decide(answer), head, about);
    this.approval.askCall(call, describe(proposed));
    this.element = h(
      'div',
      { ...attributes, class: 'ipyagent-run ipyagent-proposal', 'aria-label': describe(proposed) },
      head,
      about,
      concern === '' ? null : h('p', { class: 'ipyagent-concern' }, reveal(concern)),
      this.outdated,
      this.approval.element
    );
  }

  /** Warn if the cell has changed since the proposal. */
  update(isOutdated: boolean): void {
    this.outdated.hidden = !isOutdated;
  }

  /** Stop observing the page. */
  dispose(): void {
    this.approval.dispose();
  }
}

/** Describe the change for screen readers. */
function describe({ call, before }: Proposed): string {
  return before === null
    ? `the new ${kindOf(call)} cell ${quote(sourceOf(call))}`
    : `the change of the cell ${quote(before)}`;
}

/** Return the first line that is not blank, cut to fit, in quotes. */
function quote(source: string): string {
  const line = /\S.*/.exec(source)?.[0] ?? '';
  const start = line.length > WIDTH ? `${line.slice(0, WIDTH)}…` : line;
  return line === '' ? 'without text' : `“${start}”`;
}

function content(call: Call): HTMLElement {
  const { preview } = call.request;
  if (preview?.kind === 'diff') {
    return changesOf(preview.text);
  }
  const source = sourceOf(call);
  if (source === '') {
    return h('p', { class: 'ipyagent-note' }, 'It is empty.');
  }
  const code = highlight(source, preview?.language ?? '');
  return textBox(revealWithin(h('code', {}, code)));
}

function sourceOf({ request }: Call): string {
  return typeof request.arguments.source === 'string' ? request.arguments.source : '';
}

function kindOf({ request }: Call): string {
  return typeof request.arguments.kind === 'string' ? request.arguments.kind : 'code';
}
