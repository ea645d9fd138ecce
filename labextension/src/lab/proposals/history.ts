/** Changes of a notebook, each of which the user can undo by itself. */
import type { YCellType, YNotebook } from '@jupyter/ydoc';

/** The part of JupyterLab's documents that its interface leaves out. */
export type Notebook = Pick<
  YNotebook,
  'cells' | 'deleteCell' | 'insertCells' | 'transact' | 'undoManager'
>;

type History = Notebook['undoManager'];

/** The origin of our changes in undo histories. */
const ORIGIN = 'ipyagent';

/** Change the list of cells, as one step of the notebook's undo history. */
export function changeNotebook<T>(notebook: Notebook, change: () => T): T {
  return asOneStep([notebook.undoManager], () => {
    let changed: T | undefined;
    notebook.transact(() => (changed = change()));
    return changed as T;
  });
}

/**
 * Change a cell's source, as one step in the undo histories of the notebook and the cell's editor.
 */
export function changeCell(notebook: Notebook, cell: YCellType, change: () => void): void {
  const histories = [...new Set([notebook.undoManager, cell.undoManager])].filter(each => !!each);
  histories.forEach(history => history.addTrackedOrigin(ORIGIN));
  asOneStep(histories, () => notebook.transact(change, false, ORIGIN));
  histories.forEach(history => history.removeTrackedOrigin(ORIGIN));
  linkSteps(histories);
}

/** Make a change one undo step: others within half a second would join it. */
function asOneStep<T>(histories: History[], change: () => T): T {
  histories.forEach(history => history.stopCapturing());
  const changed = change();
  histories.forEach(history => history.stopCapturing());
  return changed;
}

/**
 * Link a step that several histories have: when one undoes it, the others forget it. Undone twice,
 * with a redo in between, it would leave neither the old text nor the new.
 */
function linkSteps(histories: History[]): void {
  const steps = new Map(histories.map(history => [history, history.undoStack.at(-1)]));
  steps.forEach((step, history) =>
    history.on('stack-item-popped', ({ stackItem }) => {
      if (stackItem === step) {
        steps.delete(history);
        steps.forEach(
          (same, other) => (other.undoStack = other.undoStack.filter(each => each !== same))
        );
        steps.clear();
      }
    })
  );
}
