/** Shows `%%agent` cells as prose: Markdown colours, wrapped lines, no language server. */
import type { Cell } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';

import { forEachCodeCell } from './cellLocations';
import { isPrompt } from './prompts';

const CLASS = 'ipyagent-cell';
const MIME_TYPE = 'text/x-ipythongfm';

/** Show the prompts of a notebook as prose, also when their sources change. */
export function watchPrompts(panel: NotebookPanel): void {
  forEachCodeCell(panel, cell => {
    const update = (): void => showAsProse(cell, panel.content);
    // An editor accepts no change while it processes another.
    cell.model.contentChanged.connect(() => queueMicrotask(update));
    // The kernel's language is set on every code cell when it is known.
    cell.model.mimeTypeChanged.connect(update);
    update();
  });
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
