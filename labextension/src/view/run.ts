/** Draws a run, live or saved. */
import type { Answer } from '../channel';
import { isOver } from '../model';
import type { Ending, Transcript } from '../protocol';
import { h, Slot, Views } from './dom';
import { foldedOf, Part, partsOf, PartView } from './foldedSteps';
import { FollowUpView } from './followUp';
import { FooterView } from './footer';
import { HeaderView } from './header';
import { PlanView, TodosView } from './plan';
import { withInlineCode } from './reveal';
import { keepHtml, Before } from './sanitize';
import { UserTextActions, UserTextsView } from './userTexts';
import { note, StepItem } from './step';
import { ranBy, toCells } from './toCell';
import { UndoView } from './undo';

const EXPLORER = 'offline/explorer';

/** The actions of a user on a live run. */
interface Actions extends UserTextActions {
  decide(approvalId: string, answer: Answer): void;
  stop(): void;
}

/** Draws successive states of a run, changing only parts that changed. */
export class RunView {
  readonly element: HTMLElement;

  private header: HeaderView;
  private notes = new Slot(h('div'));
  private plan: PlanView;
  private todos = new TodosView();
  private keep = new Slot(h('div', { class: 'ipyagent-keep-all' }));
  private undo = new UndoView();
  /** True if something handles the card's requests after the run's end. */
  private canAsk: boolean;
  private ending = new Slot(h('div'));
  private footer = new FooterView();
  private userTexts: UserTextsView;
  private followUp = new FollowUpView();
  private stepList = h('div', { class: 'ipyagent-steps' });
  private parts: Views<Part, PartView>;
  /** The number of folded steps. */
  private folded = 0;
  private decide: StepItem['decide'];

  /**
   * `actions` is null for a saved run. `before` sanitizes HTML before our sanitizer does. `isInLab`
   * is true if JupyterLab handles UNDO.
   */
  constructor(actions: Actions | null, before: Before = keepHtml, isInLab = false) {
    this.canAsk = actions !== null || isInLab;
    this.parts = new Views(this.stepList, () => new PartView(before));
    const chooseModel = (): void => {
      this.followUp.isModelKept = false;
    };
    this.header = new HeaderView(actions && (() => actions.stop()), chooseModel);
    this.decide = actions && ((id, answer) => actions.decide(id, answer));
    this.plan = new PlanView(this.decide, before);
    this.userTexts = new UserTextsView(actions);
    this.element = h(
      'article',
      {
        class: actions ? 'ipyagent-run ipyagent-live' : 'ipyagent-run',
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
        this.keep.element,
        this.undo.element,
        this.footer.element
      ),
      this.userTexts.element,
      this.followUp.element
    );
  }

  /** Draw a run; null before its first snapshot. */
  update(transcript: Transcript | null): void {
    this.element.dataset.state = transcript?.header.state ?? 'running';
    this.header.update(transcript && { header: transcript.header, isOver: isOver(transcript) });
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
    const items = transcript.steps.map(step => ({ step, decide: this.decide }));
    const parts = partsOf(items, this.folded, transcript.folds);
    this.parts.update(parts);
    this.todos.update(transcript.todos);
    this.placeTodos(parts.findIndex(part => part.at >= transcript.todos_at));
    this.ending.show(ending, () => (ending === null ? [] : [endingOf(ending)]));
    this.offerCells(transcript);
    this.undo.update(this.canAsk && transcript.undo ? run_id : null);
    this.footer.update(footer);
    this.userTexts.update(transcript);
    this.offerFollowUp(transcript);
  }

  /** Offer to ask on once the run is over. */
  private offerFollowUp(transcript: Transcript): void {
    this.followUp.update(isOver(transcript));
    if (isOver(transcript) && transcript.header.model.startsWith(EXPLORER)) {
      this.stepList.querySelectorAll('.ipyagent-answer').forEach(each => this.followUp.link(each));
    }
  }

  /** Offer all code that succeeded as cells, once the run has ended. */
  private offerCells(transcript: Transcript): void {
    const calls = isOver(transcript) ? transcript.steps.flatMap(step => step.calls) : [];
    const sources = calls.map(ranBy).filter(source => source !== null);
    const hint = 'Insert all code that succeeded as cells below';
    this.keep.show(sources, () =>
      sources.length === 0 ? [] : [toCells('keep-cells', 'Keep as cells', hint, () => sources)]
    );
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
