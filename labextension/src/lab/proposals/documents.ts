/** Serves requests of the kernel's notebook tools: see `ipyagent/kernel/pages.py`. */
import { CodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { mark } from '../cells/cellLocations';
import type { Links } from '../kernel/links';
import type { Notebook } from './history';
import type { Inserted } from './placement';
import {
  codeCell,
  insertCells,
  Kind,
  Output,
  readCells,
  removeCell,
  replaceSource,
  setOutputs
} from './sharedCells';

/** The fields of all requests; each has some of them. */
interface RequestDetails {
  id: string;
  index: number;
  kind: Kind;
  before: string;
  source: string;
  outputs: Output[];
  execution_count: number | null;
}

/** Read and change open notebooks for the kernel. Nothing is saved here. */
export function serveRequests(links: Links, inserted: Inserted): void {
  const answers: Record<string, (panel: NotebookPanel, details: RequestDetails) => unknown> = {
    cells: panel => ({ path: panel.context.path, cells: readCells(sharedNotebook(panel)) }),
    insert: (panel, { index, kind, source }) => {
      const [id] = insertCells(sharedNotebook(panel), index, kind, [source]);
      inserted.add(links.of(panel)?.overview, id);
      mark(panel, id);
      return { id, index };
    },
    replace: (panel, { id, before, source }) => {
      replaceSource(sharedNotebook(panel), id, before, source);
      mark(panel, id);
      return {};
    },
    remove: (panel, { id, before }) => {
      removeCell(sharedNotebook(panel), id, before);
      return {};
    },
    outputs: setOutputsOf,
    open: () => ({ paths: links.notebooks().map(({ context }) => context.path) })
  };
  links.serve = async (panel, { what, details }) => {
    if (!Object.hasOwn(answers, what)) {
      throw new Error(`this version of the page cannot do ${what}`);
    }
    await panel.context.ready;
    return answers[what](panel, details as unknown as RequestDetails);
  };
}

function setOutputsOf(panel: NotebookPanel, details: RequestDetails): unknown {
  const cell = codeCell(sharedNotebook(panel), details.id, details.before);
  const model = panel.content.widgets.find(each => each.model.sharedModel === cell)?.model;
  if (model instanceof CodeCellModel) {
    // JupyterLab does the same when it runs a cell.
    model.trusted = true;
    setOutputs(cell, details.outputs, details.execution_count);
    model.isDirty = false;
  }
  mark(panel, details.id);
  return {};
}

/** Return the document shared by all views of a notebook. */
export function sharedNotebook({ content }: NotebookPanel): Notebook {
  if (content.model === null) {
    throw new Error('the notebook is being closed');
  }
  return content.model.sharedModel as unknown as Notebook;
}
