/** The approvals, questions and plans that wait for the user. */
import type { Answer } from '../../channel';
import { approvalKey } from '../../model';
import type { Approval, Overview, PendingApproval, WaitingPlan } from '../../protocol';
import { h, Slot } from '../../view/dom';
import { approvalForm, button } from '../../view/form';
import { PlanView } from '../../view/plan';
import { reveal } from '../../view/reveal';
import type { Before } from '../../view/sanitize';
import { ToolView } from '../../view/tool';
import { Keyed } from './keyed';
import { PanelActions, PanelState, Section } from './section';

/** The state of a run whose plan waits. */
const WAITING = 'waiting';

/** The approval of a plan for which no cell waits. */
const DRAFT: Approval = {
  id: '',
  question: 'May this plan run?',
  choices: [
    { answer: 'approve', label: 'Approve' },
    { answer: 'deny', label: 'Deny' }
  ],
  covers: ''
};

/** An approval that a cell waits for, or a draft plan. */
type Item =
  | { readonly kind: 'asked'; readonly approval: PendingApproval; readonly about: About }
  | { readonly kind: 'waiting'; readonly plan: WaitingPlan; readonly about: About };

interface About {
  readonly runId: string;
  readonly prompt: string;
  /** Null if the cell was deleted. */
  readonly cellId: string | null;
}

export class ApprovalsSection {
  private list = h('div');
  private nothing = h('p', { class: 'ipyagent-note' });
  private cards: Keyed<Item, CardView>;
  private notify: HTMLElement;
  private section: Section;

  readonly element: HTMLElement;

  constructor(actions: PanelActions, before: Before) {
    this.notify = button(
      'enable-notifications',
      'Notify me when I look elsewhere',
      'Notify me when an approval waits and this page is in the background',
      () => actions.notify()
    );
    const parts = [this.nothing, this.list, this.notify];
    this.section = new Section('approvals', 'Waiting for you', ...parts);
    this.element = this.section.element;
    this.cards = new Keyed(this.list, keyOf, item => cardOf(item, actions, before));
  }

  update(state: PanelState): void {
    const { overview, isReachable, canNotify } = state;
    const items = overview === null || !isReachable ? [] : itemsOf(overview, state.cells);
    this.section.show(overview !== null, items.length > 0 ? `${items.length}` : '');
    this.section.keepFocus(() => this.cards.update(items));
    this.nothing.hidden = items.length > 0;
    this.nothing.textContent = isReachable
      ? 'Nothing waits for you.'
      : 'The kernel cannot be reached now, so nothing can be decided here.';
    this.notify.hidden = !canNotify || items.length === 0;
  }
}

/** Return the number of approvals and plans that wait. */
export function countWaiting({ approvals, waiting }: Overview): number {
  return approvals.length + (waiting === null ? 0 : 1);
}

interface CardView {
  readonly element: HTMLElement;
  update(item: Item): void;
}

/** The frame of all cards: the prompt, and a button that leads to its cell. */
class Card {
  readonly element = h('article', {
    class: 'ipyagent-panel-card',
    'data-ipyagent': 'panel-approval'
  });

  private head = new Slot(h('div', { class: 'ipyagent-panel-about' }));

  constructor(
    private actions: PanelActions,
    ...parts: HTMLElement[]
  ) {
    this.element.append(this.head.element, ...parts);
  }

  update(label: string, { runId, prompt, cellId }: About): void {
    this.element.dataset.run = runId;
    this.element.setAttribute('aria-label', label);
    this.head.show([prompt, cellId], () => [
      h('span', { class: 'ipyagent-panel-prompt' }, reveal(prompt)),
      cellId === null
        ? null
        : button('jump', 'Go to cell', 'Go to the cell that asks', () => this.actions.jump(cellId))
    ]);
  }
}

function cardOf(item: Item, actions: PanelActions, before: Before): CardView {
  if (item.kind === 'waiting') {
    return draftCard(actions, before);
  }
  return item.approval.plan === null ? callCard(actions, before) : planCard(actions, before);
}

function callCard(actions: PanelActions, before: Before): CardView {
  let runId = '';
  const decide = (id: string, answer: Answer): void => actions.decide(runId, id, answer);
  const tool = new ToolView({ decide, before });
  const card = new Card(actions, tool.element);
  const update = (item: Item): void => {
    if (item.kind === 'asked' && item.approval.call !== null) {
      runId = item.approval.run_id;
      card.update(`Waiting for you: ${item.approval.about}`, item.about);
      tool.update(item.approval.call);
    }
  };
  return { element: card.element, update };
}

function planCard(actions: PanelActions, before: Before): CardView {
  let runId = '';
  const decide = (id: string, answer: Answer): void => actions.decide(runId, id, answer);
  const plan = new PlanView({ decide, before });
  const card = new Card(actions, plan.element);
  const update = (item: Item): void => {
    if (item.kind === 'asked' && item.approval.plan !== null) {
      runId = item.approval.run_id;
      card.update(`Waiting for you: ${item.approval.about}`, item.about);
      plan.update(item.approval.plan, WAITING);
    }
  };
  return { element: card.element, update };
}

/** Return the card of a draft plan: no run waits for it, so the decision runs a new cell. */
function draftCard(actions: PanelActions, before: Before): CardView {
  const plan = new PlanView({ decide: null, before });
  const form = new Slot(h('div'));
  const gate = plan.gateFor(form.element);
  const card = new Card(actions, plan.element, form.element);
  const update = (item: Item): void => {
    if (item.kind === 'waiting') {
      card.update('Waiting for you: a plan', item.about);
      plan.update(item.plan.plan, WAITING);
      form.show(item.plan.run_id, () => [draftForm(item.plan, actions)]);
      gate.update(item.plan.run_id);
    }
  };
  return { element: card.element, update };
}

function draftForm(waiting: WaitingPlan, actions: PanelActions): HTMLElement {
  const decide = (answer: Answer): void => {
    if (answer.decision === 'approve' || answer.decision === 'deny') {
      actions.decidePlan(waiting, answer.decision, answer.reason);
    }
  };
  return approvalForm(DRAFT, 'this plan, which runs in a new cell', decide, null);
}

function keyOf(item: Item): string {
  return item.kind === 'asked' ? approvalKey(item.approval) : item.plan.run_id;
}

function itemsOf(overview: Overview, cells: ReadonlySet<string>): Item[] {
  const { approvals, waiting, runs } = overview;
  const prompts = new Map(runs.map(run => [run.id, run.title]));
  const about = ({ run_id, cell_id }: { run_id: string; cell_id: string | null }): About => ({
    runId: run_id,
    prompt: prompts.get(run_id) ?? '',
    cellId: cell_id !== null && cells.has(cell_id) ? cell_id : null
  });
  const calls = approvals.map((approval): Item => ({
    kind: 'asked',
    approval,
    about: about(approval)
  }));
  const plan: Item[] =
    waiting === null ? [] : [{ kind: 'waiting', plan: waiting, about: about(waiting) }];
  return [...calls, ...plan];
}
