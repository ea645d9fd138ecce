/** Serves cards: the module that draws them, what they ask for, and the keyboard focus. */
import { NotebookActions } from '@jupyterlab/notebook';

import { host } from '../view/host';
import { WIDGET_HASH } from '../widgetHash';
import { widgetModules } from '../widgetModules';
import { askBelow, insertBelow } from './cells/insertBelow';
import type { Link } from './kernel/link';
import type { Links } from './kernel/links';
import { chooseModel } from './models';

/** Everything of ours in a cell: its card, proposals. */
const OURS = '[data-ipyagent]';

/**
 * Focuses a cell when the focused element of ours in it is removed, was a button that a click has
 * disabled, or is left by Escape: the page itself would get the focus, or the element would keep it,
 * where no key of the notebook works.
 */
class FocusKeeper {
  /** The focused element, and its cell. */
  private focused: { readonly element: Element; readonly cell: Element } | null = null;
  private changes = new MutationObserver(() => this.onChange());

  constructor(private links: Links) {
    document.addEventListener('focusin', ({ target }) => this.onFocus(target as Element));
    document.addEventListener('click', event => this.onClick(event));
    document.addEventListener('keydown', event => this.onKey(event));
  }

  private onFocus(element: Element): void {
    this.changes.disconnect();
    const cell = cellOf(element);
    this.focused = cell === null ? null : { element, cell };
    if (cell !== null) {
      this.changes.observe(cell, { childList: true, subtree: true });
    }
  }

  private onChange(): void {
    const { focused: held } = this;
    if (held?.element.isConnected === false) {
      this.changes.disconnect();
      this.focused = null;
      if (document.activeElement === document.body) {
        this.focusCell(held.cell);
      }
    }
  }

  /** A form that was sent by a key has given its focus to its card. */
  private onClick({ target, detail }: MouseEvent): void {
    const button = (target as Element).closest<HTMLButtonElement>(`button${OURS}:disabled`);
    const cell = button && cellOf(button);
    if (cell && (detail > 0 || button.closest('.ipyagent-approval') === null)) {
      this.focusCell(cell);
    }
  }

  /** As in the editor of a cell, Escape leaves a field with what is written in it. */
  private onKey({ key, target, isComposing, defaultPrevented }: KeyboardEvent): void {
    const cell = cellOf(target as Element);
    if (key === 'Escape' && !isComposing && !defaultPrevented && cell !== null) {
      this.focusCell(cell);
    }
  }

  private focusCell(cell: Element): void {
    const notebook = this.links.panel?.content;
    const index = notebook?.widgets.findIndex(({ node }) => node === cell) ?? -1;
    if (notebook !== undefined && index >= 0) {
      notebook.mode = 'command';
      notebook.activeCellIndex = index;
      const options = { waitUntilReady: false, preventScroll: true };
      void NotebookActions.focusActiveCell(notebook, options);
    }
  }
}

function cellOf(element: Element): Element | null {
  return element.closest(OURS)?.closest('.jp-Cell') ?? null;
}

/** Return the connection to the kernel of a card. */
function linkOf(links: Links, card: Node): Link | null {
  const panel = links.notebooks().find(({ node }) => node.contains(card));
  const link = links.of(panel ?? null);
  return link?.overview ? link : null;
}

/** Serve the cards of this page. */
export function serveCards(links: Links): void {
  widgetModules().set(WIDGET_HASH, async () => (await import('../widget')).default);
  new FocusKeeper(links);
  host.insertCells = (...asked) => problemOf(() => insertBelow(links, ...asked));
  host.askBelow = (...asked) => problemOf(() => askBelow(links, ...asked));
  host.undo = (from, runId, isDry) =>
    linkOf(links, from)?.ask('undo', { run_id: runId, dry_run: isDry });
  host.chooseModel = from => chooseModel(linkOf(links, from));
}

/** Do something; return null, or why it cannot be done. */
function problemOf(act: () => void): string | null {
  try {
    act();
    return null;
  } catch (thrown) {
    return (thrown as Error).message;
  }
}
