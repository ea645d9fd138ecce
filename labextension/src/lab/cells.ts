/** Finds cells of open notebooks, and brings the user there. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { CodeCell, type ICellModel, type ICodeCellModel } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

/** Duration of the animation in style/proposals.css. */
const MARK_MILLISECONDS = 4_000;

const CLASS = 'ipyagent-changed';

/** A cell in an open notebook. */
interface Place {
  panel: NotebookPanel;
  index: number;
}

/** Return the ids of a notebook's cells, in order. */
export function cellIds(panel: NotebookPanel): string[] {
  return panel.content.model?.sharedModel.cells.map(cell => cell.getId()) ?? [];
}

/** Return a notebook's code cells, in order. */
export function codeCells({ content }: NotebookPanel): ICodeCellModel[] {
  return [...(content.model?.cells ?? [])].filter(isCode);
}

/** Return whether several pages may work in one document, as by jupyter-collaboration. */
export function isShared({ context }: NotebookPanel): boolean {
  return context.model.collaborative ?? false;
}

function isCode(cell: ICellModel): cell is ICodeCellModel {
  return cell.type === 'code';
}

/** Call `listener` now, and whenever cells of a notebook are added, moved or removed. */
export function watchCells({ content }: NotebookPanel, listener: () => void): void {
  const follow = (): void => {
    content.model?.cells.changed.connect(listener);
    listener();
  };
  content.modelChanged.connect(follow);
  follow();
}

/** Call `each` with the code cells of a notebook, and with those that are added later. */
export function forEachCodeCell(panel: NotebookPanel, each: (cell: CodeCell) => void): void {
  const known = new WeakSet<CodeCell>();
  watchCells(panel, () => {
    for (const cell of panel.content.widgets) {
      if (cell instanceof CodeCell && !known.has(cell)) {
        known.add(cell);
        each(cell);
      }
    }
  });
}

/** Find a cell in these notebooks; null where it is gone. */
export function placeOf(cellId: string | null, panels: NotebookPanel[]): Place | null {
  for (const panel of panels) {
    const index = cellId === null ? -1 : cellIds(panel).indexOf(cellId);
    if (index >= 0) {
      return { panel, index };
    }
  }
  return null;
}

/** Return the index of the cell with this node; -1 if none has it. */
export function indexOfCell({ content }: NotebookPanel, inner: Node): number {
  return content.widgets.findIndex(({ node }) => node.contains(inner));
}

/** Select a cell, and no other. */
export function select({ content }: NotebookPanel, index: number): void {
  content.deselectAll();
  content.activeCellIndex = index;
}

/** Scroll to a cell, and select it. */
export async function goTo(place: Place, app: JupyterFrontEnd): Promise<void> {
  app.shell.activateById(place.panel.id);
  select(place.panel, place.index);
  await uncover(place, 'smart');
}

/** Scroll to a cell, unfolding the heading above it and its outputs. */
export async function uncover({ panel, index }: Place, align?: 'smart'): Promise<void> {
  const { content } = panel;
  const cell = content.widgets[index];
  NotebookActions.expandParent(cell, content);
  if (cell instanceof CodeCell) {
    cell.outputHidden = false;
  }
  await content.scrollToItem(index, align);
}

/** Insert a code cell below another one, and run it. */
export async function runBelow({ panel, index }: Place, source: string): Promise<void> {
  panel.content.model?.sharedModel.insertCell(index + 1, { cell_type: 'code', source });
  select(panel, index + 1);
  await runCurrent(panel);
}

/** Run the code cells with these ids, in the notebook's order; return their number. */
export function runCells(
  { content, sessionContext }: NotebookPanel,
  ids: readonly string[]
): number {
  const cells = content.widgets.filter(({ model }) => isCode(model) && ids.includes(model.id));
  void NotebookActions.runCells(content, cells, sessionContext);
  return cells.length;
}

/** Run the current cell; warn if it was dropped, because a cell that it waited for failed. */
export async function runCurrent(panel: NotebookPanel): Promise<void> {
  const { content, sessionContext } = panel;
  const { activeCell: cell } = content;
  const hasRun = await NotebookActions.run(content, sessionContext);
  const isKept = !hasRun && cell !== null && !cell.isDisposed;
  if (isKept && isCode(cell.model) && cell.model.executionCount === null) {
    const callback = (): void => void runCells(panel, [cell.model.id]);
    const run = { label: 'Run it', caption: 'Run the cell now', callback };
    const text = 'The new cell did not run: one that ran before it failed or was stopped.';
    Notification.warning(text, { autoClose: false, actions: [run] });
  }
}

/** Highlight a changed cell for a moment. */
export function mark(panel: NotebookPanel, id: string): void {
  const cell = panel.content.widgets.find(each => each.model.id === id);
  cell?.addClass(CLASS);
  setTimeout(() => cell?.removeClass(CLASS), MARK_MILLISECONDS);
}
