/** A proposed change of a notebook, with buttons to approve or deny it. */
import type { PendingApproval, Proposal } from '../protocol';
import { FormPart } from './approval';
import { h } from './dom';
import type { Decide } from './form';
import { reveal } from './reveal';
import { sanitizeCard } from './sanitize';

/** Draws a proposed change and its buttons. */
export class ProposalView {
  readonly element: HTMLElement;

  private form: FormPart;
  private outdated = h(
    'p',
    { class: 'ia-concern', role: 'status', hidden: '' },
    '⚠ You have changed this cell since. Approving would fail and leave your text as it is.'
  );

  /**
   * `asking` is the notebook whose agent asks, if it is another; `run` runs the cell once the change
   * was made, null for cells that are not code.
   */
  constructor(
    { asked, change }: PendingApproval,
    { title, about }: Proposal,
    asking: string | null,
    decide: Decide,
    run: (() => void) | null
  ) {
    const agent = asking === null ? 'The agent' : `The agent of ${asking}`;
    const head = h('p', { class: 'ipyagent-proposal-title' }, reveal(`${agent} proposes ${title}`));
    const body = h('div', {}, sanitizeCard(change));
    const attributes = {
      class: 'ipyagent-card ipyagent-proposal',
      role: 'group',
      'aria-label': reveal(about),
      'data-ipyagent': 'proposal',
      'data-tool': asked.calls[0].name
    };
    this.element = h('div', attributes, head, body, this.outdated);
    this.form = new FormPart((_, answer) => decide(answer), run);
    this.form.update(asked, this.element, { head, body }, about);
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
