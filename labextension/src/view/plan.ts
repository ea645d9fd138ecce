/** Draws a plan with its approval and progress, and the tasks of a run. */
import type { Plan, PlanStep, Todo } from '../protocol';
import { ApprovalView, Drawing } from './approval';
import { wholeCall } from './call';
import { h, Slot, Views } from './dom';
import { effectsOf } from './effects';
import { reveal } from './reveal';
import { note } from './step';
import { glyph, lineOf } from './tool';

/** The steps of a plan, and buttons while it waits for a decision here. */
export class PlanView {
  readonly element: HTMLElement;

  private goal = new Slot(h('p', { class: 'ipyagent-goal' }));
  private title = new Slot(h('summary', { class: 'ipyagent-note ipyagent-plan-title' }));
  private list = h('ol', { class: 'ipyagent-plan-steps', 'data-ipyagent': 'plan' });
  private fold = h('details', { open: '' }, this.title.element, this.list);
  private steps = new Views<PlanStep, PlanStepView>(
    this.list,
    () => new PlanStepView(this.drawing)
  );
  private approval: ApprovalView;
  private hint = new Slot(h('div'));

  constructor(
    private drawing: Drawing,
    private canEdit = true
  ) {
    this.approval = new ApprovalView(drawing.decide, this.title.element, this.list);
    this.element = h(
      'section',
      { class: 'ipyagent-plan', role: 'group', 'aria-label': 'Plan' },
      this.goal.element,
      this.fold,
      this.approval.element,
      this.hint.element
    );
  }

  /** Draw a plan and the state of its run; null without a plan. */
  update(plan: Plan | null, state: string): void {
    this.element.hidden = plan === null;
    if (plan === null) {
      return;
    }
    if (state === 'done' && this.list.dataset.state !== state) {
      this.fold.open = false; // the calls that were carried out say all of it
    }
    this.list.dataset.state = state;
    this.goal.show(plan.goal, () => [reveal(plan.goal)]);
    const { title, hash } = plan;
    this.title.show([title, hash], () =>
      hash === '' ? [title] : [`${title} · hash `, h('code', {}, reveal(hash))]
    );
    this.steps.update(plan.steps);
    this.hint.showIf(plan.approval === null ? plan.hint : '', note);
    this.approval.askPlan(plan, this.canEdit);
  }
}

class PlanStepView {
  private details = h('details');
  private line = new Slot(h('summary', { class: 'ipyagent-line' }));
  private call = new Slot(h('div', { class: 'ipyagent-body ipyagent-call' }));
  private effects = new Slot(h('div'));
  private isOpen: boolean | null = null;

  readonly element = h('li', { 'data-ipyagent': 'plan-step' }, this.details);

  constructor(private drawing: Drawing) {
    this.details.append(this.line.element, this.call.element, this.effects.element);
  }

  update(step: PlanStep, index: number): void {
    const { status, is_open, request, effects } = step;
    if (is_open !== this.isOpen) {
      this.isOpen = is_open;
      this.details.open = is_open;
    }
    this.element.dataset.state = status;
    const { name, summary, note: why, verdict: decision } = step;
    this.line.show([step, index], () => [
      h('span', { class: 'ipyagent-number' }, `${index + 1}`),
      ...lineOf(step, { 'tool-name': name, summary, 'plan-note': why, decision })
    ]);
    this.call.show(request, () => wholeCall(request));
    this.effects.showIf(effects, each => effectsOf(each, this.drawing.before));
  }
}

/** The tasks of a run; hidden without any. */
export class TodosView {
  private slot = new Slot(
    h('ul', { class: 'ipyagent-todos', 'data-ipyagent': 'todos', 'aria-label': 'Tasks' })
  );

  readonly element = this.slot.element;

  update(todos: Todo[]): void {
    this.element.hidden = todos.length === 0;
    this.slot.show(todos, () => todos.map(item));
  }
}

function item(todo: Todo): HTMLElement {
  const words = h('span', { class: 'ipyagent-todo-text' }, reveal(todo.text));
  return h('li', { 'data-state': todo.status }, glyph(todo), words);
}
