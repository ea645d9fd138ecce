/** How far a plan is, as `ipyagent.ui.plans` has it. No DOM. */
import type { Run, ToolStatus } from './protocol';

/** The state of each step of the plan: that of the newest call that carries it out. */
export function planProgress(run: Run): ToolStatus[] {
  const states = run.plan.map((): ToolStatus => 'pending');
  for (const { call, status } of run.steps.flatMap(step => step.executions)) {
    const index = placeInPlan(run, call.id);
    if (index >= 0) {
      states[index] = status;
    }
  }
  return states;
}

/** How many steps of the plan have begun. */
export function stepsBegun(run: Run): number {
  const calls = run.steps.flatMap(step => step.executions);
  const places = new Set(calls.map(({ call }) => placeInPlan(run, call.id)));
  places.delete(-1);
  return places.size;
}

/** Which step of the plan a call carries out, else -1: tried again, X becomes X.2, X.3, … */
function placeInPlan({ plan }: Run, callId: string): number {
  const exact = plan.findIndex(({ call }) => call.id === callId);
  const base = /^([^]*)\.\d+$/.exec(callId)?.[1];
  return exact >= 0 ? exact : plan.findIndex(({ call }) => call.id === base);
}
