/**
 * Saves live runs. A card is a widget, of which nothing is left without the kernel, so the saved
 * notebook has the run's bundle instead, while the page keeps the card.
 */
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import { codeCells, isShared } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import type { Links } from '../kernel/links';
import { Bundle, indexOfRun, isUnfinished, outputOf } from './outputs';

/** Milliseconds between two saves of a run: a bundle includes its figures. */
const PAUSE = 1_000;

/** The origin of changes that JupyterLab does not draw. */
const UNSEEN = 'silent-change';

export class LiveRunSaver {
  /** The progress of each cell's run when it was saved. */
  private saved = new WeakMap<ICodeCellModel, string>();
  private busy = new WeakSet<ICodeCellModel>();
  /** Cells executed by this page. */
  private executed = new WeakSet<ICellModel>();

  constructor(private links: Links) {
    NotebookActions.executionScheduled.connect((_, { cell }) => this.executed.add(cell.model));
    links.changed.connect(() => this.update());
    this.update();
  }

  private update(): void {
    for (const link of this.links.all) {
      const cells = this.links.notebooks(link).flatMap(panel => this.cellsToSave(panel));
      for (const { id, cell_id } of link.live) {
        cells.filter(cell => cell.id === cell_id).forEach(cell => void this.save(link, cell, id));
      }
    }
  }

  /** Return the cells of a notebook; where it is shared, other pages save those that they executed. */
  private cellsToSave(panel: NotebookPanel): ICodeCellModel[] {
    return codeCells(panel).filter(cell => !isShared(panel) || this.executed.has(cell));
  }

  private async save(link: Link, cell: ICodeCellModel, runId: string): Promise<void> {
    const stage = progressOf(link, runId);
    if (this.busy.has(cell) || this.saved.get(cell) === stage) {
      return;
    }
    this.busy.add(cell);
    const bundle = (await link.ask('bundle', { run_id: runId })) as Bundle | null | undefined;
    if (bundle && !cell.isDisposed && isLive(link, runId)) {
      this.saved.set(cell, stage);
      replaceSaved(cell, bundle);
    }
    setTimeout(() => {
      this.busy.delete(cell);
      this.update();
    }, PAUSE);
  }
}

/** Return a key that changes with each step, fact and approval. */
function progressOf({ overview }: Link, runId: string): string {
  const run = overview?.runs.find(({ id }) => id === runId);
  const approvals = overview?.approvals.filter(({ run_id }) => run_id === runId);
  return JSON.stringify([runId, run?.steps, run?.facts, approvals?.map(each => each.approval_id)]);
}

function isLive({ live }: Link, runId: string): boolean {
  return live.some(({ id }) => id === runId);
}

/** Replace the output in the saved document only: drawing it would close details and lose input. */
function replaceSaved({ outputs, sharedModel }: ICodeCellModel, bundle: Bundle): void {
  const current = outputs.toJSON();
  const place = indexOfRun(current, bundle);
  // The run may have ended meanwhile.
  if (place !== undefined && isUnfinished(current[place])) {
    const change = (): void => sharedModel.updateOutputs(place, place + 1, [outputOf(bundle)]);
    (sharedModel.notebook ?? sharedModel).transact(change, false, UNSEEN);
  }
}
