/** The connection of a page to one kernel that has ipyagent loaded. */
import { CommsOverSubshells, Kernel, KernelMessage as Jupyter } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import type { Answer, FromRun, ToRun } from '../channel';
import type { Ask, Overview, PageRequest, PendingApproval, Protocol, RunLine } from '../protocol';
import { endSubshell, hasComm, SubshellComm } from './control';

const TARGET = 'ipyagent';

/** Milliseconds to wait for JupyterLab's subshell; some kernels have none. */
const SUBSHELL_MILLISECONDS = 1_000;

const PAGE = UUID.uuid4();

/** A field since JupyterLab 4.4 that is not in its interface. */
type Starting = Kernel.IComm & { readonly subshellStarted?: Promise<void> };

/** Handles a request of the kernel; an exception becomes the reply's error. */
type Serve = (request: PageRequest, link: Link) => unknown;

/** The open notebooks of one kernel. */
export interface OpenNotebooks {
  notebooks: string[];
  /** The ids of the connections that run its cells. */
  clients: string[];
}

/**
 * Connects the page to one kernel. Opens comms once the kernel reports ipyagent, reopens them after
 * a reconnect, and resumes followed runs from a snapshot.
 */
export class Link {
  /** The kernel's last overview; null while disconnected. */
  overview: Overview | null = null;
  /** False where JupyterLab's widgets have no connection to the kernel. */
  hasWidgets = true;

  /** Emitted after every change of `overview`. */
  readonly changed = new Signal<this, void>(this);

  private runs = new Map<string, (message: FromRun) => void>();
  private answers = new Map<number, (value: unknown) => void>();
  private requestCount = 0;
  private comm: SubshellComm | null = null;
  private kernelComm: Kernel.IComm | null = null;
  private isDisconnected = false;

  constructor(
    /** The connection of the comms, shared by all notebooks of this kernel. */
    public kernel: Kernel.IKernelConnection,
    private listNotebooks: (link: Link) => OpenNotebooks,
    private serve: Serve
  ) {
    this.attach();
  }

  /** The kernel's live runs. */
  get live(): RunLine[] {
    return this.overview?.runs.filter(({ live }) => live) ?? [];
  }

  /** Send a message to the kernel; dropped while disconnected. */
  send(message: Protocol['to_kernel']): void {
    this.comm?.send(message as unknown as JSONObject);
  }

  /** Send a message to one of its runs. */
  sendToRun(runId: string, message: ToRun): void {
    this.send({ type: 'to_run', run_id: runId, message });
  }

  /** Decide on what a run asks. */
  decide({ run_id, approval_id }: PendingApproval, answer: Answer): void {
    this.sendToRun(run_id, { type: 'decide', approval_id, answer });
  }

  /** Receive the messages of one run, beginning with a snapshot. */
  follow(runId: string, receive: (message: FromRun) => void): void {
    this.runs.set(runId, receive);
    this.send({ type: 'follow', run_id: runId });
  }

  /** Stop receiving a run's messages. */
  unfollow(runId: string): void {
    this.runs.delete(runId);
  }

  /** Ask the kernel; resolves with its answer, or undefined if the connection was lost. */
  ask<T>(what: Ask['what'], about: Partial<Ask>): Promise<T | undefined> {
    const id = ++this.requestCount;
    return new Promise(resolve => {
      this.answers.set(id, resolve as (value: unknown) => void);
      const none = { text: '', run_id: null, cell_id: null, model: null, dry_run: false };
      this.send({ type: 'ask', id, what, ...none, ...about });
    });
  }

  /** Report the open notebooks of this kernel. */
  reportNotebooks(): void {
    this.send({ type: 'shows', ...this.listNotebooks(this) });
  }

  /** Switch to another connection to the same kernel. */
  useConnection(connection: Kernel.IKernelConnection): void {
    this.detach();
    this.closeComms();
    this.kernel = connection;
    this.attach();
    if (this.overview !== null) {
      this.connect();
    }
  }

  /** Close the comm, as the page is unloaded. */
  close(): void {
    this.comm?.close();
    this.comm = null;
  }

  /** Close all comms and disconnect all signals. */
  dispose(): void {
    this.detach();
    this.close();
    this.disconnect();
    Signal.clearData(this);
  }

  private attach(): void {
    const { kernel } = this;
    kernel.registerCommTarget(`${TARGET}.out`, this.onComm);
    kernel.statusChanged.connect(this.onStatus);
    kernel.iopubMessage.connect(this.onIopub);
    kernel.connectionStatusChanged.connect(this.onConnectionStatus);
    this.onConnectionStatus(kernel, kernel.connectionStatus);
  }

  private detach(): void {
    const { kernel } = this;
    kernel.statusChanged.disconnect(this.onStatus);
    kernel.connectionStatusChanged.disconnect(this.onConnectionStatus);
    kernel.iopubMessage.disconnect(this.onIopub);
    if (!kernel.isDisposed) {
      kernel.removeCommTarget(`${TARGET}.out`, this.onComm);
    }
  }

  /** Connect if the kernel has a comm of ipyagent, whoever loaded it. */
  private async poll(): Promise<void> {
    const { kernel } = this;
    if ((await hasComm(kernel, `${TARGET}.out`)) && kernel === this.kernel) {
      this.connect();
    }
  }

  /** Reconnect when the kernel reports that ipyagent was loaded: older comms are dead. */
  private onIopub = (_: unknown, { header, content }: Jupyter.IIOPubMessage): void => {
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
    this.reportNotebooks();
    this.runs.forEach((_, runId) => this.send({ type: 'follow', run_id: runId }));
    const { notebooks } = this.listNotebooks(this);
    void comm.open({ page: PAGE, client: kernel.clientId, notebooks });
  }

  /** Accept the comm that the kernel opens to this page; others are for other pages. */
  private onComm = (comm: Kernel.IComm, { content }: { content: { data: unknown } }): void => {
    const { page } = content.data as { page?: string };
    if (page === PAGE) {
      this.kernelComm = comm;
      comm.onMsg = message => this.receive(message.content.data as unknown as Protocol['to_page']);
    }
    void this.disableSubshell(comm, page === PAGE);
  };

  /**
   * Disable the comm's subshell: the page sends nothing on it. JupyterLab starts one anyway, and
   * leaks it if the comm is disposed before it has started.
   */
  private async disableSubshell(comm: Starting, isMine: boolean): Promise<void> {
    await this.kernel.info.catch(() => undefined);
    const timeout = new Promise<void>(resolve => setTimeout(resolve, SUBSHELL_MILLISECONDS));
    await Promise.race([comm.subshellStarted, timeout]);
    if (isMine && !comm.isDisposed) {
      comm.commsOverSubshells = CommsOverSubshells.Disabled;
    } else {
      comm.dispose();
    }
  }

  private receive(message: Protocol['to_page']): void {
    switch (message.type) {
      case 'overview':
        this.overview = this.addKnown(message.overview);
        this.changed.emit();
        break;
      case 'run':
        this.runs.get(message.run_id)?.(message.message);
        break;
      case 'reply':
        this.answers.get(message.id)?.(message.value);
        this.answers.delete(message.id);
        break;
      case 'request':
        void this.answerRequest(message);
        break;
      case 'ping':
        this.send({ type: 'here' });
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

  /** Return an overview with all blocks of its panel: those that have not changed are not sent. */
  private addKnown(overview: Overview): Overview {
    const { set, order } = overview.panel;
    const known = new Map(this.overview?.panel.set.map(each => [each.key, each]));
    set.forEach(each => known.set(each.key, each));
    const there = Object.values(order).flatMap(keys => keys.flatMap(key => known.get(key) ?? []));
    return { ...overview, panel: { set: there, order } };
  }

  private async answerRequest(request: PageRequest): Promise<void> {
    const { id } = request;
    try {
      const value = (await this.serve(request, this)) ?? null;
      this.send({ type: 'reply', id, value, error: null });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.send({ type: 'reply', id, value: null, error: why });
    }
  }

  private onStatus = (_: unknown, status: Kernel.Status): void => {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this.disconnect();
    }
  };

  /** Reconnect after an interruption, as messages may be lost; poll on the first connection. */
  private onConnectionStatus = (_: unknown, status: Kernel.ConnectionStatus): void => {
    if (status !== 'connected') {
      this.isDisconnected = this.comm !== null;
    } else if (this.isDisconnected) {
      this.reconnect();
    } else if (this.comm === null) {
      void this.poll();
    }
  };

  private reconnect(): void {
    this.closeComms();
    this.connect();
  }

  /** Forget the kernel's state: ipyagent is gone. */
  private disconnect(): void {
    this.closeComms();
    this.runs.clear();
    if (this.overview !== null) {
      this.overview = null;
      this.changed.emit();
    }
  }

  /** Close the comms, and keep the overview. */
  private closeComms(): void {
    this.isDisconnected = false;
    this.comm?.drop();
    this.kernelComm?.dispose();
    this.comm = this.kernelComm = null;
    const unanswered = [...this.answers.values()];
    this.answers.clear();
    unanswered.forEach(resolve => resolve(undefined));
  }
}
