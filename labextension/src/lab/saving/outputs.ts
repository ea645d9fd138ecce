/** Finds runs in the outputs of cells. No DOM. */
import type { ICodeCellModel } from '@jupyterlab/cells';

import { RUN } from '../../model';

export type Output = ReturnType<ICodeCellModel['outputs']['toJSON']>[number];

/** A run's MIME bundle. */
export type Bundle = Record<string, unknown>;

const WIDGET = 'application/vnd.jupyter.widget-view+json';

/** The text/plain of a live card: `ipyagent.ui.views`. */
const RUNNING = 'ipyagent is running…';

/** The fields of a saved run that are read here. */
export interface SavedRun {
  id: string;
  parent_id: string | null;
  cell_id: string | null;
  status: string;
  /** The calls that were taken back; absent without one. */
  taken_back?: string[];
}

const ENDED = ['done', 'error', 'cancelled'];

/** Return an output's saved run; null for other outputs. */
export function runIn(output: Output): SavedRun | null {
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
    : !ENDED.includes(run.status);
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
