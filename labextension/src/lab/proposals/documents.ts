/** Serves requests of the kernel's notebook tools: see `ipyagent/kernel/open_notebooks.py`. */
import { CodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { mark } from '../cells/cellLocations';
import type { ILinks } from '../kernel/links';
import type { Notebook } from './history';
import type { Inserted } from './placement';
import {
  codeCell,
  insertCell,
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

/** Reads and changes open notebooks for the kernel. Nothing is saved here. */
export class Documents {
  constructor(
    private links: ILinks,
    private inserted: Inserted
  ) {
    this.serve('cells', panel => ({
      path: panel.context.path,
      cells: readCells(sharedNotebook(panel))
    }));
    this.serve('insert', (panel, details) => this.insert(panel, details));
    this.serve('replace', (panel, details) => this.replace(panel, details));
    this.serve('remove', (panel, { id, before }) => this.remove(panel, id, before));
    this.serve('outputs', (panel, details) => this.setOutputs(panel, details));
    this.serve('open', () => ({ paths: links.notebooks().map(({ context }) => context.path) }));
  }

  private serve(
    what: string,
    answer: (panel: NotebookPanel, details: RequestDetails) => unknown
  ): void {
    this.links.serve(what, async (panel, request) => {
      await panel.context.ready;
      return answer(panel, request.details as unknown as RequestDetails);
    });
  }

  private insert(panel: NotebookPanel, { index, kind, source }: RequestDetails): unknown {
    const id = insertCell(sharedNotebook(panel), index, kind, source);
    this.inserted.add(this.links.of(panel)?.overview, id);
    mark(panel, id);
    return { id, index };
  }

  private replace(panel: NotebookPanel, { id, before, source }: RequestDetails): unknown {
    replaceSource(sharedNotebook(panel), id, before, source);
    mark(panel, id);
    return {};
  }

  private remove(panel: NotebookPanel, id: string, before: string): unknown {
    removeCell(sharedNotebook(panel), id, before);
    return {};
  }

  private setOutputs(panel: NotebookPanel, details: RequestDetails): unknown {
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
}

/** Return the document shared by all views of a notebook. */
export function sharedNotebook({ content }: NotebookPanel): Notebook {
  if (content.model === null) {
    throw new Error('the notebook is being closed');
  }
  return content.model.sharedModel as unknown as Notebook;
}
