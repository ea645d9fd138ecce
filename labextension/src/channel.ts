/** A live run as the page sees it: its blocks of HTML, and the decisions sent back. No DOM. */
import type { Changes, Decide, Drawn, Gone, PendingApproval, Protocol, Snapshot } from './protocol';

/** The MIME type of a saved run: `ipyagent.ui.static_html`. */
export const RUN = 'application/vnd.ipyagent.run+json';

/** Return whether a value is an object with fields. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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

/** Decides on the approval with that id. */
export type DecideOn = (approvalId: string, answer: Answer) => void;

/** Draws a run: each message in turn, a snapshot first. */
export interface RunView {
  update(message: FromRun): void;
  /** Shows that the kernel is gone. */
  cutOff(gone: Gone): void;
}

/** Follows one live run. After a gap in the sequence numbers it requests a snapshot, once. */
export class Channel {
  private isDisconnected = false;
  private newest: Snapshot | null = null;
  private blocks = new Map<string, Drawn>();
  private lastSeq: number | null = null;
  private hellos = 0;
  private decidedApprovals = new Set<string>();
  private views = new Set<RunView>();
  /** Messages that the views have not drawn yet: one, or two for several. */
  private undrawn: FromRun[] = [];

  constructor(readonly send: (message: ToRun) => void) {}

  /**
   * Send hello until a snapshot arrives. JupyterLab sends a comm's first messages to the kernel's
   * main shell, where a blocking tool delays them, until its subshell has started.
   */
  start(): void {
    const hello = (): void => {
      if (this.lastSeq === null && this.hellos < HELLOS) {
        this.hellos += 1;
        this.send({ type: 'init' });
        setTimeout(hello, HELLO_INTERVAL);
      }
    };
    hello();
  }

  /** Stop sending. */
  close(): void {
    this.hellos = HELLOS;
  }

  /** The run as it is now; null before the first snapshot. */
  get run(): Snapshot | null {
    return this.newest && { ...this.newest, set: [...this.blocks.values()] };
  }

  /** Mark the run as cut off: its kernel is gone, and messages are ignored from now on. */
  disconnect(): void {
    this.close();
    this.isDisconnected = true;
    this.draw();
    if (this.newest !== null) {
      const { gone } = this.newest;
      this.views.forEach(view => view.cutOff(gone));
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
  decide: DecideOn = (approvalId, answer) => {
    if (!this.decidedApprovals.has(approvalId)) {
      this.decidedApprovals.add(approvalId);
      this.send({ type: 'decide', approval_id: approvalId, answer });
    }
  };

  /** Draw the run in `view` from now on; return a function that ends that. */
  subscribe(view: RunView): () => void {
    this.draw();
    this.views.add(view);
    const { run } = this;
    if (run !== null) {
      view.update(run);
      if (this.isDisconnected) {
        view.cutOff(run.gone);
      }
    }
    return () => this.views.delete(view);
  }

  private applySnapshot(snapshot: Snapshot): void {
    if (this.lastSeq === null || snapshot.seq >= this.lastSeq) {
      this.lastSeq = snapshot.seq;
      this.newest = snapshot;
      this.blocks = new Map(snapshot.set.map(drawn => [drawn.key, drawn]));
      this.publish(snapshot);
    }
  }

  private applyChanges(changes: Changes): void {
    try {
      if (this.newest === null || changes.seq !== (this.lastSeq ?? 0) + 1) {
        throw new Error('a message was lost');
      }
      const { seq, set, order, more, drop } = changes;
      set.forEach(drawn => this.blocks.set(drawn.key, drawn));
      more.forEach(({ key, text }) => {
        const drawn = this.blockOf(key);
        this.blocks.set(key, { ...drawn, more: drawn.more + text });
      });
      Object.entries(order)
        .flat(2)
        .forEach(key => key === '' || this.blockOf(key));
      this.newest = { ...this.newest, seq, order: { ...this.newest.order, ...order } };
      drop.forEach(key => this.blocks.delete(key));
      this.lastSeq = seq;
    } catch {
      this.resync();
      return;
    }
    this.publish(changes);
  }

  private blockOf(key: string): Drawn {
    const drawn = this.blocks.get(key);
    if (drawn === undefined) {
      throw new Error(`no block ${key}`);
    }
    return drawn;
  }

  /** Request a snapshot. Until it arrives `lastSeq` is null, so that changes are ignored. */
  private resync(): void {
    this.lastSeq = null;
    this.send({ type: 'resync' });
  }

  /** Draw a message in the next frame, of which a hidden page has none. */
  private publish(message: FromRun): void {
    if (this.views.size > 0 && this.undrawn.push(message) === 1) {
      requestAnimationFrame(this.draw);
    }
    this.undrawn.splice(2);
  }

  /** Draw one message as it is; of several, what the run has become. */
  private draw = (): void => {
    const message = this.undrawn.length > 1 ? this.run : this.undrawn.at(0);
    this.undrawn = [];
    if (message) {
      this.views.forEach(view => view.update(message));
    }
  };
}

function isFromRun(message: unknown): message is FromRun {
  const type = (message as { type?: unknown } | null)?.type;
  return type === 'snapshot' || type === 'changes';
}
