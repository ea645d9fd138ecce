/** The current notebook, and the last overview of its kernel. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';

import type { Overview } from '../../protocol';
import type { Link } from '../kernel/link';
import type { ILinks } from '../kernel/links';

export class CurrentNotebook {
  private changes = new Signal<this, void>(this);
  private watched: NotebookPanel | null = null;

  constructor(
    private tracker: INotebookTracker,
    private links: ILinks
  ) {
    tracker.currentChanged.connect(this.switchNotebook);
    links.changed.connect(this.emitChange);
    this.switchNotebook();
  }

  /** Emitted when the current notebook or its overview changes. */
  get changed(): ISignal<this, void> {
    return this.changes;
  }

  /** Null while no notebook is open. */
  get panel(): NotebookPanel | null {
    return this.tracker.currentWidget;
  }

  get link(): Link | null {
    return this.links.of(this.panel);
  }

  /** Null without ipyagent. */
  get overview(): Overview | null {
    return this.link?.overview ?? null;
  }

  /** True if the kernel is connected. */
  get isReachable(): boolean {
    return this.link?.kernel.connectionStatus === 'connected';
  }

  private switchNotebook = (): void => {
    if (this.watched?.isDisposed === false) {
      const { content, context, sessionContext } = this.watched;
      content.modelChanged.disconnect(this.watchCells);
      content.model?.cells.changed.disconnect(this.emitChange);
      context.pathChanged.disconnect(this.emitChange);
      sessionContext.connectionStatusChanged.disconnect(this.emitChange);
    }
    this.watched = this.panel;
    if (this.watched !== null) {
      const { content, context, sessionContext } = this.watched;
      content.modelChanged.connect(this.watchCells);
      context.pathChanged.connect(this.emitChange);
      sessionContext.connectionStatusChanged.connect(this.emitChange);
    }
    this.watchCells();
  };

  private watchCells = (): void => {
    this.watched?.content.model?.cells.changed.connect(this.emitChange);
    this.emitChange();
  };

  private emitChange = (): void => this.changes.emit();
}
