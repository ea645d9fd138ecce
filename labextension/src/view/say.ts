/** What the user says while a run is on: below the run, until the model reads it. */
import type { SayField, Transcript, UserText } from '../protocol';
import { Child, h, Slot } from './dom';
import { button, field } from './form';
import { reveal } from './reveal';

/** How a user says something, and takes it back. */
export interface Saying {
  say(text: string): void;
  takeBack(textId: string): void;
}

/** The texts that wait, and a line to write the next one in. */
export class SayView {
  readonly element = h('div', {
    class: 'ipyagent-say',
    'data-lm-suppress-shortcuts': 'true',
    hidden: ''
  });

  private texts = new Slot(h('div', { 'aria-live': 'polite' }));
  private problem = new Slot(h('div'));
  private input = field('say', '', 'Say something to the agent', () => this.send());
  /** What was sent last: it comes back where it was refused. */
  private last = '';
  private known: SayField | null = null;

  /** `saying` is null for a saved run: nobody would hear it. */
  constructor(private saying: Saying | null) {
    this.element.append(this.texts.element, this.problem.element);
  }

  /** Draw what waits; where nothing can be said, what was never sent is all. */
  update({ unsent, say }: Transcript): void {
    const open = this.saying !== null ? say : null;
    this.element.hidden = open === null && unsent.length === 0;
    this.offer(open !== null);
    const takes = open === null ? null : this.saying;
    this.texts.show([unsent, takes !== null], () =>
      unsent.map(text => userText(text, takes && this.backButton(text, takes)))
    );
    const problem = open?.problem ?? '';
    this.problem.show(problem, () => (problem === '' ? [] : [problemNote(problem)]));
    if (open !== null) {
      this.input.placeholder = open.placeholder;
      this.giveBack(open);
    }
    this.known = open;
  }

  /** The line is there only while it works; it stays the same element, with its focus. */
  private offer(isOpen: boolean): void {
    if (isOpen && this.input.parentNode === null) {
      this.element.append(this.input);
    } else if (!isOpen) {
      this.input.remove();
    }
  }

  private giveBack({ problem }: SayField): void {
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
      this.saying?.say(text);
    }
  }

  private backButton({ id, text }: UserText, saying: Saying): HTMLElement {
    return button('take-back', 'Take back', `Take back: ${text}`, () => {
      saying.takeBack(id);
      // The button goes: the keys must not go to the page with it.
      this.input.focus({ preventScroll: true });
    });
  }
}

/** A text of the user, after what became of it. */
export function userText({ label, text }: UserText, more: Child = null): HTMLElement {
  const words = h('span', { class: 'ipyagent-user-words' }, reveal(text));
  const said = h('p', {}, h('b', {}, `${label}: `), words);
  return h('div', { class: 'ipyagent-user-text', 'data-ipyagent': 'user-text' }, said, more);
}

function problemNote(problem: string): HTMLElement {
  return h('p', { class: 'ipyagent-note ipyagent-error', role: 'alert' }, reveal(problem));
}
