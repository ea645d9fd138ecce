/** Shows `%%agent` cells as prose: Markdown colours, wrapped lines, no language server. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { ILSPCodeExtractorsManager } from '@jupyterlab/lsp';
import { INotebookTracker, Notebook } from '@jupyterlab/notebook';

import { isPrompt, withoutPrompts } from './prompts';

const CLASS = 'ipyagent-cell';
const MIME_TYPE = 'text/x-ipythongfm';

/** Update the display of a notebook's cells when their sources change. */
function watchNotebook(notebook: Notebook): void {
  const watched = new WeakSet<Cell>();
  const watch = (): void => {
    for (const cell of notebook.widgets) {
      if (cell.model.type === 'code' && !watched.has(cell)) {
        watched.add(cell);
        const update = (): void => showAsProse(cell, notebook);
        // An editor accepts no change while it processes another.
        cell.model.contentChanged.connect(() => queueMicrotask(update));
        // The kernel's language is set on every code cell when it is known.
        cell.model.mimeTypeChanged.connect(update);
        update();
      }
    }
  };
  const follow = (): void => {
    notebook.model?.cells.changed.connect(watch);
    watch();
  };
  notebook.modelChanged.connect(follow);
  follow();
}

function showAsProse(cell: Cell, { codeMimetype, editorConfig }: Notebook): void {
  if (cell.isDisposed) {
    return;
  }
  const prompt = isPrompt(cell.model.sharedModel.getSource());
  if (prompt || cell.hasClass(CLASS)) {
    cell.toggleClass(CLASS, prompt);
    cell.model.mimeType = prompt ? MIME_TYPE : codeMimetype;
    wrap(cell, prompt || editorConfig.code.lineWrap === true);
  }
}

function wrap(cell: Cell, lineWrap: boolean): void {
  if (cell.editorConfig.lineWrap !== lineWrap) {
    cell.updateEditorConfig({ lineWrap });
  }
}

export const prose: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:prose',
  description: 'Shows %%agent cells as prose.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ILSPCodeExtractorsManager],
  activate: (_, tracker: INotebookTracker, extractors: ILSPCodeExtractorsManager | null) => {
    extractors?.register(withoutPrompts, null);
    tracker.forEach(({ content }) => watchNotebook(content));
    tracker.widgetAdded.connect((_, { content }) => watchNotebook(content));
  }
};
