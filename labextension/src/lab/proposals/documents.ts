/** What the kernel's tools ask of open notebooks: see `ipyagent/kernel/open_notebooks.py`. */
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

/** What requests say, each its part of it. */
interface Asked {
  id: string;
  index: number;
  kind: Kind;
  before: string;
  source: string;
  outputs: Output[];
  execution_count: number | null;
}

/** Answers the kernel from the open documents, and changes them. Nothing is saved here. */
export class Documents {
  constructor(
    private links: ILinks,
    private inserted: Inserted
  ) {
    this.serve('cells', panel => ({ path: panel.context.path, cells: readCells(shared(panel)) }));
    this.serve('insert', (panel, asked) => this.insert(panel, asked));
    this.serve('replace', (panel, asked) => this.replace(panel, asked));
    this.serve('remove', (panel, { id, before }) => this.remove(panel, id, before));
    this.serve('outputs', (panel, asked) => this.output(panel, asked));
    this.serve('open', () => ({ paths: links.notebooks().map(({ context }) => context.path) }));
  }

  private serve(what: string, answer: (panel: NotebookPanel, asked: Asked) => unknown): void {
    this.links.serve(what, async (panel, request) => {
      await panel.context.ready;
      return answer(panel, request.details as unknown as Asked);
    });
  }

  private insert(panel: NotebookPanel, { index, kind, source }: Asked): unknown {
    const id = insertCell(shared(panel), index, kind, source);
    this.inserted.add(this.links.of(panel)?.overview, id);
    mark(panel, id);
    return { id, index };
  }

  private replace(panel: NotebookPanel, { id, before, source }: Asked): unknown {
    replaceSource(shared(panel), id, before, source);
    mark(panel, id);
    return {};
  }

  private remove(panel: NotebookPanel, id: string, before: string): unknown {
    removeCell(shared(panel), id, before);
    return {};
  }

  private output(panel: NotebookPanel, asked: Asked): unknown {
    const cell = codeCell(shared(panel), asked.id, asked.before);
    const model = panel.content.widgets.find(each => each.model.sharedModel === cell)?.model;
    if (model instanceof CodeCellModel) {
      // As JupyterLab does when it runs a cell.
      model.trusted = true;
      setOutputs(cell, asked.outputs, asked.execution_count);
      model.isDirty = false;
    }
    mark(panel, asked.id);
    return {};
  }
}

/** The document that all views of a notebook share. */
function shared({ content }: NotebookPanel): Notebook {
  if (content.model === null) {
    throw new Error('the notebook is being closed');
  }
  return content.model.sharedModel as unknown as Notebook;
}
