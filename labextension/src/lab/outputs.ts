/** Finds runs in the outputs of cells, and the runs that are missing there. No DOM. */
import type { ICodeCellModel } from '@jupyterlab/cells';

import { RUN } from '../channel';
import type { Offers, RunLine } from '../protocol';

export type Output = ReturnType<ICodeCellModel['outputs']['toJSON']>[number];

/** A run's MIME bundle. */
export type Bundle = Record<string, unknown>;

const WIDGET = 'application/vnd.jupyter.widget-view+json';

/** The text/plain of a live card: `ipyagent.ui.views`. */
const RUNNING = 'ipyagent is running…';

/** The fields of a saved run that are read by a page. */
export interface SavedRun {
  id: string;
  parent_id: string | null;
  cell_id: string | null;
  model: string;
  status: string;
  stop_reason?: string | null;
  steps: { executions?: SavedCall[] }[];
  /** The calls that were taken back; absent without one. */
  taken_back?: string[];
  /** The recording that it repeats; absent without one. */
  replayed?: unknown;
  /** The buttons; absent in runs of earlier versions. */
  offers?: Offers;
}

export interface SavedCall {
  call: { name: string };
  status: string;
}

const ENDED = ['done', 'error', 'cancelled'];

/** Return whether a run has ended; a draft plan has not. */
export function isEnded({ status }: SavedRun): boolean {
  return ENDED.includes(status);
}

/** Return an output's saved run; null for other outputs. */
function runIn(output: Output): SavedRun | null {
  return runOf(bundleOf(output));
}

/** Return the run of a bundle. */
export function runOf(bundle: Bundle): SavedRun | null {
  return (bundle[RUN] as SavedRun | undefined) ?? null;
}

/** Return whether an output is a card whose run was live when the notebook was saved. */
export function isUnfinished(output: Output): boolean {
  const bundle = bundleOf(output);
  const run = runOf(bundle);
  return run === null
    ? bundle[WIDGET] !== undefined && bundle['text/plain'] === RUNNING
    : !isEnded(run);
}

/**
 * Return the outputs with a run: in place of itself or an unfinished card, else after the run that
 * led to it, else in place of all outputs.
 */
export function insertRun(outputs: Output[], bundle: Bundle, parent: Bundle | null): Output[] {
  const place = indexOfRun(outputs, bundle);
  if (place !== undefined) {
    const id = runOf(bundle)?.id;
    const isOther = (output: Output, at: number): boolean =>
      at === place || runIn(output)?.id !== id;
    return outputs.with(place, outputOf(bundle)).filter(isOther);
  }
  const before = outputs.findIndex(
    output => parent !== null && runIn(output)?.id === runOf(parent)?.id
  );
  return before >= 0
    ? [...outputs.slice(0, before + 1), outputOf(bundle)]
    : [...(parent === null ? [] : [outputOf(parent)]), outputOf(bundle)];
}

/** Return the index of the run, else of an unfinished card; undefined without one. */
export function indexOfRun(outputs: Output[], bundle: Bundle): number | undefined {
  const id = runOf(bundle)?.id;
  const isIt = (output: Output): boolean => runIn(output)?.id === id;
  const places = [outputs.findIndex(isIt), outputs.findIndex(isUnfinished)];
  return places.find(index => index >= 0);
}

function bundleOf({ data }: Output): Bundle {
  return (data as Bundle | undefined) ?? {};
}

/** Return an output with that bundle. */
export function outputOf(bundle: Bundle): Output {
  return { output_type: 'display_data', data: bundle, metadata: {} } as Output;
}

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
