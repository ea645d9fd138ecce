/** What a cell's outputs say about the runs drawn in them. No DOM. */
import type { ICodeCellModel } from '@jupyterlab/cells';

import { RUN } from '../../model';

export type Output = ReturnType<ICodeCellModel['outputs']['toJSON']>[number];

/** A run in all forms that a notebook may keep. */
export type Bundle = Record<string, unknown>;

const WIDGET = 'application/vnd.jupyter.widget-view+json';

/** The text of a card while its run is on: `ipyagent.ui.views`. */
const RUNNING = 'ipyagent is running…';

/** What is looked at of a saved run. */
export interface SavedRun {
  id: string;
  parent_id: string | null;
  cell_id: string | null;
  status: string;
}

const ENDED = ['done', 'error', 'cancelled'];

/** The run that an output has saved; null for all others. */
export function runIn(output: Output): SavedRun | null {
  return runOf(bundleOf(output));
}

/** The run in one of its forms. */
export function runOf(bundle: Bundle): SavedRun | null {
  return (bundle[RUN] as SavedRun | undefined) ?? null;
}

/** Whether an output is the card of a run that is on, or was when the notebook was saved. */
export function isUnfinished(output: Output): boolean {
  const bundle = bundleOf(output);
  const run = runOf(bundle);
  return run === null
    ? bundle[WIDGET] !== undefined && bundle['text/plain'] === RUNNING
    : !ENDED.includes(run.status);
}

/**
 * The outputs with a run among them: in place of itself or of a card that has no end, else after
 * the run that led to it, else instead of all that an earlier execution has left.
 */
export function withRun(outputs: Output[], bundle: Bundle, led: Bundle | null): Output[] {
  const place = indexOfRun(outputs, bundle);
  if (place !== undefined) {
    return outputs.with(place, outputOf(bundle));
  }
  const before = outputs.findIndex(output => led !== null && runIn(output)?.id === runOf(led)?.id);
  return before >= 0
    ? [...outputs.slice(0, before + 1), outputOf(bundle)]
    : [...(led === null ? [] : [outputOf(led)]), outputOf(bundle)];
}

/** Which of the outputs the run is, or else the card that has no end; undefined for none. */
export function indexOfRun(outputs: Output[], bundle: Bundle): number | undefined {
  const id = runOf(bundle)?.id;
  const isIt = (output: Output): boolean => runIn(output)?.id === id;
  const places = [outputs.findIndex(isIt), outputs.findIndex(isUnfinished)];
  return places.find(index => index >= 0);
}

function bundleOf({ data }: Output): Bundle {
  return (data as Bundle | undefined) ?? {};
}

/** An output that shows it. */
export function outputOf(bundle: Bundle): Output {
  return { output_type: 'display_data', data: bundle, metadata: {} } as Output;
}
