/** Connects all open notebooks to their kernels. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import type { PageRequest } from '../../protocol';
import { Link, OpenNotebooks } from './link';

type Handler = (panel: NotebookPanel, request: PageRequest) => unknown;

/** The open notebooks, and their links to kernels. */
export class Links {
  /** Emitted when a link or a kernel's connection has changed, or another notebook is current. */
  readonly changed = new Signal<this, void>(this);

  private links = new Map<string, Link>();
  private ownConnections = new Map<string, Kernel.IKernelConnection>();
  private handlers = new Map<string, Handler>();

  constructor(
    readonly app: JupyterFrontEnd,
    readonly tracker: INotebookTracker
  ) {
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

  /** Return the open notebooks, or those of one kernel, in the order in which they were opened. */
  notebooks(link?: Link): NotebookPanel[] {
    const panels: NotebookPanel[] = [];
    this.tracker.forEach(panel => panel.isDisposed || panels.push(panel));
    return panels.filter(panel => link === undefined || kernelOf(panel)?.id === link.kernel.id);
  }

  /** Register a handler for a kind of request. */
  serve(what: string, handler: Handler): void {
    this.handlers.set(what, handler);
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
        this.setOwnConnection(id, null);
      }
    }
    for (const id of ids) {
      this.updateLink(
        id,
        connections.filter(connection => connection.id === id)
      );
    }
    this.links.forEach(link => link.reportNotebooks());
    this.changed.emit();
  }

  private updateLink(id: string, connections: Kernel.IKernelConnection[]): void {
    const connection = this.chooseConnection(id, connections, this.links.get(id)?.kernel);
    const link = this.linkFor(id, connection);
    link.hasWidgets = connection !== this.ownConnections.get(id);
    if (link.hasWidgets) {
      this.setOwnConnection(id, null);
    }
  }

  private linkFor(id: string, connection: Kernel.IKernelConnection): Link {
    const link = this.links.get(id);
    if (link === undefined) {
      const link = new Link(
        connection,
        each => this.listNotebooks(each),
        (request, each) => this.answerRequest(request, each)
      );
      link.changed.connect(() => this.changed.emit());
      this.links.set(id, link);
      return link;
    }
    if (link.kernel !== connection) {
      link.useConnection(connection);
    }
    return link;
  }

  /**
   * Choose the connection for comms. JupyterLab enables comms on one connection per kernel, that of
   * the first notebook. When this is closed the others have none, so they share one of ours.
   */
  private chooseConnection(
    id: string,
    connections: Kernel.IKernelConnection[],
    current?: Kernel.IKernelConnection
  ): Kernel.IKernelConnection {
    const able = connections.filter(connection => connection.handleComms);
    const usable = able.find(connection => connection === current) ?? able.at(0);
    const own = this.ownConnections.get(id);
    if (usable !== undefined) {
      return usable;
    }
    return own ?? this.setOwnConnection(id, connections[0].clone({ handleComms: true }));
  }

  private setOwnConnection<T extends Kernel.IKernelConnection | null>(
    id: string,
    connection: T
  ): T {
    this.ownConnections.get(id)?.dispose();
    this.ownConnections.delete(id);
    if (connection !== null) {
      this.ownConnections.set(id, connection);
    }
    return connection;
  }

  private listNotebooks(link: Link): OpenNotebooks {
    const panels = this.notebooks(link);
    return {
      notebooks: panels.map(({ context }) => context.path),
      clients: panels.flatMap(panel => kernelOf(panel)?.clientId ?? [])
    };
  }

  /** Pass a request to its handler, with the notebook at its `path` or that of its `client`. */
  private answerRequest(request: PageRequest, link: Link): unknown {
    const handler = this.handlers.get(request.what);
    const { path, client } = request;
    const own = this.notebooks(link);
    const panel =
      path === null
        ? (own.find(each => kernelOf(each)?.clientId === client) ?? own.at(0))
        : this.notebooks().find(({ context }) => context.path === path);
    if (handler === undefined) {
      throw new Error(`this version of the page cannot do ${request.what}`);
    }
    if (panel === undefined) {
      throw new Error('the notebook is not open');
    }
    return handler(panel, request);
  }
}

function kernelOf({ sessionContext }: NotebookPanel): Kernel.IKernelConnection | null {
  return sessionContext.session?.kernel ?? null;
}
