/** Texts that the user sends to a live run, until the model reads them: parts of a card. */
import type { ToRun } from '../channel';
import type { Steering, Unsent } from '../protocol';
import { h, Slot } from './dom';
import { button, promptField } from './form';
import { keep, place } from './morph';
import { nameList } from './names';
import type { Part } from './own';
import { reveal } from './reveal';

/** A button at each text that waits, which takes it back. */
export class UnsentPart implements Part<Unsent> {
  readonly element = null;

  private buttons = new Map<string, HTMLElement>();

  constructor(private send: (message: ToRun) => void) {}

  update({ texts }: Unsent, block: HTMLElement): void {
    const before = this.buttons;
    this.buttons = new Map(
      texts.map(({ id, text }, index) => {
        const back = before.get(id) ?? this.backButton(id, text);
        before.delete(id);
        place(back, block.children[index]);
        return [id, back];
      })
    );
    before.forEach(back => back.remove());
  }

  dispose(): void {
    this.buttons.forEach(back => back.remove());
  }

  private backButton(id: string, text: string): HTMLElement {
    const back = button('take-back', 'Take back', `Take back: ${text}`, () => {
      this.send({ type: 'take_back', text_id: id });
      // The button disappears, and the focus must not go to the page.
      const next = back.closest('.ipyagent-card')?.querySelector('[data-ipyagent="say"]');
      (next as HTMLElement | null)?.focus({ preventScroll: true });
    });
    return keep(h('span', { 'data-lm-suppress-shortcuts': 'true' }, back));
  }
}

/** The field for the next text. */
export class SayPart implements Part<Steering> {
  readonly element: HTMLElement;

  private problem = new Slot(h('div'));
  private input = promptField('say', '', 'Say something to the agent', () => this.sendText());
  /** The last text sent, which returns to the field if it is refused. */
  private last = '';
  private known = '';

  constructor(private send: (message: ToRun) => void) {
    const suppressed = { 'data-lm-suppress-shortcuts': 'true' };
    const parts = [this.problem.element, this.input, nameList(this.input)];
    this.element = keep(h('div', suppressed, ...parts));
  }

  update({ placeholder, problem }: Steering, block: HTMLElement): void {
    place(this.element, block);
    this.problem.showIf(problem, text =>
      h('p', { class: 'ipyagent-note ipyagent-error', role: 'alert' }, reveal(text))
    );
    this.input.placeholder = placeholder;
    if (problem !== '' && problem !== this.known && this.input.value === '') {
      this.input.value = this.last;
    }
    this.known = problem;
  }

  private sendText(): void {
    const text = this.input.value.trim();
    if (text !== '') {
      this.last = text;
      this.input.value = '';
      this.send({ type: 'say', text });
    }
  }
}
