/** Texts that the user sends to a live run, shown until the model reads them. */
import type { ToRun } from '../channel';
import type { SayField, Transcript, UserText } from '../protocol';
import { Child, h, Slot } from './dom';
import { button, field } from './form';
import { reveal } from './reveal';

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

  constructor(private tell: (message: ToRun) => void) {
    this.element.append(this.texts.element, this.problem.element);
  }

  /** Draw the waiting texts, and the field where the run accepts one. */
  update({ unsent, say: open }: Transcript): void {
    this.element.hidden = open === null && unsent.length === 0;
    this.toggleInput(open !== null);
    this.texts.show([unsent, open !== null], () =>
      unsent.map(text => userText(text, open && this.backButton(text)))
    );
    this.problem.showIf(open?.problem ?? '', problem =>
      h('p', { class: 'ipyagent-note ipyagent-error', role: 'alert' }, reveal(problem))
    );
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
      this.tell({ type: 'say', text });
    }
  }

  private backButton({ id, text }: UserText): HTMLElement {
    return button('take-back', 'Take back', `Take back: ${text}`, () => {
      this.tell({ type: 'take_back', text_id: id });
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
