/** The page's side of a run's connection: receives numbered changes, sends decisions. No DOM. */
import { applyChanges, cutOff } from './model';
import type { Changes, CutOff, Decide, Protocol, Snapshot, Transcript } from './protocol';

/** The DOM event that tells a drawn run that its kernel is gone. */
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
