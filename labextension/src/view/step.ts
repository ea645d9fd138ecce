/** One step: what the model thought and said, and the calls that it asked for. */
import { LiveRun, textOf, thinkingOf } from '../model';
import type { OpenMessage, Step } from '../protocol';
import { image } from './displays';
import { h, Slot, Views } from './dom';
import { MarkdownText } from './markdown';
import { StreamedText } from './stream';
import { ToolItem, ToolView } from './tool';

/** A step and what surrounds it. */
export interface StepItem {
  readonly step: Step;
  readonly open: OpenMessage | null;
  readonly approvals: LiveRun['approvals'];
  readonly confirmMode: string;
  readonly isAnswer: boolean;
  /** The model has been asked and has not said anything yet. */
  readonly isWaiting: boolean;
  readonly decide: ToolItem['decide'];
}

export class StepView {
  readonly element = h('section', { class: 'ipyagent-step' });

  private thinking = new ThinkingView();
  private text = new MarkdownText();
  private images = new Slot(h('div', { class: 'ipyagent-media' }));
  private notes = new Slot(h('div'));
  private tools: Views<ToolItem, ToolView>;
  private waiting = h(
    'p',
    { class: 'ipyagent-note ipyagent-asking', hidden: '' },
    'Asking the model'
  );

  constructor() {
    const calls = h('div', { class: 'ipyagent-tools' });
    this.tools = new Views(calls, () => new ToolView());
    this.element.append(
      this.notes.element,
      this.waiting,
      this.thinking.element,
      this.text.element,
      this.images.element,
      calls
    );
  }

  update({ step, open, isAnswer, isWaiting, ...around }: StepItem): void {
    this.notes.show(step.notes, () => step.notes.map(note));
    this.waiting.hidden = !isWaiting;
    this.thinking.update(step, open);
    this.text.update(open?.text ?? textOf(step), open === null);
    this.text.element.toggleAttribute('hidden', this.text.element.textContent.trim() === '');
    mark(this.text.element, isAnswer);
    const images = (step.message?.content ?? []).filter(block => block.type === 'image');
    this.images.show(images, () => images.map(content => image(content, 'Image from the model')));
    this.tools.update(
      step.executions.map(execution => ({
        ...around,
        execution,
        approvalId: approvalOf(around.approvals, execution.call.id)
      }))
    );
  }
}

/** A line about something that happened on the way. */
export function note(text: string): HTMLElement {
  return h('p', { class: 'ipyagent-note' }, text);
}

class ThinkingView {
  private title = h('summary', {});
  private text = new StreamedText('ipyagent-thinking-text');

  readonly element = h(
    'details',
    { class: 'ipyagent-thinking', 'data-ipyagent': 'thinking' },
    this.title,
    this.text.element
  );

  update(step: Step, open: OpenMessage | null): void {
    const text = open?.thinking ?? thinkingOf(step);
    const seconds = step.thinking_seconds;
    this.element.hidden = text === '';
    this.text.update(text);
    this.title.textContent =
      open !== null
        ? 'Thinking…'
        : seconds === null
          ? 'Thinking'
          : `Thinking (${whole(seconds)} s)`;
  }
}

function whole(seconds: number): string {
  return seconds < 1 ? '<1' : seconds.toFixed(0);
}

function mark(element: HTMLElement, isAnswer: boolean): void {
  if (isAnswer) {
    element.dataset.ipyagent = 'answer';
  } else {
    delete element.dataset.ipyagent;
  }
  element.classList.toggle('ipyagent-answer', isAnswer);
}

/** Own keys only: a call's id is whatever the model's service made up. */
function approvalOf(approvals: LiveRun['approvals'], callId: string): string | null {
  return Object.hasOwn(approvals, callId) ? approvals[callId] : null;
}
