/** A run, live or saved, drawn into an element. */
import { answeringStep, leadIn, LiveRun, runState } from '../model';
import type { Choice, Run, StopReason } from '../protocol';
import { Child, h, Slot, Views } from './dom';
import { COUNTED, footer } from './facts';
import { HeaderView } from './header';
import { note, StepItem, StepView } from './step';

/** What a person can do about a live run. */
export interface Actions {
  decide(approvalId: string, decision: Choice, reason: string): void;
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
  interrupted: 'You stopped this run.'
};

/** Draws every state of one run after the other, changing only what changed. */
export class RunView {
  readonly element: HTMLElement;

  private header: HeaderView;
  private context = new Slot(h('div'));
  private notes = new Slot(h('div'));
  private ending = new Slot(h('div'));
  private footer = new Slot(h('footer', { class: 'ipyagent-footer' }));
  private steps: Views<StepItem, StepView>;
  private runId: string | null = null;

  /** `actions` is null for a saved run: it has no buttons. */
  constructor(private actions: Actions | null) {
    this.header = new HeaderView(actions && (() => actions.stop()));
    const steps = h('div', { class: 'ipyagent-steps' });
    this.steps = new Views(steps, () => new StepView());
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
        steps,
        this.ending.element,
        this.footer.element
      )
    );
  }

  update(state: LiveRun): void {
    const { run } = state;
    if (run !== null && this.runId !== run.id) {
      this.runId = run.id;
      this.steps.update([]);
    }
    this.element.dataset.state = runState(state);
    this.header.update(state);
    this.context.show(run?.context ?? '', () => contextOf(run));
    this.notes.show(run?.notes ?? [], () => (run?.notes ?? []).map(note));
    this.steps.update(run === null ? [] : stepItems(run, state, this.actions));
    const why = run === null ? '' : whyItEnded(run);
    this.ending.show([run?.error, why], () => (run === null ? [] : ending(run, why)));
    const usages = run?.steps.map(({ usage }) => usage);
    this.footer.show([usages, run?.trace_id], () => (run === null ? [] : footer(run)));
  }

  dispose(): void {
    this.header.dispose();
    this.steps.dispose();
  }
}

function stepItems(run: Run, state: LiveRun, actions: Actions | null): StepItem[] {
  const { open, approvals, late, retry } = state;
  const answer = answeringStep(run);
  const newest = run.steps.at(-1);
  const hasNoReply = newest?.message === null && newest.finish_reason === null;
  const isAsking = actions !== null && run.status === 'running' && hasNoReply;
  return run.steps.map((step, index) => ({
    step,
    approvals,
    late,
    leadIn: leadIn(step, run.steps[index - 1]),
    retry: step === newest ? retry : null,
    verbose: run.verbose,
    open: open?.step === step.number ? open : null,
    confirmMode: run.confirm_mode,
    isAnswer: step.number === answer,
    isWaiting: isAsking && step === newest && !open?.text && !open?.thinking,
    decide: actions && ((...said) => actions.decide(...said))
  }));
}

function contextOf(run: Run | null): Child[] {
  if (run === null || run.context === '') {
    return [];
  }
  const text = h('pre', { class: 'ipyagent-pre' }, run.context);
  const title = h('summary', {}, 'Sent with your prompt');
  const details = h('details', { class: 'ipyagent-context' }, title, text);
  details.open = run.verbose >= COUNTED;
  return [details];
}

function whyItEnded({ stop_reason, steps }: Run): string {
  if (stop_reason === 'max_tokens' && steps.at(-1)?.finish_reason === 'length') {
    return 'The reply was cut: it reached the model’s own limit. Ask it to continue.';
  }
  return stop_reason === null ? '' : (ENDINGS[stop_reason] ?? '');
}

function ending(run: Run, why: string): Child[] {
  if (run.error !== null) {
    const [what, ...rest] = run.error.trim().split('\n');
    const more = rest.join('\n').trim();
    const title = h('p', { class: 'ipyagent-error-title' }, what);
    return [
      h('div', { class: 'ipyagent-error-card' }, title, more === '' ? null : h('p', {}, more))
    ];
  }
  return why === '' ? [] : [note(why)];
}
