/** A proposed change of a notebook, with buttons to approve or deny it. */
import type { AskedCall, PendingApproval } from '../protocol';
import { ApprovalView } from './approval';
import { h } from './dom';
import type { Decide } from './form';
import { reveal } from './reveal';
import { sanitizeCard } from './sanitize';

/** The length of a quoted line. */
const WIDTH = 200;

/** A proposed change, and who proposes it. */
interface Proposed {
  readonly approval: PendingApproval;
  readonly call: AskedCall;
  /** The source of the cell to change; null for a new cell. */
  readonly before: string | null;
  /** The notebook whose agent asks, if it is another. */
  readonly asking: string | null;
}

/** Draws a proposed change and its buttons. */
export class ProposalView {
  readonly element: HTMLElement;

  private form: ApprovalView;
  private outdated = h(
    'p',
    { class: 'ia-concern', role: 'status', hidden: '' },
    '⚠ You have changed this cell since. Approving would fail and leave your text as it is.'
  );

  /** `run` runs the cell once the change was made; null for cells that are not code. */
  constructor(proposed: Proposed, decide: Decide, run: (() => void) | null) {
    const { approval, call, before, asking } = proposed;
    const agent = asking === null ? 'The agent' : `The agent of ${asking}`;
    const what = before === null ? `a new ${kindOf(call)} cell` : 'a change of this cell';
    const attributes = { 'data-ipyagent': 'proposal', 'data-tool': call.name, role: 'group' };
    const head = h('p', { class: 'ipyagent-proposal-title' }, reveal(`${agent} proposes ${what}`));
    const body = h('div', {}, sanitizeCard(approval.change));
    const description = describe(proposed);
    this.form = new ApprovalView((_, answer) => decide(answer), run);
    this.form.update(approval.asked, { head, body }, description);
    this.element = h(
      'div',
      { ...attributes, class: 'ipyagent-card ipyagent-proposal', 'aria-label': description },
      head,
      body,
      this.outdated,
      this.form.element
    );
  }

  /** Warn if the cell has changed since the proposal. */
  update(isOutdated: boolean): void {
    this.outdated.hidden = !isOutdated;
  }

  /** Stop observing the page. */
  dispose(): void {
    this.form.dispose();
  }
}

/** Describe the change for screen readers. */
function describe({ call, before }: Proposed): string {
  return before === null
    ? `the new ${kindOf(call)} cell ${quote(argumentOf(call, 'source'))}`
    : `the change of the cell ${quote(before)}`;
}

/** Return the first line that is not blank, cut to fit, in quotes. */
function quote(source: string): string {
  const line = /\S.*/.exec(source)?.[0] ?? '';
  const start = line.length > WIDTH ? `${line.slice(0, WIDTH)}…` : line;
  return line === '' ? 'without text' : `“${start}”`;
}

function argumentOf({ request }: AskedCall, name: string): string {
  const value = request.arguments[name];
  return typeof value === 'string' ? value : '';
}

function kindOf(call: AskedCall): string {
  return argumentOf(call, 'kind') || 'code';
}
