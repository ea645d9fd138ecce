/** A plan: what is approved as a whole, and how far it is. */
import { isOver, LiveRun, runState } from '../model';
import { planProgress } from '../progress';
import type { Answer, PlanStep, Run, ToolStatus } from '../protocol';
import { reasonField } from './approval';
import { wholeCall } from './call';
import { Child, h, Slot, Views } from './dom';
import { PlanEditor } from './editor';
import { answerForm, button, Decide, markAsked } from './form';
import { argumentSummary, plural } from './format';
import { Gate } from './gate';
import { reveal } from './reveal';
import { note } from './step';
import { glyph, lateNote } from './tool';

/** Characters of the goal that head a plan; all of it is in the cell. */
const GOAL = 200;

interface PlanItem {
  readonly step: PlanStep;
  readonly number: number;
  readonly status: ToolStatus;
  /** What is approved is seen in full. */
  readonly isDraft: boolean;
  readonly hasEnded: boolean;
}

/** The steps of a plan with their states, and the buttons while it waits for a decision here. */
export class PlanView {
  readonly element: HTMLElement;

  private heading = new Slot(h('div', { class: 'ipyagent-plan-heading' }));
  private list = h('ol', { class: 'ipyagent-plan-steps', 'data-ipyagent': 'plan' });
  private steps = new Views<PlanItem, PlanStepView>(this.list, () => new PlanStepView());
  private editing = h('div');
  private form = new Slot(h('div'));
  private late = new Slot(h('div', { class: 'ipyagent-late', role: 'status' }));
  private gate: Gate | null = null;
  private gated: string | null = null;

  /** `decide` is null for a saved run. */
  constructor(private decide: ((approvalId: string, answer: Answer) => void) | null) {
    const parts = [this.heading.element, this.list, this.editing, this.form.element];
    this.element = h('section', { class: 'ipyagent-plan', 'aria-label': 'Plan' }, ...parts);
    this.element.append(this.late.element);
  }

  update(state: LiveRun): void {
    const { run, planApproval, planLate } = state;
    this.element.hidden = run === null || run.plan.length === 0;
    if (run === null || this.element.hidden) {
      return;
    }
    this.list.dataset.state = runState(state);
    this.heading.show([run.prompt, run.plan.length, run.plan_id], () => heading(run));
    this.steps.update(items(run));
    const isDraft = run.status === 'draft';
    const id = this.decide === null ? null : planApproval;
    markAsked(this.form.element, id);
    this.form.show(id ?? [isDraft, run.notes], () => {
      this.closeEditor();
      return id === null ? waits(run) : [this.buttons(run, id)];
    });
    this.late.show(planLate, () => lateNote(planLate));
    this.guard(id);
  }

  /** Let the buttons in `form` wait until all steps were seen. */
  gateFor(form: HTMLElement): Gate {
    return new Gate({ head: this.heading.element, about: this.list, form });
  }

  private guard(id: string | null): void {
    if (id !== this.gated) {
      this.gated = id;
      this.gate?.dispose();
      this.gate = id === null ? null : this.gateFor(this.form.element);
    }
    this.gate?.update();
  }

  private buttons(run: Run, approvalId: string): HTMLElement {
    const decide: Decide = said => this.decide?.(approvalId, said);
    return answerForm('May this plan run?', decide, send => {
      const reason = reasonField('the plan');
      const press = (decision: 'approve' | 'deny') => () =>
        send({ decision, reason: reason.value.trim() });
      const edit = button('edit', 'Edit', 'Edit this plan', () => this.edit(run, send));
      return [
        button('approve', 'Approve', 'Approve this plan', press('approve')),
        edit,
        button('deny', 'Deny', 'Deny this plan', press('deny')),
        reason
      ];
    });
  }

  private edit(run: Run, send: Decide): void {
    const editor = new PlanEditor(run.plan, plan => {
      this.closeEditor();
      if (plan !== null) {
        send({ decision: 'edit', plan });
      }
      this.form.element.querySelector<HTMLElement>('[data-ipyagent="edit"]')?.focus();
    });
    this.list.hidden = this.form.element.hidden = true;
    this.editing.replaceChildren(editor.element);
    editor.focus();
  }

  private closeEditor(): void {
    this.editing.replaceChildren();
    this.list.hidden = this.form.element.hidden = false;
  }
}

class PlanStepView {
  private details = h('details');
  private line = new Slot(h('summary', { class: 'ipyagent-line' }));
  private call = new Slot(h('div', { class: 'ipyagent-body ipyagent-call' }));
  private isDraft: boolean | null = null;

  readonly element = h('li', { 'data-ipyagent': 'plan-step' }, this.details);

  constructor() {
    this.details.append(this.line.element, this.call.element);
  }

  update(item: PlanItem): void {
    const { step, status, isDraft } = item;
    if (isDraft !== this.isDraft) {
      this.isDraft = isDraft;
      this.details.open = isDraft;
    }
    this.element.dataset.state = status;
    this.line.show(item, () => line(item));
    this.call.show(step.call, () => wholeCall({ call: step.call, preview: null }));
  }
}

function items(run: Run): PlanItem[] {
  const isDraft = run.status === 'draft';
  return planProgress(run).map((status, index) => ({
    step: run.plan[index],
    number: index + 1,
    status,
    isDraft,
    hasEnded: isOver(run)
  }));
}

function heading({ prompt, plan, plan_id }: Run): Child[] {
  const line = prompt.trim().replace(/[ \t\n]+/g, ' ');
  const goal = line.length > GOAL ? `${line.slice(0, GOAL)}…` : line;
  const size = `Plan · ${plural(plan.length, 'step')}`;
  return [
    h('p', { class: 'ipyagent-goal' }, reveal(goal)),
    h(
      'p',
      { class: 'ipyagent-note' },
      plan_id === null ? size : `${size} · hash `,
      plan_id === null ? null : h('code', {}, reveal(plan_id))
    )
  ];
}

function line({ step, number, status, hasEnded }: PlanItem): Child[] {
  const isLeftOut = hasEnded && status === 'pending';
  return [
    h('span', { class: 'ipyagent-number' }, `${number}`),
    glyph(status),
    h('span', { class: 'ipyagent-tool-name' }, reveal(step.call.name)),
    h('span', { class: 'ipyagent-summary' }, reveal(argumentSummary(step))),
    step.note === '' ? null : h('span', { class: 'ipyagent-plan-note' }, reveal(step.note)),
    isLeftOut ? h('span', { class: 'ipyagent-decision' }, 'not run') : null
  ];
}

/** How it is decided on, unless a note says so already. */
function waits({ status, plan_id, id, notes }: Run): Child[] {
  const name = plan_id ?? id;
  if (notes.some(each => each.includes(`\`%agent approve ${name}\``))) {
    return [];
  }
  const text = `This plan waits for \`%agent approve ${name}\` or \`%agent deny ${name}\`.`;
  return status === 'draft' ? [note(text)] : [];
}
