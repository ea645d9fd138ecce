/** A run, live or saved, drawn into an element. */
import { answeringStep, isOver, leadIn, LiveRun, runState } from '../model';
import type { Answer, Run, StopReason } from '../protocol';
import { Child, h, Slot, Views } from './dom';
import { EarlierView, foldedOf } from './earlier';
import { COUNTED, footer } from './facts';
import { HeaderView } from './header';
import { PlanView } from './plan';
import { reveal, worded } from './reveal';
import { asItIs, Before } from './sanitize';
import { note, StepItem, StepView } from './step';
import { TodosView } from './todos';

/** What a person can do about a live run. */
export interface Actions {
  decide(approvalId: string, answer: Answer): void;
  stop(): void;
}

/** Why a run is not all that was asked for, where its error does not say so. */
const ENDINGS: Partial<Record<StopReason, string>> = {
  max_steps: 'Stopped here: the limit of steps was reached. Raise it with --max-steps.',
  max_seconds: 'Stopped here: the time limit was reached. Raise it with --max-seconds.',
  max_tokens: 'Stopped here: the token limit was reached. Raise it with --max-tokens.',
  max_usd: 'Stopped here: the cost limit was reached. Raise it with --max-usd.',
  timeout:
    'Stopped here: one step took too long. Ask for less at once, or raise agent.step_seconds.',
  context_overflow:
    'The conversation no longer fits what this model can read at once. Begin a new one with ' +
    '`%agent session new`, or ask a model that reads more.',
  content_filter: 'The model’s service withheld the rest of this reply.',
  empty: 'The model ended without saying anything. Ask again, or ask another model.',
  planned: 'Planned: nothing was run for it.',
  denied: 'You denied this plan: nothing was run.',
  unattended: 'A call had to be approved, and nobody could be asked: it was not run.',
  interrupted: 'You stopped this run.'
};

/** Draws every state of one run after the other, changing only what changed. */
export class RunView {
  readonly element: HTMLElement;

  private header: HeaderView;
  private context = new Slot(h('div'));
  private notes = new Slot(h('div'));
  private plan: PlanView;
  private todos = new TodosView();
  private ending = new Slot(h('div'));
  private footer = new Slot(h('footer', { class: 'ipyagent-footer' }));
  private stepList = h('div', { class: 'ipyagent-steps' });
  private steps: Views<StepItem, StepView>;
  private earlier: EarlierView;
  /** How many steps of this run are folded. */
  private folded = 0;
  private decide: StepItem['decide'];
  private runId: string | null = null;

  /**
   * `actions` is null for a saved run: it has no buttons to decide with. `before` is what HTML
   * passes before it comes to this view.
   */
  constructor(actions: Actions | null, before: Before = asItIs) {
    this.steps = new Views(this.stepList, () => new StepView(before));
    this.earlier = new EarlierView(before);
    this.header = new HeaderView(actions && (() => actions.stop()));
    this.decide = actions && ((id, answer) => actions.decide(id, answer));
    this.plan = new PlanView(this.decide);
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
        this.context.element,
        this.notes.element,
        this.plan.element,
        this.earlier.element,
        this.stepList,
        this.ending.element,
        this.footer.element
      )
    );
  }

  update(state: LiveRun): void {
    const { run } = state;
    if (run !== null && this.runId !== run.id) {
      this.runId = run.id;
      this.folded = foldedOf(run.steps.length);
      this.steps.update([]);
      this.earlier.update([]);
    }
    this.element.dataset.state = runState(state);
    this.header.update(state);
    this.context.show(run === null ? '' : toldContext(run), () => contextOf(run));
    this.notes.show(run?.notes ?? [], () => (run?.notes ?? []).map(note));
    this.plan.update(state);
    const items = run === null ? [] : stepItems(run, state, this.decide);
    this.earlier.update(items.slice(0, this.folded));
    this.steps.update(items.slice(this.folded));
    this.todos.update(run);
    this.placeTodos(run);
    const why = run === null ? '' : whyItEnded(run);
    this.ending.show([run?.error, why], () => (run === null ? [] : ending(run, why)));
    const spent = run?.steps.map(({ usage, cost_usd }) => [usage, cost_usd]);
    this.footer.show([spent, run?.trace_id, run?.duration], () =>
      run === null ? [] : footer(run)
    );
  }

  /** Before the answer, once it is there; until then at the end. */
  private placeTodos(run: Run | null): void {
    const answer = run !== null && isOver(run) ? answeringStep(run) : null;
    const index = run?.steps.findIndex(({ number }) => number === answer) ?? -1;
    const steps = [...this.stepList.children].filter(child => child !== this.todos.element);
    const next = index >= this.folded ? steps[index - this.folded] : null;
    if (this.todos.element.parentNode === null || this.todos.element.nextElementSibling !== next) {
      this.stepList.insertBefore(this.todos.element, next);
    }
  }

  dispose(): void {
    this.header.dispose();
    this.earlier.dispose();
    this.steps.dispose();
  }
}

function stepItems(run: Run, state: LiveRun, decide: StepItem['decide']): StepItem[] {
  const { open, approvals, late, retry } = state;
  const answer = answeringStep(run);
  const newest = run.steps.at(-1);
  const hasNoReply = newest?.message === null && newest.finish_reason === null;
  // A plan asks no model: only the next try of a step is waited for.
  const isModelAsked = run.status === 'running' && (run.plan.length === 0 || retry !== null);
  const isAsking = decide !== null && isModelAsked && hasNoReply;
  return run.steps.map((step, index) => ({
    step,
    approvals,
    late,
    leadIn: leadIn(run, index),
    retry: step === newest ? retry : null,
    verbose: run.verbose,
    open: open?.step === step.number ? open : null,
    confirmMode: run.confirm_mode,
    isPlanned: run.stop_reason === 'planned',
    isAnswer: step.number === answer,
    isWaiting: isAsking && step === newest && !open?.text && !open?.thinking,
    decide
  }));
}

/** What the model was told beside the prompt; "" while a plan has not run. */
function toldContext({ status, stop_reason, context }: Run): string {
  return status === 'draft' || stop_reason === 'denied' ? '' : context;
}

function contextOf(run: Run | null): Child[] {
  if (run === null || toldContext(run) === '') {
    return [];
  }
  const text = h('pre', { class: 'ipyagent-pre' }, reveal(run.context));
  const title = h(
    'summary',
    {},
    run.plan.length > 0 ? 'Told to the model' : 'Sent with your prompt'
  );
  const details = h('details', { class: 'ipyagent-context' }, title, text);
  details.open = run.verbose >= COUNTED;
  return [details];
}

function whyItEnded(run: Run): string {
  const { stop_reason, steps } = run;
  if (stop_reason === 'denied' && answeringStep(run) !== null) {
    return '';
  }
  if (stop_reason === 'max_tokens' && steps.at(-1)?.finish_reason === 'length') {
    return 'The reply was cut: it reached the model’s own limit. Ask it to continue.';
  }
  return stop_reason === null ? '' : (ENDINGS[stop_reason] ?? '');
}

function ending(run: Run, why: string): Child[] {
  if (run.error !== null) {
    const [what, ...rest] = run.error.trim().split('\n');
    const more = rest.join('\n').trim();
    const title = h('p', { class: 'ipyagent-error-title' }, worded(what));
    return [
      h(
        'div',
        { class: 'ipyagent-error-card' },
        title,
        more === '' ? null : h('p', {}, worded(more))
      )
    ];
  }
  return why === '' ? [] : [note(why)];
}
