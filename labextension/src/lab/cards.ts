/** Serves cards: the module that draws them, what they ask for, and the keyboard focus. */
import { InputDialog, Notification } from '@jupyterlab/apputils';
import { CodeCellModel } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';

import type { Models } from '../protocol';
import { h } from '../view/dom';
import { type CellSource, host, type TextEditor } from '../view/host';
import { reveal } from '../view/reveal';
import { WIDGET_HASH } from '../widgetHash';
import { widgetModules } from '../widgetModules';
import { load } from './agentCells';
import { cellIds, indexOfCell, mark, runBelow, runCells } from './cells';
import type { Link, Links } from './links';
import { sharedNotebook } from './notebookTools';
import { isPrompt } from './prompts';
import { insertCells } from './sharedCells';

const NO_CONNECTION =
  'No connection to ipyagent in a kernel: in a cell, run %load_ext ipyagent, then %agent model NAME.';

/** Show the models of a kernel; return whether the user has chosen one. */
export async function chooseModel(link: Link | null): Promise<boolean> {
  const reply = await request(link, null);
  if (reply === null) {
    return false;
  }
  const items = Object.entries(reply.models).map(each => each.map(reveal).join(' · '));
  const names = Object.keys(reply.models);
  const current = Math.max(0, names.indexOf(reply.current));
  const title = 'Model of the next prompts';
  const { value } = await InputDialog.getItem({ title, items, current });
  const chosen = value === null ? null : await request(link, names[items.indexOf(value)]);
  if (chosen !== null) {
    const text = `The next prompts go to ${reveal(chosen.current)}`;
    Notification.info(text, { autoClose: 5_000 });
  }
  return chosen !== null;
}

/** Ask the kernel for its models, once the named one was chosen; a problem is shown. */
async function request(link: Link | null, model: string | null): Promise<Models | null> {
  const reply = await link?.ask('models', { model });
  const { current, models, problem = NO_CONNECTION } = reply ?? {};
  if (current === undefined || models === undefined) {
    Notification.error(reveal(problem));
    return null;
  }
  return { current, models };
}

/** The cells that were inserted so, which the next ones follow. */
const inserted = new Set<string>();

/** The options that hold for the next prompt too. */
const LASTING = /\s(?:-[msa]|--(?:model|session|agent|confirm|tools|max-\w+))[ =]\S+/g;

/** Return the cell with `from`, and the index below it for the next cell; throws if there is none. */
function findBelow(links: Links, from: Element) {
  const panel = links.around(from);
  const above = panel === null ? -1 : indexOfCell(panel, from);
  if (panel === null || above < 0) {
    throw new Error('There is no notebook here');
  }
  if (panel.content.model?.readOnly !== false) {
    throw new Error('This notebook is read-only');
  }
  const ids = cellIds(panel);
  const next = ids.findIndex((id, index) => index > above && !inserted.has(id));
  const index = next < 0 ? ids.length : next;
  return { panel, cell: panel.content.widgets[above], index };
}

/** Insert cells below the one with `from`, as one undo step. */
function insertBelow(links: Links, from: Element, sources: readonly CellSource[]): void {
  const { panel, index } = findBelow(links, from);
  for (const id of insertCells(sharedNotebook(panel), index, 'code', sources)) {
    inserted.add(id);
    mark(panel, id);
  }
}

const MODEL = /^\s(?:-m|--model)\b/;

/** Run a prompt in an agent cell below, with the options of the one above that last. */
function askBelow(links: Links, from: Element, prompt: string, isModelKept: boolean): void {
  const { panel, cell, index } = findBelow(links, from);
  const [, options = ''] = /^%%agent(.*)$/m.exec(cell.model.sharedModel.getSource()) ?? [];
  const lasting = options.match(LASTING) ?? [];
  const first = `%%agent${lasting.filter(each => isModelKept || !MODEL.test(each)).join('')}`;
  void load(panel, links.of(panel));
  void runBelow({ panel, index: index - 1 }, `${first}\n${prompt}`);
  inserted.add(cellIds(panel)[index]);
}

/** Run the cell with `from` again, with the model; return what became of it. */
async function runAgain(links: Links, from: Element, isFresh: boolean): Promise<string> {
  const { panel, cell } = findBelow(links, from);
  if (!isPrompt(cell.model.sharedModel.getSource())) {
    return 'Run the cell itself: it holds more than a prompt';
  }
  const link = linkOf(links, from);
  if (isFresh && (await link?.ask('fresh', { cell_id: cell.model.id })) === undefined) {
    return 'No connection to ipyagent in a kernel: run the cell with --fresh';
  }
  void load(panel, link);
  runCells(panel, [cell.model.id]);
  return 'Asking the model';
}

/** Run cells that a run has changed, as far as they are there. */
function runChanged(links: Links, from: Element, ids: readonly string[]): void {
  if (runCells(findBelow(links, from).panel, ids) === 0) {
    throw new Error('None of these cells is left');
  }
}

/** Everything of ours in a cell: its card, proposals. */
const OURS = '[data-ipyagent]';

/**
 * Focus a cell when the focused element of ours in it is removed, was a button that a click has
 * disabled, or is left by Escape: the page itself would get the focus, or the element would keep it,
 * where no key of the notebook works.
 */
function keepFocusInCells(links: Links): void {
  let focused: { readonly element: Element; readonly cell: Element } | null = null;
  const changes = new MutationObserver(() => {
    if (focused?.element.isConnected === false) {
      const { cell } = focused;
      changes.disconnect();
      focused = null;
      if (document.activeElement === document.body) {
        focusCell(links, cell);
      }
    }
  });
  document.addEventListener('focusin', ({ target }) => {
    changes.disconnect();
    const element = target as Element;
    const cell = cellOf(element);
    focused = cell && { element, cell };
    if (cell !== null) {
      changes.observe(cell, { childList: true, subtree: true });
    }
  });
  // A form that was sent by a key has given its focus to its card.
  document.addEventListener('click', ({ target, detail }) => {
    const button = (target as Element).closest<HTMLButtonElement>(`button${OURS}:disabled`);
    const cell = button && cellOf(button);
    if (cell && (detail > 0 || button.closest('.ipyagent-approval') === null)) {
      focusCell(links, cell);
    }
  });
  // As in the editor of a cell, Escape leaves a field with what is written in it.
  document.addEventListener('keydown', ({ key, target, isComposing, defaultPrevented }) => {
    const cell = cellOf(target as Element);
    if (key === 'Escape' && !isComposing && !defaultPrevented && cell !== null) {
      focusCell(links, cell);
    }
  });
}

function focusCell({ panel }: Links, cell: Element): void {
  const index = panel === null ? -1 : indexOfCell(panel, cell);
  if (panel !== null && index >= 0) {
    panel.content.mode = 'command';
    panel.content.activeCellIndex = index;
    const options = { waitUntilReady: false, preventScroll: true };
    void NotebookActions.focusActiveCell(panel.content, options);
  }
}

function cellOf(element: Element): Element | null {
  return element.closest(OURS)?.closest('.jp-Cell') ?? null;
}

/** Return the connection to the kernel of a card; one in no notebook is about the current one. */
function linkOf(links: Links, card: Node): Link | null {
  const link = links.of(links.around(card) ?? links.panel);
  return link?.overview ? link : null;
}

/** Serve the cards of this page. */
export function serveCards(links: Links): void {
  widgetModules().set(WIDGET_HASH, async () => (await import('../widget')).default);
  keepFocusInCells(links);
  host.lab = {
    insertCells: (...asked) => problemOf(() => insertBelow(links, ...asked)),
    askBelow: (...asked) => problemOf(() => askBelow(links, ...asked)),
    runAgain: (...asked) => runAgain(links, ...asked).catch(String),
    runCells: (from, ids) => problemOf(() => runChanged(links, from, ids)),
    ask: (from, what, about) => linkOf(links, from)?.ask(what, about),
    edit: (code, mimeType) => editorOf(links, code, mimeType),
    chooseModel: from => chooseModel(linkOf(links, from))
  };
}

/** Return an editor like that of a cell; null without a notebook. */
function editorOf({ panel }: Links, code: string, mimeType: string): TextEditor | null {
  if (panel === null) {
    return null;
  }
  const element = h('div', { class: 'ipyagent-code' });
  const model = new CodeCellModel();
  model.sharedModel.setSource(code);
  model.mimeType = mimeType;
  const { editorFactory } = panel.content.contentFactory;
  const config = { lineNumbers: false };
  const editor = editorFactory({ host: element, model, config, inline: true });
  return {
    element,
    content: element.querySelector<HTMLElement>('.cm-content') ?? element,
    read: () => model.sharedModel.getSource(),
    dispose: () => {
      editor.dispose();
      model.dispose();
    }
  };
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
