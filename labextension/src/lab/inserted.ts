/** Which cells a run has inserted so far: the next one goes below them. */
import type { Overview } from '../protocol';

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
