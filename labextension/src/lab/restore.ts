/**
 * Restores runs in cells that JupyterLab no longer updates: after a reload, after the notebook was
 * closed and opened, when another page executed the cell, and when the kernel died. Saves live runs.
 */
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import { CUT_OFF } from '../channel';
import { codeCells, isShared } from './cells';
import type { Link, Links } from './links';
import {
  Bundle,
  findMissingRun,
  indexOfRun,
  insertRun,
  isUnfinished,
  MissingRun,
  Output,
  outputOf,
  runOf
} from './outputs';

/** Milliseconds in which what another page draws arrives in a shared document. */
const PATIENCE = 1_500;

export class Restorer {
  /** Cells executed by this page: JupyterLab updates their outputs. */
  private executed = new WeakSet<ICellModel>();
  /** Cells with a live run that was restored here. */
  private restored = new WeakMap<ICellModel, string>();
  /** Cells for which the current kernel has no run. */
  private withoutRun = new WeakSet<ICellModel>();
  /** Cells with the run that was requested for them. */
  private requested = new WeakMap<ICellModel, MissingRun>();
  /** Cells of shared documents that miss a run, with whether another page may still draw it. */
  private awaited = new WeakMap<ICellModel, boolean>();
  private opened = new WeakMap<NotebookPanel, number>();
  /** Connected notebooks, with their links. */
  private connected = new Map<NotebookPanel, Link>();

  constructor(private links: Links) {
    NotebookActions.executionScheduled.connect((_, { cell }) => this.onExecuted(cell.model));
    NotebookActions.outputCleared.connect((_, { cell }) => this.onCleared(cell.model));
    links.tracker.widgetAdded.connect((_, panel) => this.opened.set(panel, Date.now()));
    links.changed.connect(() => this.update());
    this.update();
  }

  private onExecuted(cell: ICellModel): void {
    this.onCleared(cell);
    if (!this.hasLiveRun(cell)) {
      this.executed.add(cell);
    }
  }

  /** Forget a cell's state, and restore a live run whose card was cleared. */
  private onCleared(cell: ICellModel): void {
    this.executed.delete(cell);
    this.restored.delete(cell);
    this.withoutRun.delete(cell);
    this.requested.delete(cell);
    if (this.hasLiveRun(cell)) {
      this.update();
    }
  }

  private hasLiveRun({ id }: ICellModel): boolean {
    const runs = [...this.connected.values()].flatMap(link => link.live);
    return runs.some(({ cell_id }) => cell_id === id);
  }

  private update(): void {
    this.connected.forEach((link, panel) => this.watch(panel, link));
    for (const panel of this.links.notebooks()) {
      const link = this.links.of(panel);
      if (link?.overview) {
        this.connected.set(panel, link);
        codeCells(panel).forEach(cell => void this.restore(panel, link, cell));
      }
    }
  }

  /** Mark cards as cut off when their kernel is gone. */
  private watch(panel: NotebookPanel, link: Link): void {
    if (panel.isDisposed || this.links.of(panel) !== link || link.overview === null) {
      this.connected.delete(panel);
      if (!panel.isDisposed) {
        this.cutOff(panel);
      }
    }
  }

  private cutOff(panel: NotebookPanel): void {
    for (const { node } of panel.content.widgets) {
      const cards = node.querySelectorAll('[data-ipyagent=run]');
      cards.forEach(card => card.dispatchEvent(new Event(CUT_OFF)));
    }
    for (const cell of codeCells(panel)) {
      this.withoutRun.delete(cell);
      if (this.restored.has(cell)) {
        cell.executionState = 'idle';
      }
    }
  }

  private async restore(panel: NotebookPanel, link: Link, cell: ICodeCellModel): Promise<void> {
    const missing = this.requested.has(cell) ? null : this.findMissing(panel, link, cell);
    if (missing === null) {
      this.awaited.delete(cell);
      return;
    }
    if (isShared(panel) && this.mayArrive(cell)) {
      return;
    }
    this.requested.set(cell, missing);
    const bundle = await link.ask('bundle', missing.which);
    const parent = bundle ? await findParentRun(link, cell, bundle) : null;
    if (this.requested.get(cell) !== missing) {
      return; // the cell was cleared or executed meanwhile
    }
    this.requested.delete(cell);
    if (bundle && !cell.isDisposed) {
      this.showState(link, cell, missing.isLive, bundle);
      updateOutputs(cell, insertRun(cell.outputs.toJSON(), bundle, parent));
    } else if (bundle === null) {
      this.withoutRun.add(cell);
    }
    // The run may have ended meanwhile.
    this.update();
  }

  private findMissing(panel: NotebookPanel, link: Link, cell: ICodeCellModel): MissingRun | null {
    return findMissingRun({
      cellId: cell.id,
      source: cell.sharedModel.getSource(),
      outputs: cell.outputs.toJSON(),
      runs: link.overview?.runs ?? [],
      placed: this.restored.get(cell) ?? null,
      isDrawn: this.executed.has(cell) && link.hasWidgets,
      isRunning: cell.executionState === 'running',
      isShared: isShared(panel),
      isUnknown: this.withoutRun.has(cell),
      saved: Date.parse(panel.context.contentsModel?.last_modified ?? ''),
      opened: this.opened.get(panel) ?? 0
    });
  }

  /** Return whether another page may still draw it. */
  private mayArrive(cell: ICellModel): boolean {
    if (!this.awaited.has(cell)) {
      this.awaited.set(cell, true);
      setTimeout(() => {
        this.awaited.set(cell, false);
        this.update();
      }, PATIENCE);
    }
    return this.awaited.get(cell) ?? false;
  }

  private showState(link: Link, cell: ICodeCellModel, isLive: boolean, bundle: Bundle): void {
    const id = runOf(bundle)?.id;
    if (isLive && id !== undefined) {
      this.restored.set(cell, id);
      cell.executionState = 'running';
    } else {
      this.restored.delete(cell);
      const run = link.overview?.runs.find(each => each.id === id);
      cell.executionCount = run?.number ?? cell.executionCount;
      cell.executionState = 'idle';
    }
  }
}

/** Find the run of the same cell that proposed this plan. */
async function findParentRun(
  link: Link,
  cell: ICodeCellModel,
  bundle: Bundle
): Promise<Bundle | null> {
  const parent = runOf(bundle)?.parent_id ?? null;
  if (parent === null) {
    return null;
  }
  const led = await link.ask('bundle', { run_id: parent });
  return led && runOf(led)?.cell_id === cell.id ? led : null;
}

/** Update only outputs that differ, so that opened details stay open. */
function updateOutputs({ outputs }: ICodeCellModel, next: Output[]): void {
  const now = outputs.toJSON();
  if (now.length > next.length) {
    outputs.fromJSON(next);
    return;
  }
  next.forEach((output, index) => {
    if (index >= now.length) {
      outputs.add(output);
    } else if (JSON.stringify(output) !== JSON.stringify(now[index])) {
      outputs.set(index, output);
    }
  });
}

/** Milliseconds between two saves of a run: a bundle includes its figures. */
const PAUSE = 1_000;

/** The origin of changes that JupyterLab does not draw. */
const UNSEEN = 'silent-change';

/** Save live runs in their cells; where a notebook is shared, those that this page executed. */
export function saveLiveRuns(links: Links): void {
  /** The progress of each cell's run when it was saved. */
  const saved = new WeakMap<ICodeCellModel, string>();
  const busy = new WeakSet<ICodeCellModel>();
  const executed = new WeakSet<ICellModel>();
  const save = async (link: Link, cell: ICodeCellModel, runId: string): Promise<void> => {
    const stage = progressOf(link, runId);
    if (busy.has(cell) || saved.get(cell) === stage) {
      return;
    }
    busy.add(cell);
    const bundle = await link.ask('bundle', { run_id: runId });
    const isLive = link.live.some(({ id }) => id === runId);
    if (bundle && !cell.isDisposed && isLive) {
      saved.set(cell, stage);
      replaceSaved(cell, bundle);
    }
    setTimeout(() => {
      busy.delete(cell);
      update();
    }, PAUSE);
  };
  const update = (): void => {
    for (const link of links.all) {
      const cells = links
        .notebooks(link)
        .flatMap(panel => codeCells(panel).filter(each => !isShared(panel) || executed.has(each)));
      for (const { id, cell_id } of link.live) {
        cells.filter(cell => cell.id === cell_id).forEach(cell => void save(link, cell, id));
      }
    }
  };
  NotebookActions.executionScheduled.connect((_, { cell }) => executed.add(cell.model));
  links.changed.connect(update);
  update();
}

/** Return a key that changes with each step, fact and approval. */
function progressOf({ overview }: Link, runId: string): string {
  const run = overview?.runs.find(({ id }) => id === runId);
  const approvals = overview?.approvals.filter(({ run_id }) => run_id === runId);
  return JSON.stringify([runId, run?.steps, run?.facts, approvals?.map(each => each.approval_id)]);
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
