/** Asks for a decision: by a form, and the editor that may take its place. */
import type { Answer } from '../channel';
import type { Approval, Call, Plan, Question } from '../protocol';
import { h, setData, Slot } from './dom';
import { CallEditor, PlanEditor } from './editor';
import { approvalForm, Decide } from './form';
import { questionForm } from './question';
import type { Before } from './sanitize';

/** Decides on the approval with that id. */
export type DecideOn = (approvalId: string, answer: Answer) => void;

/** The parts of a run share it: `decide` is null for a saved one, `before` sanitizes HTML first. */
export interface Drawing {
  readonly decide: DecideOn | null;
  readonly before: Before;
}

/** Opens an editor of what is asked about; `done` gets null without a change. */
type Open = (done: (answer: Answer | null) => void) => { element: HTMLElement; focus(): void };

/** The form is made anew for another approval. Saved runs have none: `decide` is null there. */
export class ApprovalView {
  readonly element = h('div');

  private form = new Slot(h('div'));
  private editing = h('div');

  constructor() {
    this.element.append(this.form.element, this.editing);
  }

  /** Ask about a call; its description is for screen readers. */
  askCall(call: Call, decide: DecideOn | null, description = call.name): void {
    const { approval, name, question, request } = call;
    const open: Open = done =>
      new CallEditor(name, request, given =>
        done(given && { decision: 'edit_call', arguments: given })
      );
    this.ask(approval, decide, description, open, question);
  }

  askPlan({ approval, steps }: Plan, decide: DecideOn | null, canEdit: boolean): void {
    const open: Open = done =>
      new PlanEditor(steps, plan => done(plan && { decision: 'edit', plan }));
    this.ask(approval, decide, 'this plan', canEdit ? open : null, null);
  }

  private ask(
    approval: Approval | null,
    decide: DecideOn | null,
    about: string,
    open: Open | null,
    question: Question | null
  ): void {
    const asked = decide === null ? null : approval;
    setData(this.element, 'approval', asked?.id ?? null);
    this.form.show(asked, () => {
      this.closeEditor();
      if (asked === null) {
        return [];
      }
      const send: Decide = answer => decide?.(asked.id, answer);
      return [
        question === null
          ? approvalForm(asked, about, send, open && (once => this.edit(open, once)))
          : questionForm(question, send)
      ];
    });
  }

  /** Show an editor in place of the buttons; the kernel asks about what it makes anew. */
  private edit(open: Open, send: Decide): void {
    const editor = open(answer => {
      this.closeEditor();
      if (answer === null) {
        this.form.element.querySelector<HTMLElement>('[data-ipyagent="edit"]')?.focus();
      } else {
        send(answer);
      }
    });
    this.form.element.hidden = true;
    this.editing.replaceChildren(editor.element);
    editor.focus();
  }

  private closeEditor(): void {
    this.editing.replaceChildren();
    this.form.element.hidden = false;
  }
}
