/** The current notebook, and the last overview of its kernel. */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';

import type { Overview } from '../../protocol';
import type { Link } from '../kernel/link';
import type { ILinks } from '../kernel/links';

export class CurrentNotebook {
  /** Emitted when the current notebook or its overview changes. */
  readonly changed = new Signal<this, void>(this);

  private watched: NotebookPanel | null = null;

  constructor(
    private tracker: INotebookTracker,
    private links: ILinks
  ) {
    tracker.currentChanged.connect(this.switchNotebook);
    links.changed.connect(this.emitChange);
    this.switchNotebook();
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
      this.watched.content.modelChanged.disconnect(this.switchNotebook);
      this.signals(this.watched).forEach(signal => signal.disconnect(this.emitChange));
    }
    this.watched = this.panel;
    if (this.watched !== null) {
      this.watched.content.modelChanged.connect(this.switchNotebook);
      this.signals(this.watched).forEach(signal => signal.connect(this.emitChange));
    }
    this.emitChange();
  };

  private signals({
    content,
    context,
    sessionContext
  }: NotebookPanel): ISignal<unknown, unknown>[] {
    const cells = content.model === null ? [] : [content.model.cells.changed];
    return [...cells, context.pathChanged, sessionContext.connectionStatusChanged];
  }

  private emitChange = (): void => this.changed.emit();
}
