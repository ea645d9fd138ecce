/** A proposed change, drawn in one view of its notebook. */
import type { Cell } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

import type { Call } from '../../protocol';
import type { Decide } from '../../view/form';
import { ProposalView } from '../../view/proposal';
import { placeOf, Place } from './placement';

/** A waiting call, and its context. */
export interface Waiting {
  readonly id: string;
  readonly runId: string;
  readonly call: Call;
  /** The path of the notebook to change. */
  readonly path: string;
  /** The notebook whose agent asks, if it is another. */
  readonly asking: string | null;
  /** The agent's own cell. */
  readonly cellId: string | null;
  /** The ids of the cells that its run has inserted. */
  readonly inserted: readonly string[];
  readonly decide: Decide;
}

/** Draws one proposal in the layout of a cell, with which it moves. */
export class Proposal {
  private view: ProposalView | null = null;
  private widget: Widget | null = null;
  private side: Place['side'] | null = null;
  private isDisposed = false;
  /** The cell to change, and its source at the time of the proposal. */
  private changed: { cellId: string; before: string } | null = null;

  constructor(
    private panel: NotebookPanel,
    private waiting: Waiting
  ) {}

  /** Draw it at its current place: cells are added, moved and deleted. */
  update(): void {
    const { widgets } = this.panel.content;
    const { cellId: asking, call, inserted } = this.waiting;
    const cells = widgets.map(({ model }) => model.id);
    const place: Place | null = this.changed
      ? { cellId: this.changed.cellId, side: 'changed' }
      : placeOf(call, { cells, agentCell: asking, inserted });
    const cell = widgets.find(({ model }) => model.id === place?.cellId);
    if (place === null || cell === undefined) {
      this.remove();
    } else {
      this.draw(cell, place);
    }
  }

  /** Remove it for good. */
  dispose(): void {
    this.isDisposed = true;
    this.view?.dispose();
    this.remove();
  }

  private draw(cell: Cell, { cellId, side }: Place): void {
    const source = cell.model.sharedModel.getSource();
    if (side === 'changed') {
      this.changed ??= { cellId, before: source };
    }
    const before = this.changed?.before ?? null;
    const { call, asking, decide } = this.waiting;
    this.view ??= new ProposalView({ call, before, asking }, decide);
    this.view.element.dataset.run = this.waiting.runId;
    this.view.update(before !== null && before !== source);
    if (this.widget?.parent !== cell || this.side !== side) {
      this.remove();
      this.insert(this.view, cell, side);
    }
  }

  private insert({ element }: ProposalView, cell: Cell, side: Place['side']): void {
    if (cell.isPlaceholder()) {
      void cell.ready.then(() => this.isDisposed || this.update());
      return;
    }
    this.side = side;
    this.widget = new Widget({ node: element });
    const layout = cell.layout as PanelLayout;
    const input = layout.widgets.findIndex(({ node }) =>
      node.contains(cell.inputArea?.node ?? null)
    );
    const at = { before: 0, changed: input + 1, after: layout.widgets.length };
    layout.insertWidget(at[side], this.widget);
    if (cell.isHidden) {
      // A folded heading would hide the proposal.
      NotebookActions.expandParent(cell, this.panel.content);
    }
  }

  private remove(): void {
    this.widget?.dispose();
    this.widget = null;
    this.side = null;
  }
}
