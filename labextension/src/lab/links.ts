/** Connects all open notebooks to their kernels, and views to live runs. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { Channel } from '../channel';
import type { PageRequest } from '../protocol';
import { Link, OpenNotebooks } from './link';

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
        ownOf(link)?.dispose();
      }
    }
    for (const id of ids) {
      const own = connections.filter(each => each.id === id);
      this.updateLink(id, own);
    }
    this.links.forEach(link => link.reportNotebooks());
    this.changed.emit();
  }

  /**
   * Choose the connection for a kernel's comms. JupyterLab enables comms on one connection per
   * kernel: the first notebook's. When this is closed the others have none, so they share one of
   * ours.
   */
  private updateLink(id: string, connections: Kernel.IKernelConnection[]): void {
    const before = this.links.get(id);
    const own = before === undefined ? null : ownOf(before);
    const able = connections.filter(({ handleComms }) => handleComms);
    const usable = able.find(each => each === before?.kernel) ?? able.at(0);
    const connection = usable ?? own ?? connections[0].clone({ handleComms: true });
    const link = before ?? this.addLink(id, connection);
    if (link.kernel !== connection) {
      link.useConnection(connection);
      own?.dispose();
    }
    link.hasWidgets = usable !== undefined;
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

/** Return the connection of a link if it is one of ours. */
function ownOf({ kernel, hasWidgets }: Link): Kernel.IKernelConnection | null {
  return hasWidgets ? null : kernel;
}

export class LiveRuns {
  /** Emitted when new runs are live. */
  readonly appeared = new Signal<this, void>(this);

  private entries = new Map<string, { link: Link; channel: Channel | null }>();

  /** Return the channel of a run, shared by all its views; null if it is not live. */
  channel(runId: string): Channel | null {
    const entry = this.entries.get(runId);
    if (entry?.channel === null) {
      const channel = new Channel(message => entry.link.sendToRun(runId, message));
      entry.link.follow(runId, message => channel.receive(message));
      entry.channel = channel;
    }
    return entry?.channel ?? null;
  }

  /** Update the list from the links' overviews. */
  update(links: readonly Link[]): void {
    const on = new Map(links.flatMap(link => link.live.map(({ id }) => [id, link] as const)));
    for (const [id, { link, channel }] of this.entries) {
      if (on.get(id) !== link) {
        this.entries.delete(id);
        link.unfollow(id);
        if (link.overview === null) {
          channel?.disconnect();
        }
      }
    }
    const fresh = [...on].filter(([id]) => !this.entries.has(id));
    fresh.forEach(([id, link]) => this.entries.set(id, { link, channel: null }));
    if (fresh.length > 0) {
      this.appeared.emit();
    }
  }
}

/** The page's live runs, shared by the renderer and the plugins. */
export const live = new LiveRuns();
