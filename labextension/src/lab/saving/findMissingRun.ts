/** Finds the run that a cell should show and does not. No DOM. */
import type { RunLine } from '../../protocol';
import { isUnfinished, Output, runIn } from './outputs';

/** The state of a cell. */
export interface CellState {
  cellId: string;
  source: string;
  outputs: Output[];
  /** The kernel's runs. */
  runs: RunLine[];
  /** The live run that was restored there. */
  placed: string | null;
  /** True if this page executed the cell: JupyterLab updates its outputs. */
  isDrawn: boolean;
  isRunning: boolean;
  /** True if other pages work in the same document: the one that executed the cell draws the run. */
  isShared: boolean;
  /** True if the kernel had no run for it. */
  isUnknown: boolean;
  /** Times at which the notebook was saved and opened, in milliseconds. */
  saved: number;
  opened: number;
}

/** A run that has to be restored in the cell. */
export interface MissingRun {
  which: { run_id: string } | { cell_id: string };
  isLive: boolean;
}

export function findMissingRun(known: CellState): MissingRun | null {
  const { cellId, placed, runs } = known;
  const newest = runs.findLast(run => run.cell_id === cellId);
  if (newest?.live) {
    const isSeen = known.isDrawn || placed === newest.id;
    return isSeen || (known.isShared && known.outputs.some(isUnfinished))
      ? null
      : { which: { run_id: newest.id }, isLive: true };
  }
  if (known.isUnknown) {
    return null;
  }
  if (placed !== null) {
    return { which: { run_id: placed }, isLive: false };
  }
  return findUnfinished(known) ?? findUndone(known) ?? findUnsaved(known, newest);
}

/** Find the run of an unfinished card whose cell is not running, or whose page may be gone. */
function findUnfinished({ cellId, outputs, runs, ...known }: CellState): MissingRun | null {
  const isUpdated = known.isRunning && (known.isDrawn || !known.isShared);
  const card = isUpdated ? undefined : outputs.find(isUnfinished);
  const run = card === undefined ? null : runIn(card);
  if (card === undefined || run?.status === 'draft') {
    return null; // a draft plan may wait for days
  }
  if (runs.some(({ id, live }) => live && id === run?.id)) {
    return null; // a copy of the cell draws it live, to its end
  }
  return { which: run === null ? { cell_id: cellId } : { run_id: run.id }, isLive: false };
}

/** Find a run of which something was taken back, or put back, since it was drawn. */
function findUndone({ outputs, runs }: CellState): MissingRun | null {
  const isOld = ({ id, taken_back }: RunLine): boolean =>
    outputs.some(output => {
      const drawn = runIn(output);
      return drawn?.id === id && String(drawn.taken_back ?? []) !== String(taken_back);
    });
  const run = runs.find(isOld);
  return run === undefined ? null : { which: { run_id: run.id }, isLive: false };
}

/** Find a run that ended after the last save and before the notebook was opened here. */
function findUnsaved(known: CellState, newest?: RunLine): MissingRun | null {
  if (newest === undefined || known.isDrawn) {
    return null;
  }
  const { id, prompt, started_at, duration } = newest;
  const ended = Date.parse(started_at) + (duration ?? 0) * 1_000;
  const isDrawn = known.outputs.some(output => runIn(output)?.id === id);
  const isAskedFor = known.source.includes(prompt);
  return !isDrawn && isAskedFor && known.saved < ended && ended < known.opened
    ? { which: { run_id: id }, isLive: false }
    : null;
}
