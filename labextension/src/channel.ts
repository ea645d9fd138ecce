/** The front end's end of the widget's comm: numbered changes in, decisions out. No DOM. */
import { changed, cutOff } from './model';
import type { Changes, CutOff, Decide, Protocol, Snapshot, Transcript } from './protocol';

/** The DOM event that tells a drawn run that its kernel is gone. */
export const CUT_OFF = 'ipyagent:cut-off';

/** Every 0.3 s, for half a minute. */
const HELLO_INTERVAL = 300;
const HELLOS = 100;

export type FromRun = Protocol['from_run'];
export type ToRun = Protocol['to_run'];
export type Answer = Decide['answer'];

/** Null before the first snapshot. */
type Listener = (transcript: Transcript | null) => void;

/** Follows one live run; a gap in the numbers asks for the whole state again, once. */
export class Channel {
  transcript: Transcript | null = null;

  private last: number | null = null;
  private hellos = 0;
  private isCut = false;
  private end: CutOff | null = null;
  private decided = new Set<string>();
  private listeners = new Set<Listener>();

  constructor(private send: (message: ToRun) => void) {}

  /**
   * Say hello until the answer comes, a snapshot. JupyterLab sends a comm's first messages to the
   * kernel's main shell, where a blocking tool keeps them waiting, until its subshell has started.
   */
  start(): void {
    const id = crypto.getRandomValues(new Uint32Array(4)).join('-');
    const hello = (): void => {
      if (this.last === null && this.hellos < HELLOS) {
        this.hellos += 1;
        this.send({ type: 'init', id });
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
    if (this.transcript !== null && this.end !== null) {
      this.publish(cutOff(this.transcript, this.end));
    }
  }

  /** Take in one message of the kernel; anything else that travels on the comm is ignored. */
  receive(message: unknown): void {
    if (this.isCut || !isFromRun(message)) {
      return;
    }
    if (message.type === 'snapshot') {
      this.begin(message);
    } else if (this.last !== null && message.seq > this.last) {
      this.follow(message);
    }
  }

  /** Send a decision; only the first one for an approval is sent. */
  decide(approvalId: string, answer: Answer): void {
    if (!this.decided.has(approvalId)) {
      this.decided.add(approvalId);
      this.send({ type: 'decide', approval_id: approvalId, answer });
    }
  }

  /** Ask for the run to end. */
  stop(): void {
    this.send({ type: 'stop' });
  }

  /** Say something that the model reads with its next request. */
  say(text: string): void {
    this.send({ type: 'say', text });
  }

  /** Take back a text that waits. */
  takeBack(textId: string): void {
    this.send({ type: 'take_back', text_id: textId });
  }

  /** Call `listener` with every new transcript; returns how to stop that. */
  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private begin({ seq, transcript, cut_off }: Snapshot): void {
    if (this.last === null || seq >= this.last) {
      this.last = seq;
      this.end = cut_off;
      this.publish(transcript);
    }
  }

  private follow({ seq, changes }: Changes): void {
    try {
      if (seq !== (this.last ?? 0) + 1) {
        throw new Error('a message was lost');
      }
      const next = changed(this.transcript, changes);
      this.last = seq;
      this.publish(next);
    } catch {
      this.resync();
    }
  }

  /** Until the snapshot arrives `last` is null, so that changes are ignored. */
  private resync(): void {
    this.last = null;
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
