/** Draws a step: the model's thinking and text, and its calls. */
import type { Call, Fold, Step } from '../protocol';
import type { Drawing } from './approval';
import { WaitingView } from './waiting';
import { media } from './displays';
import { h, setData, Slot, Views } from './dom';
import { MarkdownText } from './streamedMarkdown';
import { revealProse } from './prose';
import { withInlineCode } from './reveal';
import { userText } from './userTexts';
import { StreamedText } from './stream';
import { ToolView } from './tool';

export class StepView {
  readonly element = h('section', { class: 'ipyagent-step', role: 'group' });

  private userTexts = new Slot(h('div'));
  private thinking = new ThinkingView();
  private text: MarkdownText;
  private images = new Slot(h('div', { class: 'ipyagent-media' }));
  private notes = new Slot(h('div'));
  private tools: Views<Call, ToolView>;
  private asking = new WaitingView();
  private facts = new Slot(h('div'));
  private drawn: Step | null = null;

  constructor(private drawing: Drawing) {
    const calls = h('div', { class: 'ipyagent-tools' });
    this.text = new MarkdownText(drawing.before);
    this.tools = new Views(calls, () => new ToolView(drawing));
    this.element.append(
      this.userTexts.element,
      this.notes.element,
      this.asking.element,
      this.thinking.element,
      this.text.element,
      this.images.element,
      calls,
      this.facts.element
    );
  }

  /** Draw a step, if it has changed. */
  update(step: Step): void {
    if (this.drawn !== step) {
      this.drawn = step;
      this.draw(step);
    }
  }

  private draw(step: Step): void {
    const { user_texts, notes, text, numbers, images, calls, facts } = step;
    this.element.setAttribute('aria-label', step.label);
    this.userTexts.show(user_texts, () => user_texts.map(each => userText(each)));
    this.notes.show(notes, () => notes.map(note));
    this.asking.update(step.waiting);
    this.thinking.update(step.thinking);
    this.text.update(text, !step.is_streaming, numbers);
    this.text.element.hidden = text === '';
    setData(this.text.element, 'ipyagent', step.is_answer ? 'answer' : null);
    this.text.element.classList.toggle('ipyagent-answer', step.is_answer);
    this.images.show(images, () => images.map(each => media(each, this.drawing.before)));
    this.tools.update(calls);
    this.facts.showIf(facts, note);
  }

  dispose(): void {
    this.asking.dispose();
  }
}

/** Return a line with a note. */
export function note(text: string): HTMLElement {
  return h('p', { class: 'ipyagent-note' }, withInlineCode(text));
}

class ThinkingView {
  private title = h('summary', {}, 'Thinking');
  private text = new StreamedText('ipyagent-thinking-text');

  readonly element = h(
    'details',
    { class: 'ipyagent-thinking', 'data-ipyagent': 'thinking', hidden: '' },
    this.title,
    this.text.element
  );

  private isNew = true;

  constructor() {
    // Focusable, so that keys can scroll it.
    this.text.element.tabIndex = 0;
  }

  update(thinking: Fold | null): void {
    this.element.hidden = thinking === null;
    if (thinking === null) {
      return;
    }
    if (this.isNew) {
      this.isNew = false;
      this.element.open = thinking.is_open;
    }
    this.text.update(revealProse(thinking.text));
    this.title.textContent = thinking.title;
  }
}
