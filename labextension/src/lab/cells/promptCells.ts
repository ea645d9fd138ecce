/** Shows `%%agent` cells as prose: Markdown colours, wrapped lines, no language server. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { ILSPCodeExtractorsManager } from '@jupyterlab/lsp';
import { INotebookTracker, Notebook } from '@jupyterlab/notebook';

import { isPrompt, withoutPrompts } from './prompts';

const CLASS = 'ipyagent-cell';
const MIME_TYPE = 'text/x-ipythongfm';

/** Updates the display of one notebook's cells when their sources change. */
class PromptCells {
  private watched = new WeakSet<Cell>();

  constructor(private notebook: Notebook) {
    const follow = (): void => {
      notebook.model?.cells.changed.connect(this.watch);
      this.watch();
    };
    notebook.modelChanged.connect(follow);
    follow();
  }

  private watch = (): void => {
    for (const cell of this.notebook.widgets) {
      if (cell.model.type === 'code' && !this.watched.has(cell)) {
        this.watched.add(cell);
        const update = (): void => this.update(cell);
        // An editor accepts no change while it processes another.
        cell.model.contentChanged.connect(() => queueMicrotask(update));
        // The kernel's language is set on every code cell when it is known.
        cell.model.mimeTypeChanged.connect(update);
        update();
      }
    }
  };

  private update(cell: Cell): void {
    if (cell.isDisposed) {
      return;
    }
    const prompt = isPrompt(cell.model.sharedModel.getSource());
    if (prompt || cell.hasClass(CLASS)) {
      const { codeMimetype, editorConfig } = this.notebook;
      cell.toggleClass(CLASS, prompt);
      cell.model.mimeType = prompt ? MIME_TYPE : codeMimetype;
      wrap(cell, prompt || editorConfig.code.lineWrap === true);
    }
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
    tracker.forEach(({ content }) => new PromptCells(content));
    tracker.widgetAdded.connect((_, { content }) => new PromptCells(content));
  }
};
