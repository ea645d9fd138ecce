/**
 * Saves a run that is on into its notebook. Its card is a widget, of which nothing is left without
 * the kernel: so what JupyterLab saves has the run in its place, as far as it has come. The page
 * goes on with the card.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICodeCellModel } from '@jupyterlab/cells';

import { codeCells } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import { ILinks } from '../kernel/links';
import { Bundle, indexOfRun, isUnfinished, outputOf } from './outputs';

/** Milliseconds between two forms of a run: one may weigh as much as its figures. */
const PAUSE = 1_000;

/** JupyterLab's word for what the page need not draw. */
const UNSEEN = 'silent-change';

class LiveRunSaver {
  /** How far each run was when it was kept. */
  private kept = new WeakMap<ICodeCellModel, string>();
  private busy = new WeakSet<ICodeCellModel>();

  constructor(private links: ILinks) {
    links.changed.connect(() => this.update());
    this.update();
  }

  private update(): void {
    for (const link of this.links.all) {
      const cells = this.links.notebooks(link).flatMap(codeCells);
      for (const { id, cell_id } of link.live) {
        cells.filter(cell => cell.id === cell_id).forEach(cell => void this.keep(link, cell, id));
      }
    }
  }

  private async keep(link: Link, cell: ICodeCellModel, runId: string): Promise<void> {
    const stage = stageOf(link, runId);
    if (this.busy.has(cell) || this.kept.get(cell) === stage) {
      return;
    }
    this.busy.add(cell);
    const bundle = (await link.bundle({ run_id: runId })) as Bundle | null | undefined;
    if (bundle && !cell.isDisposed && isOn(link, runId)) {
      this.kept.set(cell, stage);
      put(cell, bundle);
    }
    setTimeout(() => {
      this.busy.delete(cell);
      this.update();
    }, PAUSE);
  }
}

/** Changes when something was said, done or asked. */
function stageOf({ overview }: Link, runId: string): string {
  const run = overview?.runs.find(({ id }) => id === runId);
  const asked = overview?.approvals.filter(({ run_id }) => run_id === runId);
  return JSON.stringify([runId, run?.steps, run?.facts, asked?.map(each => each.approval_id)]);
}

function isOn({ live }: Link, runId: string): boolean {
  return live.some(({ id }) => id === runId);
}

/** Only in what is saved: to draw it here would fold what is unfolded, and lose what was typed. */
function put({ outputs, sharedModel }: ICodeCellModel, bundle: Bundle): void {
  const shown = outputs.toJSON();
  const place = indexOfRun(shown, bundle);
  // It may have ended while this was on its way.
  if (place !== undefined && isUnfinished(shown[place])) {
    const change = (): void => sharedModel.updateOutputs(place, place + 1, [outputOf(bundle)]);
    (sharedModel.notebook ?? sharedModel).transact(change, false, UNSEEN);
  }
}

export const saveLiveRuns: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:keep',
  description: 'Saves a run that is on as far as it has come.',
  autoStart: true,
  requires: [ILinks],
  activate: (_, links: ILinks) => {
    new LiveRunSaver(links);
  }
};
