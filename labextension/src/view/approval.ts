/** Asks for a decision: by a form, and the editor that may take its place. */
import type { Answer } from '../channel';
import type { Approval, Call, Late, Plan, Question } from '../protocol';
import { h, setData, Slot } from './dom';
import { Editor } from './editor';
import { approvalForm, Decide } from './form';
import { Gate } from './gate';
import { questionForm } from './question';
import type { Before } from './sanitize';

/** Decides on the approval with that id. */
export type DecideOn = (approvalId: string, answer: Answer) => void;

/** The parts of a run share it: `before` sanitizes HTML before our sanitizer does. */
export interface Drawing {
  readonly decide: DecideOn;
  readonly before: Before;
}

/** Opens an editor of what is asked about; `done` gets null without a change. */
type Open = (done: (answer: Answer | null) => void) => { element: HTMLElement; focus(): void };

/** Another approval gets a new form. */
export class ApprovalView {
  readonly element = h('div');

  private form = new Slot(h('div'));
  private editing = h('div');
  private late = new Slot(h('div', { class: 'ipyagent-late', role: 'status' }));
  private gate: Gate | null = null;

  /** `head` and `about` are the first line and the text of what is asked about. */
  constructor(
    private decide: DecideOn,
    private head: HTMLElement,
    private about: HTMLElement
  ) {
    this.element.append(this.form.element, this.editing, this.late.element);
  }

  /** Ask about a call that is drawn; its description is for screen readers. */
  askCall(call: Call, description = call.name): void {
    const { approval, question, late } = call;
    const open: Open = done =>
      new Editor(description, [call], edited =>
        done(edited && { decision: 'edit_call', arguments: edited[0].given })
      );
    this.ask(approval, description, open, question, late);
  }

  /** Ask about a plan that is drawn. */
  askPlan({ approval, steps, late }: Plan, canEdit: boolean): void {
    const open: Open = done =>
      new Editor('the plan', steps, edited => {
        const plan = edited?.map(({ item: { id, name, note }, given }) => ({
          call: { id, name, arguments: given },
          note
        }));
        done(plan === undefined ? null : { decision: 'edit', plan });
      });
    this.ask(approval, 'this plan', canEdit ? open : null, null, late);
  }

  /** Stop observing the page. */
  dispose(): void {
    this.gate?.dispose();
    this.gate = null;
  }

  private ask(
    approval: Approval | null,
    about: string,
    open: Open | null,
    question: Question | null,
    late: Late | null
  ): void {
    setData(this.element, 'approval', approval?.id ?? null);
    this.late.showIf(late, lateNote);
    this.form.show(approval, () => {
      this.closeEditor();
      this.dispose();
      if (approval === null) {
        return [];
      }
      const send: Decide = answer => this.decide(approval.id, answer);
      return [
        question === null
          ? approvalForm(approval, about, send, open && (once => this.edit(open, once)))
          : questionForm(question, send)
      ];
    });
    // A question is answered, not approved.
    if (approval !== null && question === null) {
      this.gate ??= new Gate({ head: this.head, about: this.about, form: this.element });
      this.gate.update();
    }
  }

  /** Show an editor in place of the buttons; the kernel asks again about the result. */
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

/** Return a note that a click came after the decision. */
function lateNote({ decision, at }: Late): HTMLElement {
  const time = new Date(at).toTimeString().slice(0, 5);
  return h('p', { class: 'ipyagent-note' }, `Too late: already ${decision} at ${time}.`);
}
