/**
 * Runs that JupyterLab has lost sight of. It forgets which output a running cell writes to when the
 * page is loaded anew, when the notebook is closed and opened, and when another page ran the cell;
 * and it learns no more of the runs of a kernel that died. Here they come back to their cells.
 */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

import { CUT_OFF } from '../../channel';
import { codeCells } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import { ILinks } from '../kernel/links';
import { live } from '../kernel/liveRuns';
import { findMissingRun, Wanted } from './findMissingRun';
import { Bundle, Output, runOf, withRun } from './outputs';

class Restorer {
  /** Cells run by this page: JupyterLab draws what comes of them. */
  private executed = new WeakSet<ICellModel>();
  /** Cells with a run that is drawn there from here, until it has ended. */
  private placed = new WeakMap<ICellModel, string>();
  /** Cells of which the kernel, as it is now, has no run to show. */
  private unknown = new WeakSet<ICellModel>();
  /** Cells, each with the run that the kernel was asked for. */
  private asking = new WeakMap<ICellModel, Wanted>();
  private opened = new WeakMap<NotebookPanel, number>();
  /** Notebooks whose kernel was there, with the link to it. */
  private connected = new Map<NotebookPanel, Link>();

  constructor(
    tracker: INotebookTracker,
    private links: ILinks
  ) {
    NotebookActions.executionScheduled.connect((_, { cell }) => this.ran(cell.model));
    NotebookActions.outputCleared.connect((_, { cell }) => this.cleared(cell.model));
    tracker.widgetAdded.connect((_, panel) => this.opened.set(panel, Date.now()));
    links.changed.connect(() => this.update());
    this.update();
  }

  private ran(cell: ICellModel): void {
    this.cleared(cell);
    if (!this.isOn(cell)) {
      this.executed.add(cell);
    }
  }

  /** With the outputs went the card: a run that is on must not wait where nobody sees it. */
  private cleared(cell: ICellModel): void {
    this.executed.delete(cell);
    this.placed.delete(cell);
    this.unknown.delete(cell);
    this.asking.delete(cell);
    if (this.isOn(cell)) {
      this.update();
    }
  }

  private isOn({ id }: ICellModel): boolean {
    const runs = [...this.connected.values()].flatMap(link => link.live);
    return runs.some(({ cell_id }) => cell_id === id);
  }

  private update(): void {
    live.update(this.links.all);
    this.connected.forEach((link, panel) => this.watch(panel, link));
    for (const panel of this.links.notebooks()) {
      const link = this.links.of(panel);
      if (link?.overview) {
        this.connected.set(panel, link);
        codeCells(panel).forEach(cell => void this.restore(panel, link, cell));
      }
    }
  }

  /** When a kernel goes, its cards must not look alive. */
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
      this.unknown.delete(cell);
      if (this.placed.has(cell)) {
        cell.executionState = 'idle';
      }
    }
  }

  private async restore(panel: NotebookPanel, link: Link, cell: ICodeCellModel): Promise<void> {
    const wanted = this.asking.has(cell) ? null : this.wanted(panel, link, cell);
    if (wanted === null) {
      return;
    }
    this.asking.set(cell, wanted);
    const bundle = (await link.bundle(wanted.which)) as Bundle | null | undefined;
    const led = bundle ? await ledTo(link, cell, bundle) : null;
    if (this.asking.get(cell) !== wanted) {
      return; // it was cleared or run again
    }
    this.asking.delete(cell);
    if (bundle && !cell.isDisposed) {
      this.place(cell, wanted, bundle, led);
    } else if (bundle === null) {
      this.unknown.add(cell);
    }
    // Meanwhile the run may have ended.
    this.update();
  }

  private wanted(panel: NotebookPanel, link: Link, cell: ICodeCellModel): Wanted | null {
    return findMissingRun({
      cellId: cell.id,
      source: cell.sharedModel.getSource(),
      outputs: cell.outputs.toJSON(),
      runs: link.overview?.runs ?? [],
      placed: this.placed.get(cell) ?? null,
      isDrawn: this.executed.has(cell) && link.hasWidgets,
      isRunning: cell.executionState === 'running',
      isUnknown: this.unknown.has(cell),
      saved: Date.parse(panel.context.contentsModel?.last_modified ?? ''),
      opened: this.opened.get(panel) ?? 0
    });
  }

  private place(cell: ICodeCellModel, wanted: Wanted, bundle: Bundle, led: Bundle | null): void {
    const id = runOf(bundle)?.id;
    if (wanted.isLive && id !== undefined) {
      this.placed.set(cell, id);
      cell.executionState = 'running';
    } else if (this.placed.delete(cell)) {
      cell.executionState = 'idle';
    }
    show(cell, withRun(cell.outputs.toJSON(), bundle, led));
  }
}

/** The run of the same cell that proposed the plan which this one is. */
async function ledTo(link: Link, cell: ICodeCellModel, bundle: Bundle): Promise<Bundle | null> {
  const parent = runOf(bundle)?.parent_id ?? null;
  if (parent === null) {
    return null;
  }
  const led = ((await link.bundle({ run_id: parent })) as Bundle | null | undefined) ?? null;
  return led !== null && runOf(led)?.cell_id === cell.id ? led : null;
}

/** Change only what is different: what was unfolded stays so. */
function show({ outputs }: ICodeCellModel, wanted: Output[]): void {
  const now = outputs.toJSON();
  if (now.length > wanted.length) {
    outputs.fromJSON(wanted);
    return;
  }
  wanted.forEach((output, index) => {
    if (index >= now.length) {
      outputs.add(output);
    } else if (JSON.stringify(output) !== JSON.stringify(now[index])) {
      outputs.set(index, output);
    }
  });
}

export const restore: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:restore',
  description: 'Brings runs back to their cells when the page or the kernel was not there.',
  autoStart: true,
  requires: [INotebookTracker, ILinks],
  activate: (_, tracker: INotebookTracker, links: ILinks) => {
    new Restorer(tracker, links);
  }
};
