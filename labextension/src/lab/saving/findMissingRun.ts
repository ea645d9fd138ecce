/** Whether a cell lacks a run, and which. Pure, no DOM. */
import type { RunLine } from '../../protocol';
import { isUnfinished, Output, runIn } from './outputs';

/** What is known of a cell. */
export interface Known {
  cellId: string;
  source: string;
  outputs: Output[];
  /** Those of the kernel. */
  runs: RunLine[];
  /** The run that was put there and had not ended. */
  placed: string | null;
  /** The page ran it: JupyterLab draws what comes of it. */
  isDrawn: boolean;
  isRunning: boolean;
  /** The kernel had nothing to show for it. */
  isUnknown: boolean;
  /** When the notebook was saved and opened, in milliseconds. */
  saved: number;
  opened: number;
}

/** A run that has to be put into the cell. */
export interface Wanted {
  which: { run_id: string } | { cell_id: string };
  isLive: boolean;
}

export function findMissingRun(known: Known): Wanted | null {
  const { cellId, placed, runs } = known;
  const newest = runs.findLast(run => run.cell_id === cellId);
  if (newest?.live) {
    const isSeen = known.isDrawn || placed === newest.id;
    return isSeen ? null : { which: { run_id: newest.id }, isLive: true };
  }
  if (known.isUnknown) {
    return null;
  }
  if (placed !== null) {
    return { which: { run_id: placed }, isLive: false };
  }
  return cutShort(known) ?? lost(known, newest);
}

/** A card has no end, and its cell does not run. */
function cutShort({ cellId, outputs, isRunning, runs }: Known): Wanted | null {
  const card = isRunning ? undefined : outputs.find(isUnfinished);
  const run = card === undefined ? null : runIn(card);
  if (card === undefined || run?.status === 'draft') {
    return null; // a plan may wait for days
  }
  if (runs.some(({ id, live }) => live && id === run?.id)) {
    return null; // the copy of a cell is drawn alive, until the end
  }
  return { which: run === null ? { cell_id: cellId } : { run_id: run.id }, isLive: false };
}

/** The run ended when the notebook had been saved for the last time and was not open here. */
function lost(known: Known, newest?: RunLine): Wanted | null {
  if (newest === undefined || known.isDrawn) {
    return null;
  }
  const { id, prompt, started_at, duration } = newest;
  const ended = Date.parse(started_at) + (duration ?? 0) * 1_000;
  const isShown = known.outputs.some(output => runIn(output)?.id === id);
  const isAskedFor = known.source.includes(prompt);
  return !isShown && isAskedFor && known.saved < ended && ended < known.opened
    ? { which: { run_id: id }, isLive: false }
    : null;
}
