/** Where in a notebook a call that waits would change something. */
import type { Call, Overview } from '../../protocol';

/** A cell, and whether it would be changed or get a new one before or after it. */
export interface Place {
  cellId: string;
  side: 'changed' | 'before' | 'after';
}

/** What there is to know of the notebook. */
export interface Around {
  /** The ids of its cells, in order. */
  cells: readonly string[];
  /** The agent's own cell. */
  asking: string | null;
  /** What the same run has inserted so far. */
  inserted: readonly string[];
}

/** The place of a call of `edit_cell` or `insert_cell`; null where there is none. */
export function placeOf({ name, request }: Call, around: Around): Place | null {
  const given = request.arguments;
  return name === 'edit_cell'
    ? placeOfEdit(given.cell, around.cells)
    : placeAt(typeof given.index === 'number' ? given.index : next(around), around.cells);
}

/** A cell is named by its id, or by its position. */
function placeOfEdit(cell: unknown, cells: readonly string[]): Place | null {
  const cellId = cells.find(id => id === cell) ?? cells.find((_, at) => at === Number(cell));
  return cellId === undefined ? null : { cellId, side: 'changed' };
}

function placeAt(index: number, cells: readonly string[]): Place | null {
  const side = index === 0 ? 'before' : 'after';
  const cellId = cells.find((_, at) => at === Math.max(index - 1, 0));
  return cellId === undefined ? null : { cellId, side };
}

/** Below the agent's cell and all that it has inserted; else at the end. */
function next({ cells, asking, inserted }: Around): number {
  const last = cells.findLastIndex(id => id === asking || inserted.includes(id));
  return last < 0 ? cells.length : last + 1;
}

export class Inserted {
  private cells = new Map<string, string[]>();

  /** A cell was inserted by the run that is on. */
  add(overview: Overview | null | undefined, cellId: string): void {
    const run = overview?.runs.findLast(({ live }) => live);
    if (run !== undefined) {
      this.cells.set(run.id, [...this.by(run.id), cellId]);
    }
  }

  /** The cells that a run has inserted. */
  by(runId: string): readonly string[] {
    return this.cells.get(runId) ?? [];
  }
}
