/** Changes of a notebook that are taken back one at a time, as if a person had made them. */
import type { YCellType, YNotebook } from '@jupyter/ydoc';

/** What the documents of JupyterLab are, beyond their interface. */
export type Notebook = Pick<
  YNotebook,
  'cells' | 'deleteCell' | 'insertCell' | 'transact' | 'undoManager'
>;

type History = Notebook['undoManager'];

/** What both histories of a cell's source know such a change by. */
const ORIGIN = 'ipyagent';

/** Change the list of cells: the notebook's undo takes back this and nothing else. */
export function changeNotebook<T>(notebook: Notebook, change: () => T): T {
  return alone([notebook.undoManager], () => {
    let changed: T | undefined;
    notebook.transact(() => (changed = change()));
    return changed as T;
  });
}

/** Change a cell's source: the notebook's undo takes it back, and so does that of its editor. */
export function changeCell(notebook: Notebook, cell: YCellType, change: () => void): void {
  const histories = [...new Set([notebook.undoManager, cell.undoManager])].filter(each => !!each);
  histories.forEach(history => history.addTrackedOrigin(ORIGIN));
  alone(histories, () => notebook.transact(change, false, ORIGIN));
  histories.forEach(history => history.removeTrackedOrigin(ORIGIN));
  tie(histories);
}

/** Changes within half a second would become one step. */
function alone<T>(histories: History[], change: () => T): T {
  histories.forEach(history => history.stopCapturing());
  const changed = change();
  histories.forEach(history => history.stopCapturing());
  return changed;
}

/**
 * One step is in several histories: when one of them takes it back, the others forget it. Taken
 * back twice, with a redo in between, it would leave neither the old text nor the new.
 */
function tie(histories: History[]): void {
  const steps = new Map(histories.map(history => [history, history.undoStack.at(-1)]));
  steps.forEach((step, history) =>
    history.on('stack-item-popped', ({ stackItem }) => {
      if (stackItem === step) {
        steps.delete(history);
        steps.forEach((same, other) => (other.undoStack = without(other.undoStack, same)));
        steps.clear();
      }
    })
  );
}

function without<T>(items: T[], item: T | undefined): T[] {
  return items.filter(each => each !== item);
}
