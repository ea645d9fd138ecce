/** Texts that the user sends to a live run, shown until the model reads them. */
import type { SayField, Transcript, UserText } from '../protocol';
import { Child, h, Slot } from './dom';
import { button, field } from './form';
import { reveal } from './reveal';

/** The actions of a user on texts. */
export interface UserTextActions {
  sendText(text: string): void;
  takeBack(textId: string): void;
}

/** The waiting texts, and a field for the next one. */
export class UserTextsView {
  readonly element = h('div', {
    class: 'ipyagent-say',
    'data-lm-suppress-shortcuts': 'true',
    hidden: ''
  });

  private texts = new Slot(h('div', { 'aria-live': 'polite' }));
  private problem = new Slot(h('div'));
  private input = field('say', '', 'Say something to the agent', () => this.send());
  /** The last text sent, which returns to the field if it is refused. */
  private last = '';
  private known: SayField | null = null;

  /** `actions` is null for a saved run. */
  constructor(private actions: UserTextActions | null) {
    this.element.append(this.texts.element, this.problem.element);
  }

  /** Draw the waiting texts, and the field where the run accepts one. */
  update({ unsent, say }: Transcript): void {
    const open = this.actions !== null ? say : null;
    this.element.hidden = open === null && unsent.length === 0;
    this.toggleInput(open !== null);
    const takes = open === null ? null : this.actions;
    this.texts.show([unsent, takes !== null], () =>
      unsent.map(text => userText(text, takes && this.backButton(text, takes)))
    );
    const problem = open?.problem ?? '';
    this.problem.show(problem, () => (problem === '' ? [] : [problemNote(problem)]));
    if (open !== null) {
      this.input.placeholder = open.placeholder;
      this.restoreRefused(open);
    }
    this.known = open;
  }

  /** Show the field while the run accepts texts; it keeps its element and focus. */
  private toggleInput(isOpen: boolean): void {
    if (isOpen && this.input.parentNode === null) {
      this.element.append(this.input);
    } else if (!isOpen) {
      this.input.remove();
    }
  }

  private restoreRefused({ problem }: SayField): void {
    const isNew = problem !== '' && problem !== this.known?.problem;
    if (isNew && this.input.value === '') {
      this.input.value = this.last;
    }
  }

  private send(): void {
    const text = this.input.value.trim();
    if (text !== '') {
      this.last = text;
      this.input.value = '';
      this.actions?.sendText(text);
    }
  }

  private backButton({ id, text }: UserText, actions: UserTextActions): HTMLElement {
    return button('take-back', 'Take back', `Take back: ${text}`, () => {
      actions.takeBack(id);
      // The button disappears, and the focus must not go to the page.
      this.input.focus({ preventScroll: true });
    });
  }
}

/** Draw a user's text with its state. */
export function userText({ label, text }: UserText, more: Child = null): HTMLElement {
  const words = h('span', { class: 'ipyagent-user-words' }, reveal(text));
  const said = h('p', {}, h('b', {}, `${label}: `), words);
  return h('div', { class: 'ipyagent-user-text', 'data-ipyagent': 'user-text' }, said, more);
}

function problemNote(problem: string): HTMLElement {
  return h('p', { class: 'ipyagent-note ipyagent-error', role: 'alert' }, reveal(problem));
}
