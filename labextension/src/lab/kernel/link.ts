/** The connection of a page to one kernel that has ipyagent loaded. */
import { CommsOverSubshells, Kernel, KernelMessage as Jupyter } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import type { FromRun, ToRun } from '../../channel';
import type { Ask, Overview, PageRequest, Protocol, RunLine } from '../../protocol';
import { knowsComm, endSubshell } from './control';
import { SubshellComm } from './subshellComm';

const TARGET = 'ipyagent';

/** For JupyterLab to start a subshell; there are kernels without. */
const SUBSHELL_MILLISECONDS = 1_000;

const PAGE = UUID.uuid4();

/** JupyterLab 4.4 and later, not yet in its interface. */
type Starting = Kernel.IComm & { readonly subshellStarted?: Promise<void> };

/** Answers a request of the kernel; what it throws becomes the answer. */
export type Serve = (request: PageRequest) => unknown;

/** What a page shows of one kernel. */
export interface Shown {
  notebooks: string[];
  /** The connections by which its cells are run. */
  clients: string[];
}

/**
 * Knows what the kernel tells, and says what a person wants. Comms open when the kernel says that
 * ipyagent is loaded, or that it was before this page came; they open again when the network was
 * away, and whoever followed a run goes on from a snapshot.
 */
export class Link {
  /** What the kernel told last; null while there is no connection. */
  overview: Overview | null = null;
  /** Whether JupyterLab's widgets can speak to the kernel as well. */
  hasWidgets = true;

  private changes = new Signal<this, void>(this);
  private runs = new Map<string, (message: FromRun) => void>();
  private answers = new Map<number, (value: unknown) => void>();
  private asked = 0;
  private comm: SubshellComm | null = null;
  private out: Kernel.IComm | null = null;
  private isTorn = false;

  constructor(
    private connection: Kernel.IKernelConnection,
    private shown: () => Shown,
    private serve: Serve
  ) {
    this.attach();
  }

  /** The connection that the comms use: of one notebook for all of this kernel. */
  get kernel(): Kernel.IKernelConnection {
    return this.connection;
  }

  /** Emitted after every change of `overview`. */
  get changed(): ISignal<this, void> {
    return this.changes;
  }

  /** Its runs that are on. */
  get live(): RunLine[] {
    return this.overview?.runs.filter(({ live }) => live) ?? [];
  }

  /** Say something; without a connection nothing is said. */
  say(message: Protocol['to_kernel']): void {
    this.comm?.send(message as unknown as JSONObject);
  }

  /** Say something to one of its runs. */
  tell(runId: string, message: ToRun): void {
    this.say({ type: 'to_run', run_id: runId, message });
  }

  /** Take the messages of one run from now on, beginning with a snapshot. */
  follow(runId: string, receive: (message: FromRun) => void): void {
    this.runs.set(runId, receive);
    this.say({ type: 'follow', run_id: runId });
  }

  /** Take no more of them. */
  leave(runId: string): void {
    this.runs.delete(runId);
  }

  /**
   * The run with that id, or the newest of that cell, as it is saved in an output; null if there is
   * none, undefined if the connection was lost.
   */
  bundle(which: { run_id?: string; cell_id?: string }): Promise<unknown> {
    return this.ask('bundle', which);
  }

  /** Take a run back, or hear what that would do; undefined if the connection was lost. */
  undo(runId: string, isDry: boolean): Promise<unknown> {
    return this.ask('undo', { run_id: runId, dry_run: isDry });
  }

  /** Tell which notebooks of this kernel the page shows now. */
  shows(): void {
    this.say({ type: 'shows', ...this.shown() });
  }

  /** Go on with another connection to the same kernel. */
  use(connection: Kernel.IKernelConnection): void {
    this.detach();
    this.letGo();
    this.connection = connection;
    this.attach();
    if (this.overview !== null) {
      this.connect();
    }
  }

  /** Tell the kernel that this page goes away. */
  close(): void {
    this.comm?.close();
    this.comm = null;
  }

  /** Let go of the kernel. */
  dispose(): void {
    this.detach();
    this.close();
    this.disconnect();
    Signal.clearData(this);
  }

  private ask(what: Ask['what'], about: Partial<Ask>): Promise<unknown> {
    const id = ++this.asked;
    return new Promise(resolve => {
      this.answers.set(id, resolve);
      this.say({ type: 'ask', id, what, run_id: null, cell_id: null, dry_run: false, ...about });
    });
  }

  private attach(): void {
    const { kernel } = this;
    kernel.registerCommTarget(`${TARGET}.out`, this.accept);
    kernel.statusChanged.connect(this.watch);
    kernel.iopubMessage.connect(this.hear);
    kernel.connectionStatusChanged.connect(this.resume);
    this.resume(kernel, kernel.connectionStatus);
  }

  private detach(): void {
    const { kernel } = this;
    kernel.statusChanged.disconnect(this.watch);
    kernel.connectionStatusChanged.disconnect(this.resume);
    kernel.iopubMessage.disconnect(this.hear);
    if (!kernel.isDisposed) {
      kernel.removeCommTarget(`${TARGET}.out`, this.accept);
    }
  }

  /** A kernel with ipyagent knows a comm of ours, whoever loaded it. */
  private async look(): Promise<void> {
    const { kernel } = this;
    if ((await knowsComm(kernel, `${TARGET}.out`)) && kernel === this.kernel) {
      this.connect();
    }
  }

  /** The kernel says that ipyagent is loaded: what was open to an earlier one is dead. */
  private hear = (_: unknown, { header, content }: Jupyter.IIOPubMessage): void => {
    const { transient } = content as { transient?: { display_id?: unknown } };
    if (header.msg_type === 'update_display_data' && transient?.display_id === `${TARGET}:loaded`) {
      this.reconnect();
    }
  };

  private connect(): void {
    const { kernel } = this;
    if (this.comm !== null || !kernel.handleComms) {
      return;
    }
    const comm = (this.comm = new SubshellComm(kernel, TARGET));
    this.shows();
    this.runs.forEach((_, runId) => this.say({ type: 'follow', run_id: runId }));
    const opened = { page: PAGE, client: kernel.clientId, notebooks: this.shown().notebooks };
    void comm.open(opened);
  }

  /** The kernel's end of this or another page's connection. */
  private accept = (comm: Kernel.IComm, { content }: { content: { data: unknown } }): void => {
    const { page } = content.data as { page?: string };
    if (page === PAGE) {
      this.out = comm;
      comm.onMsg = message => this.receive(message.content.data as unknown as Protocol['to_page']);
    }
    void this.quieten(comm, page === PAGE);
  };

  /**
   * Nothing is said to the kernel there, so it needs no subshell. JupyterLab starts one, and forgets
   * it if it is not wanted any more before it is there.
   */
  private async quieten(comm: Starting, isMine: boolean): Promise<void> {
    await this.kernel.info.catch(() => undefined);
    const patience = new Promise<void>(resolve => setTimeout(resolve, SUBSHELL_MILLISECONDS));
    await Promise.race([comm.subshellStarted, patience]);
    if (isMine && !comm.isDisposed) {
      comm.commsOverSubshells = CommsOverSubshells.Disabled;
    } else {
      comm.dispose();
    }
  }

  private receive(message: Protocol['to_page']): void {
    switch (message.type) {
      case 'overview':
        this.overview = message.overview;
        this.changes.emit();
        break;
      case 'run':
        this.runs.get(message.run_id)?.(message.message);
        break;
      case 'reply':
        this.answers.get(message.id)?.(message.value);
        this.answers.delete(message.id);
        break;
      case 'request':
        void this.answer(message);
        break;
      case 'ping':
        this.say({ type: 'here' });
        break;
      case 'again':
        this.reconnect();
        break;
      case 'bye':
        this.disconnect();
        break;
      case 'left':
        message.subshells.forEach(subshell => endSubshell(this.kernel, subshell));
    }
  }

  private async answer(request: PageRequest): Promise<void> {
    const { id } = request;
    try {
      const value = (await this.serve(request)) ?? null;
      this.say({ type: 'reply', id, value, error: null });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.say({ type: 'reply', id, value: null, error: why });
    }
  }

  private watch = (_: unknown, status: Kernel.Status): void => {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this.disconnect();
    }
  };

  /** What the kernel said while the network was away may be lost. */
  private resume = (_: unknown, status: Kernel.ConnectionStatus): void => {
    if (status !== 'connected') {
      this.isTorn = this.comm !== null;
    } else if (this.isTorn) {
      this.reconnect();
    } else if (this.comm === null) {
      void this.look();
    }
  };

  private reconnect(): void {
    this.letGo();
    this.connect();
  }

  /** There is no ipyagent any more where it was. */
  private disconnect(): void {
    this.letGo();
    this.runs.clear();
    if (this.overview !== null) {
      this.overview = null;
      this.changes.emit();
    }
  }

  /** Of the comms, not of what is known. */
  private letGo(): void {
    this.isTorn = false;
    this.comm?.drop();
    this.out?.dispose();
    this.comm = this.out = null;
    const unanswered = [...this.answers.values()];
    this.answers.clear();
    unanswered.forEach(resolve => resolve(undefined));
  }
}
