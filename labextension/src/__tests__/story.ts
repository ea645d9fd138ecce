/** The stories of the shared fixtures, and small transcripts for the tests of the view. */
import { applyChanges } from '../channel';
import type { SavedCall, SavedRun, SavedStep } from '../lab/outputs';
import type {
  Addition,
  Call,
  CallRequest,
  CutOff,
  Effects,
  Header,
  Plan,
  Replacement,
  Step,
  Transcript
} from '../protocol';
import planned from './fixtures/plan.json';
import told from './fixtures/run.json';

/** A kernel that hears nothing. */
export const NOTHING = {
  decide: () => undefined,
  send: () => undefined
};

/** An event of the kernel's, and what it changed in the transcript. */
export interface Moment {
  type: string;
  call_id: string | null;
  approval_id: string | null;
  changes: (Replacement | Addition)[];
}

export const MOMENTS = told.moments as unknown as Moment[];
export const TRANSCRIPT = told.transcript as unknown as Transcript;
export const RUN = told.run as unknown as SavedRun;
export const HTML = told.html;
export const CUT_OFF = told.cut_off as unknown as CutOff;
export const PLAN_MOMENTS = planned.moments as unknown as Moment[];
export const PLAN_TRANSCRIPT = planned.transcript as unknown as Transcript;

/** The effects of a call, with a diff and output. */
export const EFFECTS: Effects = {
  title: 'It would change:',
  lines: [
    { change: 'changed', text: 'sales + ratio (float64)', diff: '' },
    { change: 'created', text: 'q3.md', diff: '--- /dev/null\n+++ b/q3.md\n@@ -0,0 +1 @@\n+# Q3' },
    { change: 'other', text: 'tried to open a connection\u202e', diff: '' }
  ],
  shown_title: 'What it put out there: 1 line',
  shown: { output: 'North 84.2', error: '', tone: 'plain', media: [], for_model: null }
};

/** The transcript after these moments. */
export function after(moments: readonly Moment[]): Transcript {
  const whole = moments.reduce<Transcript | null>(
    (now, { changes }) => applyChanges(now, changes),
    null
  );
  if (whole === null) {
    throw new Error('nothing was told');
  }
  return whole;
}

/** The transcripts after each of these moments. */
export function tellings(moments: readonly Moment[]): Transcript[] {
  return moments.map((_, index) => after(moments.slice(0, index + 1)));
}

/** The transcript after all moments up to and including the first that fits. */
export function upTo(fits: (moment: Moment) => boolean): Transcript {
  return after(MOMENTS.slice(0, MOMENTS.findIndex(fits) + 1));
}

/** The transcript in which a user is asked about the call with that id. */
export function asking(callId: string): Transcript {
  return upTo(({ type, call_id }) => type === 'approval_requested' && call_id === callId);
}

/** The plan after its first `moments`: 1 proposed, 2 proposed anew, 3 approved. */
export function plan(moments: number): Transcript {
  return after(PLAN_MOMENTS.slice(0, moments));
}

/** The start of a run with one open step. */
export function begun(): Transcript {
  return upTo(({ type }) => type === 'step_started');
}

/** The same with some of its parts changed. */
export function withPlan(transcript: Transcript, changes: Partial<Plan>): Transcript {
  if (transcript.plan === null) {
    throw new Error('there is no plan');
  }
  return { ...transcript, plan: { ...transcript.plan, ...changes } };
}

/** The same with its header changed. */
export function withHeader(transcript: Transcript, changes: Partial<Header>): Transcript {
  return { ...transcript, header: { ...transcript.header, ...changes } };
}

/** The same with its newest step changed. */
export function inStep(transcript: Transcript, changes: Partial<Step>): Transcript {
  const steps = [...transcript.steps];
  steps.push({ ...(steps.pop() ?? STEP), ...changes });
  return { ...transcript, steps };
}

/** The same with the call of that id changed. */
export function inCall(transcript: Transcript, id: string, changes: Partial<Call>): Transcript {
  const steps = transcript.steps.map(step => ({
    ...step,
    calls: step.calls.map(call => (call.id === id ? { ...call, ...changes } : call))
  }));
  return { ...transcript, steps };
}

/** A finished run of one step. */
export function withStep(step: Partial<Step>, run: Partial<Transcript> = {}): Transcript {
  const steps = [{ ...STEP, ...step }];
  return { ...TRANSCRIPT, notes: [], todos: [], steps, todos_at: 1, ...run };
}

/** A finished run of one call. */
export function withCall(call: Partial<Call>): Transcript {
  return withStep({ calls: [{ ...CALL, ...call }] });
}

/** Return a call's request. */
export function request(changes: Partial<CallRequest>): CallRequest {
  return { ...CALL.request, preview: null, shown: [], ...changes };
}

/** The first call of the story: a quick look that went well. */
export const CALL: Call = TRANSCRIPT.steps[0].calls[0];

/** The call that is asked about as c2: code that plots. */
export const PLOT: Call = TRANSCRIPT.steps[1].calls[0];

const STEP: Step = {
  ...TRANSCRIPT.steps[0],
  notes: [],
  thinking: null,
  text: '',
  calls: [],
  facts: ''
};

/** A saved run of one step, the answer: its text, and its calls; and its HTML. */
export function savedOf(
  text: string,
  calls: SavedCall[] = [],
  changes: Partial<SavedRun> = {}
): [string, SavedRun] {
  const message = { content: [{ type: 'text', text }] };
  const steps: SavedStep[] = [{ number: 1, message, executions: calls }];
  const code = '<p class="ia-caption">run_python</p>\n<pre><code></code></pre>';
  const tools = calls.map(() => `<details class="ia-tool">${code}</details>`).join('');
  const step = `<div class="ia-answer"><div class="ia-markdown"></div>${tools}</div>`;
  return [`<div class="ipyagent-card ia-done">${step}</div>`, { ...RUN, steps, ...changes }];
}
