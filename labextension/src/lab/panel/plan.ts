/** The newest run's plan and tasks. */
import type { PlanStepLine } from '../../protocol';
import { h, Slot } from '../../view/dom';
import { TodosView } from '../../view/plan';
import { reveal } from '../../view/reveal';
import { glyph } from '../../view/tool';
import type { PanelState } from './controller';
import { Section } from './section';

/** The progress of a plan; a waiting plan is among the approvals. */
export class PlanSection {
  private plan = new Slot(h('ol', { class: 'ipyagent-panel-plan', 'aria-label': 'Plan' }));
  private todos = new TodosView();
  private section: Section;

  readonly element: HTMLElement;

  constructor() {
    const parts = [this.plan.element, this.todos.element];
    this.section = new Section('plan', 'Plan and tasks', ...parts);
    this.element = this.section.element;
  }

  update({ overview }: PanelState): void {
    const { plan = [], todos = [], done = '' } = overview ?? {};
    this.section.show(done !== '', done);
    this.plan.element.hidden = plan.length === 0;
    this.plan.show(plan, () => plan.map(stepOf));
    this.todos.update(todos);
  }
}

function stepOf(step: PlanStepLine): HTMLElement {
  const name = h('span', { class: 'ipyagent-tool-name' }, reveal(step.name));
  const words = h('span', { class: 'ipyagent-panel-step' }, name, ' ', reveal(step.note));
  return h('li', { 'data-state': step.status }, glyph(step), words);
}
