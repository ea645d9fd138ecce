/** The kernels of all open notebooks, and what they are told and asked. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

import type { PageRequest } from '../../protocol';
import { Link, Serve, Shown } from './link';

/** Every open notebook's connection to its kernel. */
export interface ILinks {
  /** Those of open notebooks, each once. */
  readonly all: readonly Link[];
  /** That of a notebook; null where its kernel is not there. */
  of(panel: NotebookPanel | null): Link | null;
  /** The open notebooks, or those of one kernel; the one that was opened first first. */
  notebooks(link?: Link): NotebookPanel[];
  /** Emitted when a link was made, was lost, or has news. */
  readonly changed: ISignal<ILinks, void>;
  /** Answer the kernel's requests of this kind. */
  serve(what: string, handler: (panel: NotebookPanel, request: PageRequest) => unknown): void;
}

export const ILinks = new Token<ILinks>(
  'ipyagent:ILinks',
  'The connections of open notebooks to kernels with ipyagent.'
);

class Links implements ILinks {
  private links = new Map<string, Link>();
  private owned = new Map<string, Kernel.IKernelConnection>();
  private changes = new Signal<ILinks, void>(this);
  private handlers = new Map<string, (panel: NotebookPanel, request: PageRequest) => unknown>();

  constructor(private tracker: INotebookTracker) {
    tracker.forEach(panel => this.add(panel));
    tracker.widgetAdded.connect((_, panel) => this.add(panel));
    window.addEventListener('pagehide', () => this.links.forEach(link => link.close()));
  }

  get changed(): ISignal<ILinks, void> {
    return this.changes;
  }

  get all(): readonly Link[] {
    return [...new Set(this.notebooks().flatMap(panel => this.of(panel) ?? []))];
  }

  of(panel: NotebookPanel | null): Link | null {
    return this.links.get((panel && kernelOf(panel)?.id) ?? '') ?? null;
  }

  notebooks(link?: Link): NotebookPanel[] {
    return this.panels(link?.kernel.id);
  }

  serve(what: string, handler: (panel: NotebookPanel, request: PageRequest) => unknown): void {
    this.handlers.set(what, handler);
  }

  private add(panel: NotebookPanel): void {
    const { sessionContext } = panel;
    const update = (): void => this.update();
    sessionContext.kernelChanged.connect(update);
    panel.context.pathChanged.connect(update);
    panel.disposed.connect(() => {
      sessionContext.kernelChanged.disconnect(update);
      update();
    });
    void sessionContext.ready.then(update);
    update();
  }

  /** One link for each kernel that an open notebook has. */
  private update(): void {
    const connections = this.notebooks().flatMap(panel => kernelOf(panel) ?? []);
    const ids = new Set(connections.map(({ id }) => id));
    for (const [id, link] of this.links) {
      if (!ids.has(id)) {
        this.links.delete(id);
        link.dispose();
        this.own(id, null);
      }
    }
    for (const id of ids) {
      this.link(
        id,
        connections.filter(connection => connection.id === id)
      );
    }
    this.links.forEach(link => link.shows());
    this.changes.emit();
  }

  private link(id: string, connections: Kernel.IKernelConnection[]): void {
    const connection = this.speaking(id, connections, this.links.get(id)?.kernel);
    const link = this.linked(id, connection);
    link.hasWidgets = connection !== this.owned.get(id);
    if (link.hasWidgets) {
      this.own(id, null);
    }
  }

  private linked(id: string, connection: Kernel.IKernelConnection): Link {
    const found = this.links.get(id);
    if (found === undefined) {
      const serve: Serve = request => this.answer(id, request);
      const made = new Link(connection, () => this.shown(id), serve);
      made.changed.connect(() => this.changes.emit());
      this.links.set(id, made);
      return made;
    }
    if (found.kernel !== connection) {
      found.use(connection);
    }
    return found;
  }

  /**
   * JupyterLab lets one connection to a kernel handle comms, that of the notebook which came first.
   * When this one is closed the others are left without, so they get one of ours.
   */
  private speaking(
    id: string,
    connections: Kernel.IKernelConnection[],
    current?: Kernel.IKernelConnection
  ): Kernel.IKernelConnection {
    const able = connections.filter(connection => connection.handleComms);
    const found = able.find(connection => connection === current) ?? able.at(0);
    const own = this.owned.get(id);
    if (found !== undefined) {
      return found;
    }
    return own ?? this.own(id, connections[0].clone({ handleComms: true }));
  }

  private own<T extends Kernel.IKernelConnection | null>(id: string, connection: T): T {
    this.owned.get(id)?.dispose();
    this.owned.delete(id);
    if (connection !== null) {
      this.owned.set(id, connection);
    }
    return connection;
  }

  private panels(kernelId?: string): NotebookPanel[] {
    const panels: NotebookPanel[] = [];
    this.tracker.forEach(panel => panel.isDisposed || panels.push(panel));
    return kernelId === undefined
      ? panels
      : panels.filter(panel => kernelOf(panel)?.id === kernelId);
  }

  private shown(kernelId: string): Shown {
    const panels = this.panels(kernelId);
    return {
      notebooks: panels.map(({ context }) => context.path),
      clients: panels.flatMap(panel => kernelOf(panel)?.clientId ?? [])
    };
  }

  /** A request is about the notebook at its `path`, or the kernel's own: that of its `client`. */
  private answer(kernelId: string, request: PageRequest): unknown {
    const handler = this.handlers.get(request.what);
    const { path, client } = request;
    const own = this.panels(kernelId);
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

export const links: JupyterFrontEndPlugin<ILinks> = {
  id: 'ipyagent:links',
  description: 'Connects open notebooks to kernels that have ipyagent loaded.',
  autoStart: true,
  requires: [INotebookTracker],
  provides: ILinks,
  activate: (_, tracker: INotebookTracker) => new Links(tracker)
};
