/**
 * A live run as the page sees it: its transcript, the kernel's changes applied to it, and decisions sent
 * back. No DOM.
 */
import type {
  Addition,
  Changes,
  CutOff,
  Decide,
  PendingApproval,
  Protocol,
  Replacement,
  Snapshot,
  Transcript
} from './protocol';

/** The MIME type of a saved run: `ipyagent.ui.static_html`. */
export const RUN = 'application/vnd.ipyagent.run+json';

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

/** The DOM event that reports to a drawn run that its kernel is gone. */
export const CUT_OFF = 'ipyagent:cut-off';

/** Milliseconds between hellos, and their number: half a minute in all. */
const HELLO_INTERVAL = 300;
const HELLOS = 100;

export type FromRun = Protocol['from_run'];
export type ToRun = Protocol['to_run'];
export type Answer = Decide['answer'];

/** Called with null before the first snapshot. */
type Listener = (transcript: Transcript | null) => void;

/** Follows one live run. After a gap in the sequence numbers it requests a snapshot, once. */
export class Channel {
  transcript: Transcript | null = null;
  isDisconnected = false;

  private lastSeq: number | null = null;
  private hellos = 0;
  private cutOff: CutOff | null = null;
  private decidedApprovals = new Set<string>();
  private listeners = new Set<Listener>();

  constructor(readonly send: (message: ToRun) => void) {}

  /**
   * Send hello until a snapshot arrives. JupyterLab sends a comm's first messages to the kernel's
   * main shell, where a blocking tool delays them, until its subshell has started.
   */
  start(): void {
    const id = crypto.getRandomValues(new Uint32Array(4)).join('-');
    const hello = (): void => {
      if (this.lastSeq === null && this.hellos < HELLOS) {
        this.hellos += 1;
        this.send({ type: 'init', id });
        setTimeout(hello, HELLO_INTERVAL);
      }
    };
    hello();
  }

  /** Stop sending. */
  close(): void {
    this.hellos = HELLOS;
  }

  /** Mark the run as cut off: its kernel is gone, and messages are ignored from now on. */
  disconnect(): void {
    this.close();
    this.isDisconnected = true;
    if (this.transcript !== null && this.cutOff !== null) {
      this.publish(cutOff(this.transcript, this.cutOff));
    }
  }

  /** Process one message of the kernel; anything else on the comm is ignored. */
  receive(message: unknown): void {
    if (this.isDisconnected || !isFromRun(message)) {
      return;
    }
    if (message.type === 'snapshot') {
      this.applySnapshot(message);
    } else if (this.lastSeq !== null && message.seq > this.lastSeq) {
      this.applyChanges(message);
    }
  }

  /** Send a decision; only the first one for an approval is sent. */
  decide(approvalId: string, answer: Answer): void {
    if (!this.decidedApprovals.has(approvalId)) {
      this.decidedApprovals.add(approvalId);
      this.send({ type: 'decide', approval_id: approvalId, answer });
    }
  }

  /** Call `listener` with every new transcript; return a function that unsubscribes it. */
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private applySnapshot({ seq, transcript, cut_off }: Snapshot): void {
    if (this.lastSeq === null || seq >= this.lastSeq) {
      this.lastSeq = seq;
      this.cutOff = cut_off;
      this.publish(transcript);
    }
  }

  private applyChanges({ seq, changes }: Changes): void {
    try {
      if (seq !== (this.lastSeq ?? 0) + 1) {
        throw new Error('a message was lost');
      }
      const next = applyChanges(this.transcript, changes);
      this.lastSeq = seq;
      this.publish(next);
    } catch {
      this.resync();
    }
  }

  /** Request a snapshot. Until it arrives `lastSeq` is null, so that changes are ignored. */
  private resync(): void {
    this.lastSeq = null;
    this.send({ type: 'resync' });
  }

  private publish(transcript: Transcript | null): void {
    this.transcript = transcript;
    this.listeners.forEach(listener => listener(transcript));
  }
}

function isFromRun(message: unknown): message is FromRun {
  const type = (message as { type?: unknown } | null)?.type;
  return type === 'snapshot' || type === 'changes';
}
