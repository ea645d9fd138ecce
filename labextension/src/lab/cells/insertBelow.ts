/** Inserts code of a card as cells below the card's own cell. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { host } from '../../view/host';
import { sharedNotebook } from '../proposals/documents';
import { insertCells } from '../proposals/sharedCells';
import { cellIds, mark } from './cellLocations';

/** The cells that were inserted so, which the next ones follow. */
const inserted = new Set<string>();

/** Insert cells below the one with `from`, as one undo step; return null, or why it cannot be. */
function insertBelow(
  tracker: INotebookTracker,
  from: Element,
  sources: readonly string[]
): string | null {
  const panel = tracker.find(({ content }) => content.node.contains(from));
  const above = panel?.content.widgets.findIndex(({ node }) => node.contains(from)) ?? -1;
  if (panel === undefined || above < 0) {
    return 'There is no notebook here';
  }
  if (panel.content.model?.readOnly !== false) {
    return 'This notebook is read-only';
  }
  const ids = cellIds(panel);
  const next = ids.findIndex((id, index) => index > above && !inserted.has(id));
  const index = next < 0 ? ids.length : next;
  for (const id of insertCells(sharedNotebook(panel), index, 'code', sources)) {
    inserted.add(id);
    mark(panel, id);
  }
  return null;
}

export const toCells: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:to-cells',
  description: 'Makes code of a card cells of its notebook.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker) => {
    host.insertCells = (from, sources) => insertBelow(tracker, from, sources);
  }
};
