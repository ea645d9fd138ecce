/** Connects the page to the kernels of all open notebooks, and views to live runs. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { type Answer, Channel, type ToRun } from '../channel';
import type {
  Ask,
  NewCell,
  Overview,
  PageRequest,
  PendingApproval,
  Protocol,
  Shows
} from '../protocol';
import type { Reply } from '../view/host';
import { endSubshell, hasComm, SubshellComm } from './control';

const TARGET = 'ipyagent';

const PAGE = UUID.uuid4();

type Replies = Protocol['replies'];

/** The fields of messages that a link receives. */
interface Content {
  comm_id?: string;
  data?: unknown;
  transient?: { display_id?: unknown };
}

/** The open notebooks of one kernel, and the ids of the connections that run its cells. */
type OpenNotebooks = Omit<Shows, 'type'>;

/**
 * Connects the page to one kernel. Opens a comm once the kernel reports ipyagent, another one after
 * a reconnect, and resumes followed runs from a snapshot. The kernel replies on a comm that is not
 * opened, so that JupyterLab starts no subshell for it.
 */
export class Link {
  /** The kernel's last overview; null while disconnected. */
  overview: Overview | null = null;
  /** Prompts to begin with: null while they are asked for, undefined before that. */
  prompts: readonly string[] | null | undefined;
  /** Cells for a user without data, once the prompts are known. */
  example: readonly NewCell[] = [];
  /** False where JupyterLab's widgets have no connection to the kernel. */
  hasWidgets = true;

  /** Emitted after every change of `overview`. */
  readonly changed = new Signal<this, void>(this);

  /** The runs that are followed. */
  private channels = new Map<string, Channel>();
  private answers = new Map<number, (value: unknown) => void>();
  private requestCount = 0;
  private comm: SubshellComm | null = null;
  private isDisconnected = false;

  constructor(
    /** The connection of the comm, shared by all notebooks of this kernel. */
    public kernel: Kernel.IKernelConnection,
    private listNotebooks: (link: Link) => OpenNotebooks,
    /** Answers a request of the kernel; an exception becomes the reply's error. */
    private serve: (request: PageRequest, link: Link) => unknown
  ) {
    this.attach();
  }

  /** The kernel's live runs. */
  get live(): Overview['runs'] {
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

  /** Return the channel of a run, shared by all its views; null if it is not live. */
  channel(runId: string): Channel | null {
    const known = this.channels.get(runId);
    if (known !== undefined || this.live.every(({ id }) => id !== runId)) {
      return known ?? null;
    }
    const channel = new Channel(message => this.sendToRun(runId, message));
    this.channels.set(runId, channel);
    this.send({ type: 'follow', run_id: runId });
    return channel;
  }

  /** Ask the kernel; resolves with its answer, or undefined if the connection was lost. */
  ask<T extends keyof Replies>(what: T, about: Partial<Ask>): Promise<Reply<T> | undefined> {
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
    Signal.disconnectReceiver(this);
    this.drop();
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

  /** Close the comm and disconnect all signals. */
  dispose(): void {
    Signal.disconnectReceiver(this);
    this.close();
    this.disconnect();
    Signal.clearData(this);
  }

  private attach(): void {
    const { kernel } = this;
    kernel.statusChanged.connect(this.onStatus, this);
    kernel.iopubMessage.connect(this.onIopub, this);
    kernel.connectionStatusChanged.connect(this.onConnectionStatus, this);
    this.onConnectionStatus(kernel, kernel.connectionStatus);
  }

  /** Connect if the kernel has a comm of ipyagent, whoever loaded it. */
  private async poll(): Promise<void> {
    const { kernel } = this;
    if ((await hasComm(kernel, `${TARGET}.out`)) && kernel === this.kernel) {
      this.connect();
    }
  }

  /** Receive messages, and reconnect when ipyagent was loaded: older comms are dead. */
  private onIopub = (_: unknown, { header, content }: KernelMessage.IIOPubMessage): void => {
    const { comm_id, data, transient } = content as Content;
    if (header.msg_type === 'comm_msg' && comm_id === this.comm?.replyId) {
      this.receive(data as Protocol['to_page']);
    } else if (transient?.display_id === `${TARGET}:loaded`) {
      this.reconnect();
    }
  };

  private connect(): void {
    const { kernel } = this;
    if (this.comm === null) {
      const comm = (this.comm = new SubshellComm(kernel, TARGET));
      this.reportNotebooks();
      this.channels.forEach((_, runId) => this.send({ type: 'follow', run_id: runId }));
      const { notebooks } = this.listNotebooks(this);
      void comm.open({ page: PAGE, client: kernel.clientId, notebooks });
    }
  }

  private receive(message: Protocol['to_page']): void {
    switch (message.type) {
      case 'overview':
        this.showOverview(message.overview);
        break;
      case 'run':
        this.channels.get(message.run_id)?.receive(message.message);
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

  /** Keep an overview with all blocks of its panel: those that have not changed are not sent. */
  private showOverview(overview: Overview): void {
    const { set, order } = overview.panel;
    const known = new Map(this.overview?.panel.set.map(each => [each.key, each]));
    set.forEach(each => known.set(each.key, each));
    const there = Object.values(order).flatMap(keys => keys.flatMap(key => known.get(key) ?? []));
    this.overview = { ...overview, panel: { set: there, order } };
    const live = new Set(this.live.map(({ id }) => id));
    [...this.channels.keys()].filter(id => !live.has(id)).forEach(id => this.channels.delete(id));
    this.changed.emit();
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
    this.drop();
    this.connect();
  }

  /** Forget the kernel's state: ipyagent is gone. */
  private disconnect(): void {
    this.drop();
    this.channels.forEach(channel => channel.disconnect());
    this.channels.clear();
    if (this.overview !== null) {
      this.overview = null;
      this.changed.emit();
    }
  }

  /** Drop the comm, and keep the overview. */
  private drop(): void {
    this.isDisconnected = false;
    this.comm?.drop();
    this.comm = null;
    const unanswered = [...this.answers.values()];
    this.answers.clear();
    unanswered.forEach(resolve => resolve(undefined));
  }
}

/** Answers a request about a notebook. */
type Serve = (panel: NotebookPanel, request: PageRequest) => unknown;

/** The open notebooks, and their links to kernels. */
export class Links {
  /** Emitted when a link or a kernel's connection has changed, or another notebook is current. */
  readonly changed = new Signal<this, void>(this);

  private links = new Map<string, Link>();
  /** Answers the kernels' requests: set by `notebookTools.ts`. */
  serve: Serve = () => null;

  constructor(
    readonly app: JupyterFrontEnd,
    readonly tracker: INotebookTracker
  ) {
    live.channel = runId => this.all.map(link => link.channel(runId)).find(Boolean) ?? null;
    this.changed.connect(() => live.changed.emit());
    this.forEachNotebook(panel => this.add(panel));
    tracker.currentChanged.connect(() => this.changed.emit());
    window.addEventListener('pagehide', () => this.links.forEach(link => link.close()));
  }

  /** The current notebook; null while none is open. */
  get panel(): NotebookPanel | null {
    return this.tracker.currentWidget;
  }

  /** The link of the current notebook. */
  get current(): Link | null {
    return this.of(this.panel);
  }

  /** All links, each once. */
  get all(): readonly Link[] {
    return [...new Set(this.notebooks().flatMap(panel => this.of(panel) ?? []))];
  }

  /** Return the link of a notebook; null without a kernel. */
  of(panel: NotebookPanel | null): Link | null {
    return this.links.get((panel && kernelOf(panel)?.id) ?? '') ?? null;
  }

  /** Call `each` with the open notebooks, and with those that are opened later. */
  forEachNotebook(each: (panel: NotebookPanel) => void): void {
    this.tracker.forEach(each);
    this.tracker.widgetAdded.connect((_, panel) => each(panel));
  }

  /** Return the open notebooks, or one kernel's notebooks, in the order in which they were opened. */
  notebooks(link?: Link): NotebookPanel[] {
    const panels: NotebookPanel[] = [];
    this.tracker.forEach(panel => panel.isDisposed || panels.push(panel));
    return panels.filter(panel => link === undefined || kernelOf(panel)?.id === link.kernel.id);
  }

  /** Return the notebook with this node; null if none has it. */
  around(node: Node): NotebookPanel | null {
    return this.notebooks().find(panel => panel.node.contains(node)) ?? null;
  }

  private add(panel: NotebookPanel): void {
    const { sessionContext } = panel;
    const update = (): void => this.update();
    sessionContext.kernelChanged.connect(update);
    sessionContext.connectionStatusChanged.connect(() => this.changed.emit());
    panel.context.pathChanged.connect(update);
    panel.disposed.connect(() => {
      sessionContext.kernelChanged.disconnect(update);
      update();
    });
    void sessionContext.ready.then(update);
    update();
  }

  /** Keep one link for each kernel of an open notebook. */
  private update(): void {
    const connections = this.notebooks().flatMap(panel => kernelOf(panel) ?? []);
    const ids = new Set(connections.map(({ id }) => id));
    for (const [id, link] of this.links) {
      if (!ids.has(id)) {
        this.links.delete(id);
        link.dispose();
      }
    }
    for (const id of ids) {
      const own = connections.filter(each => each.id === id);
      const link = this.links.get(id) ?? this.addLink(id, own[0]);
      if (!own.includes(link.kernel)) {
        link.useConnection(own[0]);
      }
      // JupyterLab enables widgets on one connection per kernel: the first notebook's.
      link.hasWidgets = own.some(({ handleComms }) => handleComms);
    }
    this.links.forEach(link => link.reportNotebooks());
    this.changed.emit();
  }

  private addLink(id: string, connection: Kernel.IKernelConnection): Link {
    const link = new Link(connection, this.listNotebooks, this.answerRequest);
    link.changed.connect(() => this.changed.emit());
    this.links.set(id, link);
    return link;
  }

  private listNotebooks = (link: Link): OpenNotebooks => {
    const panels = this.notebooks(link);
    return {
      notebooks: panels.map(({ context }) => context.path),
      clients: panels.flatMap(panel => kernelOf(panel)?.clientId ?? [])
    };
  };

  /** Answer a request, with the notebook at its `path` or of its `client`. */
  private answerRequest = (request: PageRequest, link: Link): unknown => {
    const { path, client } = request;
    const own = this.notebooks(link);
    const panel =
      path === null
        ? (own.find(each => kernelOf(each)?.clientId === client) ?? own.at(0))
        : this.notebooks().find(({ context }) => context.path === path);
    if (panel === undefined) {
      throw new Error('the notebook is not open');
    }
    return this.serve(panel, request);
  };
}

function kernelOf({ sessionContext }: NotebookPanel): Kernel.IKernelConnection | null {
  return sessionContext.session?.kernel ?? null;
}

/** The page's live runs, for the renderer of saved ones, which may start first. */
export const live = {
  changed: new Signal<object, void>({}),
  /** Return the channel of a run; null if it is not live. */
  channel: (() => null) as (runId: string) => Channel | null
};
