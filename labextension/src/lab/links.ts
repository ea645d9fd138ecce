/** Connects all open notebooks to their kernels, and views to live runs. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import type { Channel } from '../channel';
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

interface LiveRuns {
  readonly changed: Signal<object, void>;
  /** Returns the channel of a run; null if it is not live. */
  channel: (runId: string) => Channel | null;
}

/** The page's live runs, for the renderer of saved ones, which may start first. */
export const live: LiveRuns = { changed: new Signal({}), channel: () => null };
