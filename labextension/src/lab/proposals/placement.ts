/** The place in a notebook that a proposed call would change. */
import type { Call, Overview } from '../../protocol';

/** A cell that would be changed, or get a new cell before or after it. */
export interface Place {
  cellId: string;
  side: 'changed' | 'before' | 'after';
}

/** The state of the notebook that decides on the place. */
interface CellContext {
  /** The ids of its cells, in order. */
  cells: readonly string[];
  /** The agent's own cell. */
  agentCell: string | null;
  /** The ids of the cells that the run has inserted. */
  inserted: readonly string[];
}

/** Return the place of a call of `edit_cell` or `insert_cell`; null if its cell is gone. */
export function placeOf({ name, request }: Call, context: CellContext): Place | null {
  const given = request.arguments;
  return name === 'edit_cell'
    ? placeOfEdit(given.cell, context.cells)
    : placeAt(typeof given.index === 'number' ? given.index : nextIndex(context), context.cells);
}

/** Find the edited cell by id or position. */
function placeOfEdit(cell: unknown, cells: readonly string[]): Place | null {
  const cellId = cells.find(id => id === cell) ?? cells.find((_, at) => at === Number(cell));
  return cellId === undefined ? null : { cellId, side: 'changed' };
}

function placeAt(index: number, cells: readonly string[]): Place | null {
  const side = index === 0 ? 'before' : 'after';
  const cellId = cells.find((_, at) => at === Math.max(index - 1, 0));
  return cellId === undefined ? null : { cellId, side };
}

/** Return the index below the agent's cell and its insertions, else at the end. */
function nextIndex({ cells, agentCell: asking, inserted }: CellContext): number {
  const last = cells.findLastIndex(id => id === asking || inserted.includes(id));
  return last < 0 ? cells.length : last + 1;
}

export class Inserted {
  private cells = new Map<string, string[]>();

  /** Record a cell that the live run has inserted. */
  add(overview: Overview | null | undefined, cellId: string): void {
    const run = overview?.runs.findLast(({ live }) => live);
    if (run !== undefined) {
      this.cells.set(run.id, [...this.by(run.id), cellId]);
    }
  }

  /** Return the ids of the cells that a run has inserted. */
  by(runId: string): readonly string[] {
    return this.cells.get(runId) ?? [];
  }
}
