/** A run as the events tell it: pure state, no DOM. */
import type {
  Event,
  LateMessage,
  OpenMessage,
  RetryScheduled,
  Run,
  Step,
  ToolExecution
} from './protocol';

/**
 * All that the view draws. `approvals` maps the id of a waiting call to its approval id, `late` that
 * of a call to what had been decided before this page's answer came; `planApproval` and `planLate`
 * are the same for the plan; `retry` is waited for now.
 */
export interface LiveRun {
  readonly run: Run | null;
  readonly open: OpenMessage | null;
  readonly approvals: Readonly<Record<string, string>>;
  readonly retry: RetryScheduled | null;
  readonly late: Readonly<Record<string, Late>>;
  readonly planApproval: string | null;
  readonly planLate: Late | null;
}

/** What had been decided, and when (ISO 8601). */
export type Late = Readonly<Pick<LateMessage, 'decision' | 'at'>>;

/** What `data-state` of a drawn run can be. */
export type RunState = 'running' | 'waiting' | 'done' | 'partial' | 'failed' | 'cancelled';

export const NOTHING: LiveRun = {
  run: null,
  open: null,
  approvals: {},
  retry: null,
  late: {},
  planApproval: null,
  planLate: null
};

const NEW_STEP: Omit<Step, 'number' | 'closing'> = {
  message: null,
  finish_reason: null,
  usage: { prompt_tokens: 0, completion_tokens: 0, cache_read_tokens: 0, cache_creation_tokens: 0 },
  cost_usd: null,
  thinking_seconds: null,
  executions: [],
  notes: []
};

/** The run after `event`, as `ipyagent.schema.fold` has it; only a run or plan may come first. */
export function fold(run: Run | null, event: Event): Run {
  if (event.type === 'run_started' || event.type === 'plan_proposed') {
    return event.run;
  }
  if (run === null) {
    throw new Error(`${event.type} before run_started`);
  }
  switch (event.type) {
    case 'step_started': {
      const step = { ...NEW_STEP, number: event.step, closing: event.closing };
      return { ...run, steps: [...run.steps, step] };
    }
    case 'compacted': {
      const note = 'The older part of the conversation was summarised to make room.';
      return withStep(run, step => ({ notes: [...step.notes, note] }));
    }
    case 'retry_scheduled': {
      const note = `${event.reason} Retry ${event.attempt}/${event.of} in ${tenths(event.delay)} s.`;
      return withStep(run, step => ({ notes: [...step.notes, note] }));
    }
    case 'message_finished': {
      const { message, finish_reason, usage, cost_usd, thinking_seconds } = event;
      return withStep(run, () => ({ message, finish_reason, usage, cost_usd, thinking_seconds }));
    }
    case 'tool_started':
      return withStep(run, step => ({ executions: [...step.executions, event.execution] }));
    case 'approval_requested':
      return withCall(run, event.call_id, { status: 'awaiting_approval' });
    case 'approval_decided': {
      const { decision, by, reason } = event;
      return withCall(run, event.call_id, { status: 'pending', decision, decided_by: by, reason });
    }
    case 'tool_running':
      return withCall(run, event.call_id, { status: 'running' });
    case 'tool_finished':
      return withCall(run, event.execution.call.id, event.execution);
    case 'notice':
      return { ...run, notes: [...run.notes, event.text] };
    case 'run_finished': {
      const { status, stop_reason, error, duration } = event;
      return { ...run, status, stop_reason, error, duration };
    }
    default:
      return run;
  }
}

/** The state after `event`: the folded run, the open message and what is waited for. */
export function advance(state: LiveRun, event: Event): LiveRun {
  return {
    ...state,
    run: fold(state.run, event),
    open: openAfter(state.open, event),
    approvals: waiting(state.approvals, event),
    retry: event.type === 'retry_scheduled' ? event : null,
    // Some services number the calls of every reply anew.
    late: event.type === 'step_started' ? {} : state.late,
    planApproval: planApprovalAfter(state.planApproval, event),
    planLate: event.type === 'plan_proposed' ? null : state.planLate
  };
}

/** Why a run ends that did all that was asked for. */
const FULL: (string | null)[] = ['finished', 'planned'];

/** The word for `data-state`. */
export function runState({
  run,
  approvals
}: Pick<LiveRun, 'approvals'> & { run: Pick<Run, 'status' | 'stop_reason'> | null }): RunState {
  switch (run?.status) {
    case 'done':
      return FULL.includes(run.stop_reason) ? 'done' : 'partial';
    case 'error':
      return 'failed';
    case 'cancelled':
      return 'cancelled';
    case 'draft':
      return 'waiting';
    default:
      return Object.keys(approvals).length > 0 ? 'waiting' : 'running';
  }
}

/** Whether a run has ended, so that nothing can change it any more. */
export function isOver({ status }: Run): boolean {
  return status === 'done' || status === 'error' || status === 'cancelled';
}

/** The text blocks of a step's message, joined; "" before it is finished. */
export function textOf(step: Step): string {
  return (step.message?.content ?? []).map(b => (b.type === 'text' ? b.text : '')).join('');
}

/** The thinking blocks of a step's message, joined. */
export function thinkingOf(step: Step): string {
  return (step.message?.content ?? []).map(b => (b.type === 'thinking' ? b.thinking : '')).join('');
}

/** Why the model was asked though neither a person nor a tool had said anything, or "". */
export function leadIn({ plan, steps }: Run, index: number): string {
  const step = steps[index];
  const before = index > 0 ? steps[index - 1] : undefined;
  if (plan.length > 0) {
    return '';
  }
  if (step.closing) {
    return 'The budget is spent: the model was asked to come to an end.';
  }
  const isCut = before?.finish_reason === 'length' && before.executions.length === 0;
  return isCut ? 'The reply was cut: the model was asked to go on.' : '';
}

/** The number of the step that answers: the last one with text and without tool calls. */
export function answeringStep(run: Run): number | null {
  const answers = run.steps.filter(
    step => textOf(step).trim() !== '' && !step.message?.content.some(b => b.type === 'tool_call')
  );
  return answers.at(-1)?.number ?? null;
}

function openAfter(open: OpenMessage | null, event: Event): OpenMessage | null {
  switch (event.type) {
    case 'message_started':
      return { step: event.step, text: '', thinking: '' };
    case 'message_delta': {
      const now = open ?? { step: event.step, text: '', thinking: '' };
      return { ...now, [event.kind]: now[event.kind] + event.text };
    }
    // A retry makes what was said so far void.
    case 'retry_scheduled':
    case 'message_finished':
    case 'run_started':
    case 'step_started':
    case 'run_finished':
      return null;
    default:
      return open;
  }
}

function waiting(approvals: LiveRun['approvals'], event: Event): LiveRun['approvals'] {
  switch (event.type) {
    case 'approval_requested':
      return { ...approvals, [event.call_id]: event.approval_id };
    case 'approval_decided':
      return without(approvals, event.call_id);
    case 'tool_finished':
      return without(approvals, event.execution.call.id);
    case 'run_started':
    case 'run_finished':
      return {};
    default:
      return approvals;
  }
}

function planApprovalAfter(approval: string | null, event: Event): string | null {
  switch (event.type) {
    case 'plan_proposed':
      return event.approval_id;
    case 'run_started':
    case 'run_finished':
      return null;
    default:
      return approval;
  }
}

function without(approvals: LiveRun['approvals'], callId: string): LiveRun['approvals'] {
  return Object.fromEntries(Object.entries(approvals).filter(([id]) => id !== callId));
}

/** The run with its newest step changed: older steps are history. */
function withStep(run: Run, change: (step: Step) => Partial<Step>): Run {
  const newest = run.steps.at(-1);
  if (newest === undefined) {
    throw new Error('an event of a step before step_started');
  }
  return { ...run, steps: [...run.steps.slice(0, -1), { ...newest, ...change(newest) }] };
}

function withCall(run: Run, callId: string, changes: Partial<ToolExecution>): Run {
  return withStep(run, step => ({
    executions: step.executions.map(e => (e.call.id === callId ? { ...e, ...changes } : e))
  }));
}

/** One decimal as Python writes it: an exact tie goes to the even digit, .25 to .2. */
function tenths(seconds: number): string {
  return (seconds % 1 === 0.25 ? seconds - 0.05 : seconds).toFixed(1);
}
