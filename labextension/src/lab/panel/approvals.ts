/** The approvals, questions and plans that wait for the user. */
import type { Answer } from '../../channel';
import { approvalKey } from '../../model';
import type { Overview, PendingApproval, WaitingPlan } from '../../protocol';
import { h, Slot } from '../../view/dom';
import { answerForm, button, reasonField } from '../../view/form';
import type { Gate } from '../../view/gate';
import { PlanView } from '../../view/plan';
import { reveal } from '../../view/reveal';
import type { Before } from '../../view/sanitize';
import { ToolView } from '../../view/tool';
import { Keyed } from './keyed';
import { PanelActions, PanelState, Section } from './section';

/** The state of a run whose plan waits. */
const WAITING = 'waiting';

/** An approval that a cell waits for, or a draft plan. */
type Item =
  | { readonly kind: 'asked'; readonly approval: PendingApproval; readonly about: About }
  | { readonly kind: 'waiting'; readonly plan: WaitingPlan; readonly about: About };

interface About {
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

  update(label: string, { prompt, cellId }: About): void {
    this.element.setAttribute('aria-label', label);
    this.head.show([prompt, cellId], () => [
      h('span', { class: 'ipyagent-panel-prompt' }, reveal(prompt)),
      cellId === null
        ? null
        : button('jump', 'Go to cell', 'Go to the cell that asks', () => this.actions.jump(cellId))
    ]);
  }
}

class CallCard implements CardView {
  private tool: ToolView;
  private card: Card;

  readonly element: HTMLElement;

  constructor(
    private actions: PanelActions,
    before: Before
  ) {
    this.tool = new ToolView(before);
    this.card = new Card(actions, this.tool.element);
    this.element = this.card.element;
  }

  update(item: Item): void {
    if (item.kind !== 'asked' || item.approval.call === null) {
      return;
    }
    const { run_id, call, about } = item.approval;
    this.card.update(`Waiting for you: ${about}`, item.about);
    this.tool.update({
      call,
      decide: (id, answer) => this.actions.decide(run_id, id, answer)
    });
  }
}

class PlanCard implements CardView {
  private plan: PlanView;
  private card: Card;
  private runId = '';

  readonly element: HTMLElement;

  constructor(actions: PanelActions, before: Before) {
    const decide = (id: string, answer: Answer): void => actions.decide(this.runId, id, answer);
    this.plan = new PlanView(decide, before);
    this.card = new Card(actions, this.plan.element);
    this.element = this.card.element;
  }

  update(item: Item): void {
    if (item.kind !== 'asked' || item.approval.plan === null) {
      return;
    }
    const { run_id, plan, about } = item.approval;
    this.runId = run_id;
    this.card.update(`Waiting for you: ${about}`, item.about);
    this.plan.update(plan, WAITING);
  }
}

/** A draft plan: no run waits for it, so the decision runs a new cell. */
class WaitingPlanCard implements CardView {
  private plan: PlanView;
  private form = new Slot(h('div'));
  private card: Card;
  private gate: Gate;

  readonly element: HTMLElement;

  constructor(
    private actions: PanelActions,
    before: Before
  ) {
    this.plan = new PlanView(null, before);
    this.gate = this.plan.gateFor(this.form.element);
    this.card = new Card(actions, this.plan.element, this.form.element);
    this.element = this.card.element;
  }

  update(item: Item): void {
    if (item.kind === 'waiting') {
      this.card.update('Waiting for you: a plan', item.about);
      this.plan.update(item.plan.plan, WAITING);
      this.form.show(item.plan.run_id, () => [this.buttons(item.plan)]);
      this.gate.update();
    }
  }

  private buttons(waiting: WaitingPlan): HTMLElement {
    const decide = (answer: Answer): void => {
      if (answer.decision === 'approve' || answer.decision === 'deny') {
        this.actions.decidePlan(waiting, answer.decision, answer.reason);
      }
    };
    return answerForm('May this plan run?', decide, send => {
      const reason = reasonField('the plan');
      const press = (decision: 'approve' | 'deny') => () =>
        send({ decision, reason: reason.value.trim() });
      return [
        button('approve', 'Approve', 'Approve this plan: run it in a new cell', press('approve')),
        button('deny', 'Deny', 'Deny this plan', press('deny')),
        reason
      ];
    });
  }
}

function cardOf(item: Item, actions: PanelActions, before: Before): CardView {
  if (item.kind === 'waiting') {
    return new WaitingPlanCard(actions, before);
  }
  return item.approval.plan === null
    ? new CallCard(actions, before)
    : new PlanCard(actions, before);
}

function keyOf(item: Item): string {
  return item.kind === 'asked' ? approvalKey(item.approval) : item.plan.run_id;
}

function itemsOf(overview: Overview, cells: ReadonlySet<string>): Item[] {
  const { approvals, waiting, runs } = overview;
  const prompts = new Map(runs.map(run => [run.id, run.title]));
  const about = ({ run_id, cell_id }: { run_id: string; cell_id: string | null }): About => ({
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
