/** The front end's end of the widget's comm: numbered deltas in, decisions out. No DOM. */
import { cutOff } from './cutoff';
import { advance, LiveRun, NOTHING } from './model';
import type {
  Answer,
  Event,
  EventsMessage,
  FrontEndMessage,
  KernelMessage,
  LateMessage,
  SnapshotMessage
} from './protocol';

/** Every 0.3 s, for half a minute. */
const HELLO_INTERVAL = 300;
const HELLOS = 100;

type Listener = (state: LiveRun) => void;

/** Follows one live run; a gap in the numbers asks for the whole state again, once. */
export class Channel {
  state: LiveRun = NOTHING;

  private last: number | null = null;
  private hellos = 0;
  private isCut = false;
  private decided = new Set<string>();
  private listeners = new Set<Listener>();

  constructor(private send: (message: FrontEndMessage) => void) {}

  /**
   * Say hello until the answer comes, a snapshot. JupyterLab sends a comm's first messages to the
   * kernel's main shell, where a blocking tool keeps them waiting, until its subshell has started.
   */
  start(): void {
    const id = crypto.getRandomValues(new Uint32Array(4)).join('-');
    const hello = (): void => {
      if (this.last === null && this.hellos < HELLOS) {
        this.hellos += 1;
        this.send({ kind: 'init', id });
        setTimeout(hello, HELLO_INTERVAL);
      }
    };
    hello();
  }

  /** Say nothing more. */
  close(): void {
    this.hellos = HELLOS;
  }

  /** The kernel is gone: nothing more is heard or said. */
  cut(): void {
    this.close();
    this.isCut = true;
    this.publish(cutOff(this.state));
  }

  /** Take in one message of the kernel; anything else that travels on the comm is ignored. */
  receive(message: unknown): void {
    if (this.isCut || !isKernelMessage(message)) {
      return;
    }
    if (message.op === 'snapshot') {
      this.settle(message);
    } else if (message.op === 'late') {
      this.tellLate(message);
    } else if (this.last !== null && message.seq > this.last) {
      this.follow(message);
    }
  }

  /** Send a decision; only the first one for an approval is sent. */
  decide(approvalId: string, answer: Answer): void {
    if (!this.decided.has(approvalId)) {
      this.decided.add(approvalId);
      this.send({ kind: 'decide', approval_id: approvalId, ...answer });
    }
  }

  /** Ask for the run to end. */
  stop(): void {
    this.send({ kind: 'stop' });
  }

  /** Call `listener` with every new state; returns how to stop that. */
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private settle({ seq, run, open, approvals, plan_approval, retry }: SnapshotMessage): void {
    if (this.last === null || seq >= this.last) {
      this.last = seq;
      this.publish({ ...this.state, run, open, approvals, planApproval: plan_approval, retry });
    }
  }

  private tellLate({ call_id, decision, at }: LateMessage): void {
    const told = { decision, at };
    this.publish(
      call_id === null
        ? { ...this.state, planLate: told }
        : { ...this.state, late: { ...this.state.late, [call_id]: told } }
    );
  }

  private follow({ seq, events }: EventsMessage): void {
    const next = seq === (this.last ?? 0) + 1 ? advanced(this.state, events) : null;
    if (next === null) {
      this.resync();
    } else {
      this.last = seq;
      this.publish(next);
    }
  }

  /** Until the snapshot arrives `last` is null, so that events are ignored. */
  private resync(): void {
    this.last = null;
    this.send({ kind: 'resync' });
  }

  private publish(state: LiveRun): void {
    this.state = state;
    this.listeners.forEach(listener => listener(state));
  }
}

/** The state after `events`, or null when they do not fit it: then it is the wrong state. */
function advanced(state: LiveRun, events: Event[]): LiveRun | null {
  try {
    return events.reduce(advance, state);
  } catch {
    return null;
  }
}

function isKernelMessage(message: unknown): message is KernelMessage {
  const op = (message as { op?: unknown } | null)?.op;
  return op === 'snapshot' || op === 'events' || op === 'late';
}
