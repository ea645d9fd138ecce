/**
 * The keyboard's place. A card is drawn anew when its run ends: what had the focus in it is gone, and
 * the page would have it, where no key of the notebook works. So the card's cell gets it.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';

import { widgetModules } from '../loader';
import { UNDO, UndoRequest } from '../view/undo';
import { WIDGET_HASH } from '../widgetHash';
import { ILinks } from './kernel/links';

const CARD = '[data-ipyagent="run"]';

interface Held {
  readonly element: Element;
  /** The cell whose card it is in. */
  readonly cell: Element;
}

class FocusKeeper {
  private held: Held | null = null;
  private changes = new MutationObserver(() => this.check());

  constructor(private tracker: INotebookTracker) {
    document.addEventListener('focusin', ({ target }) => this.hold(target as Element));
  }

  private hold(element: Element): void {
    this.changes.disconnect();
    const cell = element.closest(CARD)?.closest('.jp-Cell') ?? null;
    this.held = cell === null ? null : { element, cell };
    if (cell !== null) {
      this.changes.observe(cell, { childList: true, subtree: true });
    }
  }

  private check(): void {
    const { held } = this;
    if (held?.element.isConnected === false) {
      this.changes.disconnect();
      this.held = null;
      if (document.activeElement === document.body) {
        this.focus(held.cell);
      }
    }
  }

  private focus(cell: Element): void {
    const notebook = this.tracker.currentWidget?.content;
    const index = notebook?.widgets.findIndex(({ node }) => node === cell) ?? -1;
    if (notebook !== undefined && index >= 0) {
      notebook.mode = 'command';
      notebook.activeCellIndex = index;
      const options = { waitUntilReady: false, preventScroll: true };
      void NotebookActions.focusActiveCell(notebook, options);
    }
  }
}

export const focus: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:focus',
  description: 'Gives the focus back to a cell whose card is drawn anew.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_, tracker: INotebookTracker) => {
    new FocusKeeper(tracker);
  }
};

export const provideWidget: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:widget',
  description: 'Draws the cards of runs that are on.',
  autoStart: true,
  activate: () => {
    widgetModules().set(WIDGET_HASH, async () => (await import('../widget')).default);
  }
};

export const undoing: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:undoing',
  description: 'Takes back what a run changed, when its card asks for it.',
  autoStart: true,
  requires: [ILinks],
  activate: (_: JupyterFrontEnd, links: ILinks) => {
    document.addEventListener(UNDO, event => {
      const { target, detail } = event as CustomEvent<UndoRequest>;
      const panel = links.notebooks().find(({ node }) => node.contains(target as Node));
      const link = links.of(panel ?? null);
      if (link?.overview) {
        detail.answer = link.undo(detail.runId, detail.isDry);
      }
    });
  }
};
