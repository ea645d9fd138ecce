/** One step: what the model thought and said, and the calls that it asked for. */
import { LiveRun, textOf, thinkingOf } from '../model';
import type { OpenMessage, RetryScheduled, Step } from '../protocol';
import { AskingView } from './asking';
import { image } from './displays';
import { h, Slot, Views } from './dom';
import { OPEN, stepFacts } from './facts';
import { MarkdownText } from './growing';
import { revealProse } from './prose';
import { worded } from './reveal';
import type { Before } from './sanitize';
import { StreamedText } from './stream';
import { ToolItem, ToolView } from './tool';

/** A step and what surrounds it. */
export interface StepItem {
  readonly step: Step;
  readonly open: OpenMessage | null;
  readonly approvals: LiveRun['approvals'];
  readonly late: LiveRun['late'];
  /** Why the model was asked, where nobody had said anything; else "". */
  readonly leadIn: string;
  /** The next try, while it is waited for. */
  readonly retry: RetryScheduled | null;
  readonly verbose: number;
  readonly confirmMode: string;
  readonly isPlanned: boolean;
  readonly isAnswer: boolean;
  /** The model has been asked and has not said anything yet. */
  readonly isWaiting: boolean;
  readonly decide: ToolItem['decide'];
}

export class StepView {
  readonly element = h('section', { class: 'ipyagent-step', role: 'group' });

  private thinking = new ThinkingView();
  private text: MarkdownText;
  private images = new Slot(h('div', { class: 'ipyagent-media' }));
  private notes = new Slot(h('div'));
  private tools: Views<ToolItem, ToolView>;
  private asking = new AskingView();
  private facts = new Slot(h('div'));
  private drawn: StepItem | null = null;

  /** `before` is what HTML passes before it comes to this view. */
  constructor(before: Before) {
    const calls = h('div', { class: 'ipyagent-tools' });
    this.text = new MarkdownText(before);
    this.tools = new Views(calls, () => new ToolView(before));
    this.element.append(
      this.notes.element,
      this.asking.element,
      this.thinking.element,
      this.text.element,
      this.images.element,
      calls,
      this.facts.element
    );
  }

  /** Draw `item`; a step that is over stays as it is while the next ones come. */
  update(item: StepItem): void {
    if (this.drawn === null || !isSame(item, this.drawn)) {
      this.drawn = item;
      this.draw(item);
    }
  }

  private draw({ step, open, isAnswer, isWaiting, leadIn, retry, ...around }: StepItem): void {
    this.element.setAttribute('aria-label', isAnswer ? 'Answer' : `Step ${step.number}`);
    const notes = [leadIn, ...step.notes].filter(text => text !== '');
    this.notes.show(notes, () => notes.map(note));
    this.asking.update(isWaiting, retry);
    this.thinking.update(step, open, around.verbose >= OPEN);
    const text = open?.text ?? textOf(step);
    this.text.update(text, open === null);
    this.text.element.hidden = !/\S/.test(text);
    mark(this.text.element, isAnswer);
    const images = (step.message?.content ?? []).filter(block => block.type === 'image');
    this.images.show(images, () => images.map(content => image(content, 'Image from the model')));
    this.tools.update(
      step.executions.map(execution => ({
        ...around,
        execution,
        approvalId: own(around.approvals, execution.call.id),
        late: own(around.late, execution.call.id)
      }))
    );
    const facts = stepFacts(step, around.verbose);
    this.facts.show(facts, () => (facts === '' ? [] : [note(facts)]));
  }

  dispose(): void {
    this.asking.dispose();
  }
}

function isSame(one: StepItem, other: StepItem): boolean {
  return (Object.keys(one) as (keyof StepItem)[]).every(name => one[name] === other[name]);
}

/** A line about something that happened on the way. */
export function note(text: string): HTMLElement {
  return h('p', { class: 'ipyagent-note' }, worded(text));
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

  private isNew = true;

  update(step: Step, open: OpenMessage | null, isOpen: boolean): void {
    const text = open?.thinking ?? thinkingOf(step);
    const seconds = step.thinking_seconds;
    if (this.isNew) {
      this.isNew = false;
      this.element.open = isOpen;
    }
    this.element.hidden = text === '';
    this.text.update(revealProse(text));
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
function own<T>(byCall: Readonly<Record<string, T>>, callId: string): T | null {
  return Object.hasOwn(byCall, callId) ? byCall[callId] : null;
}
