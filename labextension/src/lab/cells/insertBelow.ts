/** Inserts cells below a card's own cell: code of the card, and prompts that go on. */
import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { Links } from '../kernel/links';
import { sharedNotebook } from '../proposals/documents';
import { insertCells } from '../proposals/sharedCells';
import { load } from './agentCell';
import { cellIds, mark, runBelow } from './cellLocations';

/** The cells that were inserted so, which the next ones follow. */
const inserted = new Set<string>();

/** The options that hold for the next prompt too. */
const LASTING = /\s(?:-[msa]|--(?:model|session|agent|confirm|tools|max-\w+))[ =]\S+/g;

/** The cell of a card, and the index where cells of the card are inserted. */
interface Below {
  readonly panel: NotebookPanel;
  readonly cell: Cell;
  readonly index: number;
}

/** Find the place below the cell with `from`; throws if there is none. */
function findBelow({ tracker }: Links, from: Element): Below {
  const panel = tracker.find(({ content }) => content.node.contains(from));
  const above = panel?.content.widgets.findIndex(({ node }) => node.contains(from)) ?? -1;
  if (panel === undefined || above < 0) {
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
export function insertBelow(links: Links, from: Element, sources: readonly string[]): void {
  const { panel, index } = findBelow(links, from);
  for (const id of insertCells(sharedNotebook(panel), index, 'code', sources)) {
    inserted.add(id);
    mark(panel, id);
  }
}

const MODEL = /^\s(?:-m|--model)\b/;

/** Run a prompt in an agent cell below, with the options of the one above that last. */
export function askBelow(links: Links, from: Element, prompt: string, isModelKept: boolean): void {
  const { panel, cell, index } = findBelow(links, from);
  const [, options = ''] = /^%%agent(.*)$/m.exec(cell.model.sharedModel.getSource()) ?? [];
  const lasting = options.match(LASTING) ?? [];
  const first = `%%agent${lasting.filter(each => isModelKept || !MODEL.test(each)).join('')}`;
  void load(panel, links.of(panel));
  void runBelow({ panel, index: index - 1 }, `${first}\n${prompt}`);
}
