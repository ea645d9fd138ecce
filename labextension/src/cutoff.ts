/** A run whose kernel is gone, as `ipyagent.store.recovery` will find it. Pure state, no DOM. */
import { isOver, LiveRun, NOTHING } from './model';
import type { Run, Step, ToolExecution, ToolStatus } from './protocol';

const ERROR =
  'The kernel was restarted or stopped: this run is unfinished.\n' +
  'Load ipyagent again (%load_ext ipyagent) to see what was recorded of it.';

/** The event that tells a drawn run so: where its kernel is watched, the run may not see it. */
export const CUT_OFF = 'ipyagent:cut-off';

/** The state in which nothing goes on and nothing is asked; a run that has ended is as it was. */
export function cutOff(state: LiveRun): LiveRun {
  const { run, open } = state;
  if (run === null || isOver(run)) {
    return state;
  }
  if (run.status === 'draft') {
    return { ...NOTHING, run };
  }
  const steps = run.steps.map(step => ended(step, open?.step === step.number ? open.text : ''));
  const stopped: Run = { ...run, status: 'error', stop_reason: 'error', error: ERROR, steps };
  return { ...NOTHING, run: stopped };
}

/** What the step had said stays; what it was about to do did not happen, or nobody knows. */
function ended(step: Step, said: string): Step {
  const executions = step.executions.map(execution => ({
    ...execution,
    status: endOf(execution)
  }));
  return { ...step, executions, message: step.message ?? messageOf(said) };
}

function endOf({ status }: ToolExecution): ToolStatus {
  switch (status) {
    case 'running':
      return 'unknown';
    case 'pending':
    case 'awaiting_approval':
      return 'cancelled';
    default:
      return status;
  }
}

function messageOf(text: string): Step['message'] {
  return text.trim() === ''
    ? null
    : {
        role: 'assistant',
        content: [{ type: 'text', text }],
        synthetic: false,
        timestamp: new Date().toISOString(),
        usage: null
      };
}
