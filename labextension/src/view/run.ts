/** Draws a live run. */
import { isOver, type ToRun } from '../channel';
import type { Ending, Transcript } from '../protocol';
import { DecideOn } from './approval';
import { h, Slot, Views } from './dom';
import { foldedOf, Part, partsOf, PartView } from './foldedSteps';
import { FooterView } from './footer';
import { HeaderView } from './header';
import { PlanView, TodosView } from './plan';
import { withInlineCode } from './reveal';
import { Before, keepHtml } from './sanitize';
import { note } from './step';
import { UserTextsView } from './userTexts';

/** The connection of a live run: a channel, or what is used of it. */
interface Connection {
  readonly transcript?: Transcript | null;
  readonly isDisconnected?: boolean;
  subscribe?(listener: (transcript: Transcript | null) => void): () => void;
  decide: DecideOn;
  send(message: ToRun): void;
}

/** Draws the states of a run as long as it goes on, changing only parts that changed. */
export class RunView {
  readonly element: HTMLElement;

  private header: HeaderView;
  private notes = new Slot(h('div'));
  private plan: PlanView;
  private todos = new TodosView();
  private ending = new Slot(h('div'));
  private footer = new FooterView();
  private userTexts: UserTextsView;
  private stepList = h('div', { class: 'ipyagent-steps' });
  private parts: Views<Part, PartView>;
  /** The number of folded steps. */
  private folded = 0;
  private unsubscribe: (() => void) | undefined;

  /** `before` sanitizes HTML before our sanitizer does. */
  constructor(
    private run: Connection,
    before: Before = keepHtml
  ) {
    const drawing = { decide: run.decide.bind(run), before };
    this.parts = new Views(this.stepList, () => new PartView(drawing));
    this.header = new HeaderView(() => run.send({ type: 'stop' }));
    this.plan = new PlanView(drawing);
    this.userTexts = new UserTextsView(message => run.send(message));
    this.element = h(
      'article',
      {
        class: 'ipyagent-run ipyagent-live',
        'data-ipyagent': 'run',
        'aria-label': 'Run of ipyagent'
      },
      this.header.element,
      h(
        'div',
        { class: 'ipyagent-content' },
        this.notes.element,
        this.plan.element,
        this.stepList,
        this.ending.element,
        this.footer.element
      ),
      this.userTexts.element
    );
    this.unsubscribe = run.subscribe?.(transcript => this.update(transcript));
    this.update(run.transcript ?? null);
  }

  /** Draw a run; null before its first snapshot. */
  update(transcript: Transcript | null): void {
    this.element.dataset.state = transcript?.header.state ?? 'running';
    // A plan waits on when its kernel is gone, but nothing of it can be stopped.
    const isGone = transcript !== null && (isOver(transcript) || this.run.isDisconnected === true);
    this.header.update(transcript?.header ?? null, isGone);
    if (transcript === null) {
      return;
    }
    const { run_id, notes, plan, header, ending, footer } = transcript;
    if (this.element.dataset.run !== run_id) {
      this.element.dataset.run = run_id;
      this.folded = foldedOf(transcript.steps.length);
      this.parts.update([]);
    }
    this.notes.show(notes, () => notes.map(note));
    this.plan.update(plan, header.state);
    const parts = partsOf(transcript.steps, this.folded);
    this.parts.update(parts);
    this.todos.update(transcript.todos);
    this.placeTodos(parts.findIndex(part => part.at >= transcript.todos_at));
    this.ending.showIf(ending, endingOf);
    this.footer.update(footer);
    this.userTexts.update(transcript);
  }

  /** Place the tasks before a part, or at the end for -1. */
  private placeTodos(index: number): void {
    const parts = [...this.stepList.children].filter(child => child !== this.todos.element);
    const next = index < 0 ? null : parts[index];
    if (this.todos.element.parentNode === null || this.todos.element.nextElementSibling !== next) {
      this.stepList.insertBefore(this.todos.element, next);
    }
  }

  dispose(): void {
    this.unsubscribe?.();
    this.header.dispose();
    this.parts.dispose();
  }
}

function endingOf({ title, text, tone }: Ending): HTMLElement {
  if (tone === 'plain') {
    return note(title);
  }
  const head = h('p', { class: 'ipyagent-error-title' }, withInlineCode(title));
  const more = text === '' ? null : h('p', {}, withInlineCode(text));
  return h('div', { class: 'ipyagent-error-card' }, head, more);
}
