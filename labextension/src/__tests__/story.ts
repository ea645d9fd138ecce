/** The events of the shared fixtures, and small states for the tests of the view. */
import { advance, LiveRun, NOTHING } from '../model';
import type { Event, Run, Step, ToolExecution } from '../protocol';
import planned from './fixtures/plan.json';
import fixture from './fixtures/run.json';

export const EVENTS = fixture.events as Event[];
export const RUN = fixture.run as unknown as Run;
export const PLAN_EVENTS = planned.events as unknown as Event[];
export const PLAN_RUN = planned.run as unknown as Run;

/** The state after all events up to and including the first that fits. */
export function upTo(fits: (event: Event) => boolean): LiveRun {
  const end = EVENTS.findIndex(fits);
  return EVENTS.slice(0, end + 1).reduce(advance, NOTHING);
}

/** The state in which a person is asked about the call with that id. */
export function asking(callId: string): LiveRun {
  return upTo(event => event.type === 'approval_requested' && event.call_id === callId);
}

/** The plan after its first `events`: 1 proposed, 2 proposed anew, 3 approved. */
export function plan(events: number): LiveRun {
  return PLAN_EVENTS.slice(0, events).reduce(advance, NOTHING);
}

/** The start of a run with one open step. */
export function begun(): LiveRun {
  return upTo(event => event.type === 'step_started');
}

/** A saved run of one step. */
export function runWith(step: Partial<Step>, run: Partial<Run> = {}): LiveRun {
  const steps = [{ ...RUN.steps[0], notes: [], message: null, executions: [], ...step }];
  return { ...NOTHING, run: { ...RUN, notes: [], context: '', steps, ...run } };
}

/** A saved run of one call. */
export function runOf(execution: Partial<ToolExecution>): LiveRun {
  return runWith({ executions: [{ ...RUN.steps[0].executions[0], ...execution }] });
}

/** A step's message with that text. */
export function saying(text: string): Partial<Step> {
  const content = [{ type: 'text' as const, text }];
  const around = { synthetic: false, timestamp: RUN.started_at, usage: null };
  return { message: { role: 'assistant', content, ...around } };
}
