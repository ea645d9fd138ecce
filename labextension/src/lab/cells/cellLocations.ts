/** Cells of open notebooks: where they are, and how to get there. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

/** As long as the animation in style/proposals.css. */
const MARK_MILLISECONDS = 4_000;

const CLASS = 'ipyagent-changed';

const timers = new WeakMap<object, number>();

/** A cell in an open notebook. */
export interface Place {
  panel: NotebookPanel;
  index: number;
}

/** The ids of a notebook's cells, in order. */
export function cellIds(panel: NotebookPanel): string[] {
  return panel.content.model?.sharedModel.cells.map(cell => cell.getId()) ?? [];
}

/** A notebook's code cells, in order. */
export function codeCells({ content }: NotebookPanel): ICodeCellModel[] {
  return [...(content.model?.cells ?? [])].filter(isCode);
}

function isCode(cell: ICellModel): cell is ICodeCellModel {
  return cell.type === 'code';
}

/** Where a cell is among these notebooks; null where it is gone. */
export function placeOf(cellId: string | null, panels: NotebookPanel[]): Place | null {
  for (const panel of panels) {
    const index = cellId === null ? -1 : cellIds(panel).indexOf(cellId);
    if (index >= 0) {
      return { panel, index };
    }
  }
  return null;
}

/** Bring a cell before the person, and select it. */
export async function goTo({ panel, index }: Place, app: JupyterFrontEnd): Promise<void> {
  app.shell.activateById(panel.id);
  panel.content.deselectAll();
  panel.content.activeCellIndex = index;
  await panel.content.scrollToItem(index, 'smart');
}

/** Put a new code cell below another one, and run it. */
export async function runBelow({ panel, index }: Place, source: string): Promise<void> {
  const { content, sessionContext } = panel;
  content.model?.sharedModel.insertCell(index + 1, { cell_type: 'code', source });
  content.deselectAll();
  content.activeCellIndex = index + 1;
  await NotebookActions.run(content, sessionContext);
}

/** Mark the cell with that id, wherever it is drawn in that notebook. */
export function mark(panel: NotebookPanel, id: string): void {
  const cell = panel.content.widgets.find(each => each.model.id === id);
  if (cell !== undefined) {
    window.clearTimeout(timers.get(cell));
    cell.addClass(CLASS);
    timers.set(
      cell,
      window.setTimeout(() => cell.removeClass(CLASS), MARK_MILLISECONDS)
    );
  }
}
