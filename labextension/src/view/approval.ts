/**
 * Asks for a decision: by a form, with the editor that may take its place; and at a cell that would
 * change.
 */
import type { DecideOn } from '../channel';
import type { Asked, Late, PendingApproval, Proposal } from '../protocol';
import { h, NO_SHORTCUTS, Slot } from './dom';
import { Editor } from './editor';
import { approvalForm, Decide, questionForm } from './form';
import { Gate } from './gate';
import { keep, place } from './morph';
import type { Part } from './own';
import { reveal } from './reveal';
import { sanitizeCard } from './sanitize';

/** The elements that show what is asked about: its first line, and all of it. */
export interface AskedAbout {
  readonly head: HTMLElement;
  readonly body: HTMLElement;
}

/** The form at a call, a plan or a proposal; another approval gets a new one. */
export class FormPart implements Part<Asked> {
  readonly element = keep(h('div'));

  private form = new Slot(h('div'));
  private editing = h('div');
  private late = new Slot(h('div', { role: 'status' }));
  private gate: Gate | null = null;
  private editor: Editor | null = null;
  /** Stands at the code, where that has a caption; else with the other buttons. */
  private pencil: HTMLElement | null = null;
  private atCode = keep(h('span', NO_SHORTCUTS));

  /** `run` runs what was approved, where that can be. */
  constructor(
    private decide: DecideOn,
    private run: (() => void) | null = null
  ) {
    this.element.append(this.form.element, this.editing, this.late.element);
  }

  /** Ask; `about` describes it for screen readers. A gate watches what is `shown`, if anything. */
  update(asked: Asked, block: HTMLElement, shown = callIn(block), about = asked.about): void {
    place(this.element, block);
    const { run_id, approval, question, late, calls } = asked;
    this.late.showIf(late, lateNote);
    this.form.show(approval, () => {
      this.closeEditor();
      this.dispose();
      delete this.element.dataset.approval;
      if (approval === null) {
        return [];
      }
      // Other parts of the page find the form by these.
      Object.assign(this.element.dataset, { run: run_id, approval: approval.id });
      const send: Decide = answer => {
        this.pencil?.toggleAttribute('disabled', true);
        this.decide(approval.id, answer);
      };
      const edit = calls.length > 0 ? (once: Decide) => this.edit(asked, about, once) : null;
      const form =
        question === null
          ? approvalForm(approval, about, send, edit, this.run)
          : questionForm(question, send);
      this.pencil = form.querySelector('[data-ipyagent="edit"]');
      return [form];
    });
    const caption = shown?.body.querySelector('.ia-caption') ?? null;
    if (this.pencil !== null && caption !== null && !caption.contains(this.pencil)) {
      this.atCode.replaceChildren(this.pencil);
      caption.append(this.atCode);
    }
    // A question is answered, not approved.
    if (approval !== null && question === null && shown !== null) {
      this.gate ??= new Gate(shown, this.element);
      this.gate.update();
    }
  }

  /** Stop observing the page. */
  dispose(): void {
    this.gate?.dispose();
    this.gate = null;
    this.editor?.dispose();
    this.atCode.remove();
    this.pencil = null;
  }

  /** Show an editor in place of the buttons; the kernel asks again about the result. */
  private edit({ calls }: Asked, about: string, send: Decide): void {
    const editor = new Editor(about, calls, edited => {
      this.closeEditor();
      if (edited === null) {
        this.pencil?.focus();
      } else {
        send({ decision: 'edit', calls: edited });
      }
    });
    this.form.element.hidden = true;
    this.editor = editor;
    this.editing.replaceChildren(editor.element);
    editor.focus();
  }

  private closeEditor(): void {
    this.editor?.dispose();
    this.editor = null;
    this.editing.replaceChildren();
    this.form.element.hidden = false;
  }
}

/** Return the call or the plan that a block is in. */
function callIn(block: HTMLElement): AskedAbout | null {
  const body = block.closest('details');
  const head = body?.querySelector('summary');
  return body && head ? { head, body } : null;
}

/** Return a note that a click came after the decision. */
function lateNote({ decision, at }: Late): HTMLElement {
  const time = new Date(at).toTimeString().slice(0, 5);
  return h('p', { class: 'ipyagent-note' }, `Too late: already ${decision} at ${time}.`);
}

/** Draws a proposed change of a notebook, with buttons to approve or deny it. */
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
