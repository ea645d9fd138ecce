/** The state of a transcript: the kernel's changes applied to it. No DOM. */
import type { Addition, CutOff, PendingApproval, Replacement, Transcript } from './protocol';

/** The MIME types of a saved run and its transcript: `ipyagent.ui.static_html`. */
export const RUN = 'application/vnd.ipyagent.run+json';
export const TRANSCRIPT = 'application/vnd.ipyagent.transcript+json';

/** Return the transcript after `changes`; throws if they do not fit. */
export function applyChanges(
  transcript: Transcript | null,
  changes: readonly (Replacement | Addition)[]
): Transcript | null {
  return changes.reduce<unknown>(
    (whole, change) => applyAt(whole, change.path, 0, change),
    transcript
  ) as Transcript | null;
}

/** Return a copy with the change; parts off its path are shared. */
function applyAt(
  value: unknown,
  path: readonly (string | number)[],
  depth: number,
  change: Replacement | Addition
): unknown {
  if (depth === path.length) {
    return 'append' in change ? appendText(value, change.append) : change.value;
  }
  const key = path[depth];
  if (Array.isArray(value) && typeof key === 'number' && key >= 0 && key <= value.length) {
    const copy = [...(value as unknown[])];
    copy[key] = applyAt(copy[key], path, depth + 1, change);
    return copy;
  }
  if (isObject(value) && Object.hasOwn(value, key)) {
    return { ...value, [key]: applyAt(value[key], path, depth + 1, change) };
  }
  throw new Error(`no place ${path.join('.')}`);
}

/** Return whether a value is an object with fields. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function appendText(text: unknown, more: string): string {
  if (typeof text !== 'string') {
    throw new Error('only a text can go on');
  }
  return text + more;
}

/** Return whether a run has ended and cannot change any more. */
export function isOver({ header }: Transcript): boolean {
  return header.state !== 'running' && header.state !== 'waiting';
}

/**
 * Return the transcript of a run whose kernel is gone, without anything that waits. A finished run
 * is unchanged, and a draft plan waits for another kernel.
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

/** Return a unique key: approval ids repeat between kernels, run ids do not. */
export function approvalKey({ run_id, approval_id }: PendingApproval): string {
  return `${run_id} ${approval_id}`;
}
