/** Asks for the decision on a call: a form, and the editor that may take its place. */
import type { Answer } from '../channel';
import type { Call } from '../protocol';
import { CallEditor } from './callEditor';
import { h, Slot } from './dom';
import { approvalForm, Decide, markApproval } from './form';
import { questionForm } from './question';

export class ApprovalView {
  readonly element = h('div');

  private form = new Slot(h('div'));
  private editing = h('div');

  constructor() {
    this.element.append(this.form.element, this.editing);
  }

  /** Ask about a call that waits; `decide` is null in a saved run, `about` describes the call. */
  update(
    call: Call,
    decide: ((approvalId: string, answer: Answer) => void) | null,
    about = call.name
  ): void {
    const offered = decide === null ? null : call.approval;
    markApproval(this.element, offered?.id ?? null);
    this.form.show(offered, () => {
      this.closeEditor();
      if (offered === null) {
        return [];
      }
      const send: Decide = answer => decide?.(offered.id, answer);
      return [
        call.question === null
          ? approvalForm(offered, about, send, () => this.edit(call, send))
          : questionForm(call.question, send)
      ];
    });
  }

  /** Show an editor in place of the buttons; the kernel asks about the changed call anew. */
  private edit({ name, request }: Call, send: Decide): void {
    const editor = new CallEditor(name, request, given => {
      this.closeEditor();
      if (given === null) {
        this.form.element.querySelector<HTMLElement>('[data-ipyagent=edit-call]')?.focus();
      } else {
        send({ decision: 'edit_call', arguments: given });
      }
    });
    this.form.element.hidden = true;
    this.editing.replaceChildren(editor.element);
    editor.field.focus();
  }

  private closeEditor(): void {
    this.editing.replaceChildren();
    this.form.element.hidden = false;
  }
}
