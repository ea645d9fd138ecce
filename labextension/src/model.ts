/** The transcript as the kernel's messages tell it: pure state, no DOM. */
import type { Addition, CutOff, PendingApproval, Replacement, Transcript } from './protocol';

/** The MIME types of a saved run, as data and as it is drawn: `ipyagent.ui.static_html`. */
export const RUN = 'application/vnd.ipyagent.run+json';
export const TRANSCRIPT = 'application/vnd.ipyagent.transcript+json';

/** The transcript after `changes`; throws where they do not fit it: then it is the wrong one. */
export function changed(
  transcript: Transcript | null,
  changes: readonly (Replacement | Addition)[]
): Transcript | null {
  return changes.reduce<unknown>(
    (whole, change) => put(whole, change.path, 0, change),
    transcript
  ) as Transcript | null;
}

/** A copy with the change made: what is not on its path is the same object as before. */
function put(
  value: unknown,
  path: readonly (string | number)[],
  depth: number,
  change: Replacement | Addition
): unknown {
  if (depth === path.length) {
    return 'append' in change ? appended(value, change.append) : change.value;
  }
  const key = path[depth];
  if (Array.isArray(value) && typeof key === 'number' && key >= 0 && key <= value.length) {
    const copy = [...(value as unknown[])];
    copy[key] = put(copy[key], path, depth + 1, change);
    return copy;
  }
  if (isRecord(value) && Object.hasOwn(value, key)) {
    return { ...value, [key]: put(value[key], path, depth + 1, change) };
  }
  throw new Error(`no place ${path.join('.')}`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function appended(text: unknown, more: string): string {
  if (typeof text !== 'string') {
    throw new Error('only a text can go on');
  }
  return text + more;
}

/** Whether a run has ended, so that nothing can change it any more. */
export function isOver({ header }: Transcript): boolean {
  return header.state !== 'running' && header.state !== 'waiting';
}

/**
 * The transcript of a run whose kernel is gone: nothing goes on and nothing is asked. One that has
 * ended is as it was, and a plan waits for another kernel.
 */
export function cutOff(transcript: Transcript, how: CutOff): Transcript {
  if (isOver(transcript)) {
    return transcript;
  }
  const plan = transcript.plan && { ...transcript.plan, approval: null };
  if (transcript.is_draft) {
    return { ...transcript, plan };
  }
  const { state, state_text, ending, statuses } = how;
  const steps = transcript.steps.map(step => ({
    ...step,
    waiting: null,
    is_streaming: false,
    calls: step.calls.map(call => ({ ...call, ...statuses[call.status], approval: null }))
  }));
  return {
    ...transcript,
    header: { ...transcript.header, state, state_text },
    plan,
    steps,
    ending,
    unsent: transcript.unsent.map(text => ({ ...text, label: how.unsent })),
    say: null
  };
}

/** Approvals are numbered anew in every kernel; runs are not. */
export function approvalKey({ run_id, approval_id }: PendingApproval): string {
  return `${run_id} ${approval_id}`;
}
