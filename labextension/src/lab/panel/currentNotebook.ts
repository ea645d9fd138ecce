/** The notebook that a person works in, and what its kernel told last. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';

import type { Overview } from '../../protocol';
import type { Link } from '../kernel/link';
import type { ILinks } from '../kernel/links';

export class Current {
  private changes = new Signal<this, void>(this);
  private watched: NotebookPanel | null = null;

  constructor(
    private tracker: INotebookTracker,
    private links: ILinks
  ) {
    tracker.currentChanged.connect(this.follow);
    links.changed.connect(this.tell);
    this.follow();
  }

  /** Emitted when another notebook is current, and when there is news of it. */
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

  /** Null where no agent is. */
  get overview(): Overview | null {
    return this.link?.overview ?? null;
  }

  /** Whether the kernel hears what is said now. */
  get isReachable(): boolean {
    return this.link?.kernel.connectionStatus === 'connected';
  }

  private follow = (): void => {
    if (this.watched?.isDisposed === false) {
      const { content, context, sessionContext } = this.watched;
      content.modelChanged.disconnect(this.watch);
      content.model?.cells.changed.disconnect(this.tell);
      context.pathChanged.disconnect(this.tell);
      sessionContext.connectionStatusChanged.disconnect(this.tell);
    }
    this.watched = this.panel;
    if (this.watched !== null) {
      const { content, context, sessionContext } = this.watched;
      content.modelChanged.connect(this.watch);
      context.pathChanged.connect(this.tell);
      sessionContext.connectionStatusChanged.connect(this.tell);
    }
    this.watch();
  };

  private watch = (): void => {
    this.watched?.content.model?.cells.changed.connect(this.tell);
    this.tell();
  };

  private tell = (): void => this.changes.emit();
}
