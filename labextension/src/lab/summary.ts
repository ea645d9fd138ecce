/** What is said of a run, and of what it asks, in a line. No DOM. */
import { RunState, runState } from '../model';
import { count, dollars, duration, firstLine } from '../view/format';
import { STATES } from '../view/header';
import type { Overview, PendingApproval, RunSummary } from './messages';

/** Characters of a model's name that fit in a line. */
const MODEL = 32;

/** The word for `data-state` of a run, which waits while something of it is asked. */
export function stateOf(run: RunSummary, { approvals }: Overview): RunState {
  const asked = approvals.filter(({ run_id }) => run_id === run.id);
  const ids = asked.map(({ approval_id }) => [approval_id, approval_id] as const);
  return runState({ run, approvals: Object.fromEntries(ids) });
}

/** How a run stands, in words. */
export function stateText(run: RunSummary, overview: Overview): string {
  const isPlan = run.stop_reason === 'planned' && run.status === 'done';
  return isPlan ? 'planned' : STATES[stateOf(run, overview)];
}

/** What a run took, as far as it is known. */
export function taken({ tokens, cost_usd }: Pick<RunSummary, 'tokens' | 'cost_usd'>): string[] {
  return [
    ...(tokens > 0 ? [`${count(tokens)} tok`] : []),
    ...(cost_usd === null ? [] : [dollars(cost_usd)])
  ];
}

/** Everything about a run but its prompt. */
export function factsOf(run: RunSummary, overview: Overview): string[] {
  const time = run.duration === null ? [] : [duration(run.duration)];
  return [stateText(run, overview), shortModel(run.model), ...taken(run), ...time].filter(
    part => part !== ''
  );
}

/** `step 2 of 5`, of a plan that runs. */
function stepText(run: RunSummary, { plan }: Overview): string | null {
  if (!run.live || run.status !== 'running' || plan?.run_id !== run.id) {
    return null;
  }
  const begun = plan.steps.filter(({ status }) => status !== 'pending').length;
  return `step ${Math.max(1, begun)} of ${plan.steps.length}`;
}

/** `ipyagent: claude-… · waiting for you · 1,204 tok · $0.006`, of the newest run. */
export function statusText(overview: Overview): string {
  const { runs, approvals, waiting, model } = overview;
  const run = runs.findLast(({ live }) => live) ?? runs.at(-1);
  const isAsked = approvals.length > 0 || waiting !== null;
  const state =
    run && !isAsked
      ? (stepText(run, overview) ?? stateText(run, overview))
      : isAsked
        ? STATES.waiting
        : 'no runs yet';
  const parts = [shortModel(run?.model ?? model ?? ''), state, ...(run ? taken(run) : [])];
  return `ipyagent: ${parts.filter(part => part !== '').join(' · ')}`;
}

/** A model's name; a long one loses its provider, and its end. */
export function shortModel(model: string): string {
  const name = model.length <= MODEL ? model : (model.split('/').at(-1) ?? model);
  return name.length <= MODEL ? name : `${name.slice(0, MODEL - 1)}…`;
}

/** Approvals are numbered anew in every kernel; runs are not. */
export function approvalKey({ run_id, approval_id }: PendingApproval): string {
  return `${run_id} ${approval_id}`;
}

/** What is asked about: a tool by its name, without its arguments. */
export function askedAbout({ execution }: Pick<PendingApproval, 'execution'>): string {
  if (execution === null) {
    return 'a plan';
  }
  return execution.question === null ? execution.call.name : 'a question';
}

/** The first line of a prompt that has something on it. */
export function promptLine({ prompt }: Pick<RunSummary, 'prompt'>): string {
  return firstLine(prompt) || 'no prompt';
}
