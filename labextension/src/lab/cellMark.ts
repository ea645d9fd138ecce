/** A cell that has just been changed is marked for a moment, so that one sees what happened. */
import type { NotebookPanel } from '@jupyterlab/notebook';

/** As long as the animation in style/proposals.css. */
const MARK_MILLISECONDS = 4_000;

const CLASS = 'ipyagent-changed';

const timers = new WeakMap<object, number>();

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
