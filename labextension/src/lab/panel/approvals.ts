/** The approvals, questions and plans that wait for the user. */
import type { Answer } from '../../channel';
import { approvalKey } from '../../model';
import type { Overview, PendingApproval } from '../../protocol';
import { h, Slot, Views } from '../../view/dom';
import { button } from '../../view/form';
import { PlanView } from '../../view/plan';
import { reveal } from '../../view/reveal';
import { keepHtml } from '../../view/sanitize';
import { ToolView } from '../../view/tool';
import type { PanelActions } from './controller';
import { Part, Section } from './section';

/** An approval that a cell waits for, or a plan that no cell asks about. */
interface Item {
  readonly approval: PendingApproval;
  readonly prompt: string;
  /** Null if the cell was deleted. */
  readonly cellId: string | null;
}

/** Return the section with all that waits. */
export function approvalsSection(actions: PanelActions): Part {
  const list = h('div');
  const nothing = h('p', { class: 'ipyagent-note' });
  const notify = button(
    'enable-notifications',
    'Notify me when I look elsewhere',
    'Notify me when an approval waits and this page is in the background',
    () => actions.notify()
  );
  const section = new Section('approvals', 'Waiting for you', nothing, list, notify);
  const make = ({ approval }: Item): Card => new Card(actions, approval);
  const cards = new Views(list, make, ({ approval }) => approvalKey(approval));
  return {
    element: section.element,
    update({ overview, isReachable, canNotify, cells }) {
      const items = overview === null || !isReachable ? [] : listItems(overview, cells);
      section.show(overview !== null, items.length > 0 ? `${items.length}` : '');
      section.keepFocus(() => cards.update(items));
      nothing.hidden = items.length > 0;
      nothing.textContent = isReachable
        ? 'Nothing waits for you.'
        : 'The kernel cannot be reached now, so nothing can be decided here.';
      notify.hidden = !canNotify || items.length === 0;
    }
  };
}

/** Return the number of approvals and plans that wait. */
export function countWaiting({ approvals, waiting }: Overview): number {
  return approvals.length + (waiting === null ? 0 : 1);
}

/** A question below its prompt, and a button that leads to its cell. */
class Card {
  readonly element = h('article', {
    class: 'ipyagent-panel-card',
    'data-ipyagent': 'panel-approval'
  });

  private head = new Slot(h('div', { class: 'ipyagent-panel-about' }));
  private call: ToolView | null = null;
  private plan: PlanView | null = null;

  constructor(
    private actions: PanelActions,
    asked: PendingApproval
  ) {
    const decide = (id: string, answer: Answer): void => actions.decide(asked, id, answer);
    if (asked.call !== null) {
      this.call = new ToolView({ decide, before: keepHtml });
    } else {
      // One that no cell asks about runs as it is.
      this.plan = new PlanView({ decide, before: keepHtml }, asked.approval_id !== '');
    }
    this.element.append(this.head.element, (this.call ?? this.plan)?.element ?? '');
  }

  update({ approval, prompt, cellId }: Item): void {
    this.element.dataset.run = approval.run_id;
    this.element.setAttribute('aria-label', `Waiting for you: ${approval.about}`);
    this.head.show([prompt, cellId], () => [
      h('span', { class: 'ipyagent-panel-prompt' }, reveal(prompt)),
      cellId === null
        ? null
        : button('jump', 'Go to cell', 'Go to the cell that asks', () => this.actions.jump(cellId))
    ]);
    if (approval.call !== null) {
      this.call?.update(approval.call);
    }
    this.plan?.update(approval.plan, 'waiting');
  }
}

function listItems({ approvals, waiting, runs }: Overview, cells: ReadonlySet<string>): Item[] {
  return [...approvals, ...(waiting === null ? [] : [waiting])].map(approval => ({
    approval,
    prompt: runs.find(({ id }) => id === approval.run_id)?.title ?? '',
    cellId: approval.cell_id !== null && cells.has(approval.cell_id) ? approval.cell_id : null
  }));
}
