/**
 * Serves the kernel's notebook tools (`ipyagent/kernel/pages.py`), and draws the changes that they
 * propose at their cells.
 */
import { type Cell, CodeCellModel } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

import type { CellPlace, Proposal } from '../protocol';
import { ProposalView } from '../view/approval';
import { listWaiting, type Waiting } from './approvals';
import { mark, runCells } from './cells';
import type { Link, Links } from './links';
import {
  codeCell,
  insertCells,
  Kind,
  type Notebook,
  Output,
  readCells,
  removeCell,
  replaceSource,
  setOutputs,
  WantedRuns
} from './sharedCells';

/** The fields of all requests; each has some of them. */
interface RequestDetails {
  id: string;
  index: number;
  kind: Kind;
  before: string;
  source: string;
  outputs: Output[];
  execution_count: number | null;
}

/** Read and change open notebooks for the kernel. Nothing is saved here. */
function serveRequests(links: Links): void {
  /** Run a cell that was changed, if the user has approved that too. */
  const runApproved = (panel: NotebookPanel, id: string, change: string): void => {
    if (toRun.take(change, links.all.flatMap(listSteps))) {
      runCells(panel, [id]);
    }
  };
  const answers: Record<string, (panel: NotebookPanel, details: RequestDetails) => unknown> = {
    cells: panel => ({ path: panel.context.path, cells: readCells(sharedNotebook(panel)) }),
    insert: (panel, { index, kind, source }) => {
      const [id] = insertCells(sharedNotebook(panel), index, kind, [source]);
      mark(panel, id);
      runApproved(panel, id, nameChange(panel, '', source));
      return { id, index };
    },
    replace: (panel, { id, before, source }) => {
      replaceSource(sharedNotebook(panel), id, before, source);
      mark(panel, id);
      runApproved(panel, id, nameChange(panel, id, source));
      return {};
    },
    remove: (panel, { id, before }) => {
      removeCell(sharedNotebook(panel), id, before);
      return {};
    },
    outputs: setOutputsOf,
    open: () => ({ paths: links.notebooks().map(({ context }) => context.path) })
  };
  links.serve = async (panel, { what, details }) => {
    if (!Object.hasOwn(answers, what)) {
      throw new Error(`this version of the page cannot do ${what}`);
    }
    await panel.context.ready;
    return answers[what](panel, details as unknown as RequestDetails);
  };
}

const toRun = new WantedRuns();

/** Name a change of a cell; a new one has no id so far. */
function nameChange({ context }: NotebookPanel, id: string, source: unknown): string {
  return JSON.stringify([context.path, id, source]);
}

/** List the current steps of a kernel's runs. */
function listSteps({ live }: Link): string[] {
  return live.map(({ id, steps }) => `${id} ${steps}`);
}

function setOutputsOf(panel: NotebookPanel, details: RequestDetails): unknown {
  const cell = codeCell(sharedNotebook(panel), details.id, details.before);
  const model = panel.content.widgets.find(each => each.model.sharedModel === cell)?.model;
  if (model instanceof CodeCellModel) {
    // JupyterLab does the same when it runs a cell.
    model.trusted = true;
    setOutputs(cell, details.outputs, details.execution_count);
    model.isDirty = false;
  }
  mark(panel, details.id);
  return {};
}

/** Return the document shared by all views of a notebook. */
export function sharedNotebook({ content }: NotebookPanel): Notebook {
  if (content.model === null) {
    throw new Error('the notebook is being closed');
  }
  return content.model.sharedModel as unknown as Notebook;
}

/** A change that waits for a decision. */
interface Proposed extends Waiting {
  readonly proposal: Proposal;
}

/** Draws a proposed change in the layout of a cell, with which it moves. */
class DrawnProposal {
  private view: ProposalView | null = null;
  private widget: Widget | null = null;
  private isDisposed = false;
  private cellId = '';
  /** The source of the cell to change at the time of the proposal. */
  private before: string | null = null;

  constructor(
    private panel: NotebookPanel,
    private proposed: Proposed
  ) {}

  /** Draw it at its current place: cells are added, moved and deleted. */
  update(cellId = this.cellId): void {
    this.cellId = cellId;
    const cell = this.panel.content.widgets.find(({ model }) => model.id === this.cellId);
    if (cell === undefined) {
      this.remove();
    } else {
      this.draw(cell);
    }
  }

  /** Remove it for good. */
  dispose(): void {
    this.isDisposed = true;
    this.view?.dispose();
    this.remove();
  }

  private draw(cell: Cell): void {
    const { side } = this.proposed.proposal.place;
    this.view ??= this.makeView();
    if (side === 'changed') {
      const source = cell.model.sharedModel.getSource();
      this.view.update((this.before ??= source) !== source);
    }
    if (this.widget?.parent !== cell) {
      this.remove();
      this.insert(this.view, cell, side);
    }
  }

  private makeView(): ProposalView {
    const { approval, link, panel, proposal } = this.proposed;
    const { cell_id, kind, path, side } = proposal.place;
    const { source } = approval.asked.calls[0].arguments;
    const changed = nameChange(this.panel, side === 'changed' ? cell_id : '', source);
    const step = listSteps(link).find(each => each.startsWith(`${approval.run_id} `)) ?? '';
    const own = panel.context.path;
    return new ProposalView(
      approval,
      proposal,
      (path ?? own) === own ? null : own,
      answer => link.decide(approval, answer),
      kind === 'code' ? () => toRun.add(changed, step) : null
    );
  }

  private insert({ element }: ProposalView, cell: Cell, side: CellPlace['side']): void {
    if (cell.isPlaceholder()) {
      void cell.ready.then(() => this.isDisposed || this.update());
      return;
    }
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
  }
}

/** Keep all notebooks' proposals up to date: decided calls disappear. */
function drawProposals(links: Links): void {
  /** The proposals in each view of a notebook. */
  const drawn = new Map<NotebookPanel, Map<string, DrawnProposal>>();
  const update = (): void => {
    const waiting = listWaiting(links).flatMap((each): Proposed[] => {
      const { proposal } = each.approval;
      return proposal === null ? [] : [{ ...each, proposal }];
    });
    drawn.forEach((proposals, panel) => {
      const { path } = panel.context;
      const here = waiting.filter(
        each => path === (each.proposal.place.path ?? each.panel.context.path)
      );
      proposals.forEach((proposal, id) => {
        if (here.every(({ key }) => key !== id)) {
          proposal.dispose();
          proposals.delete(id);
        }
      });
      here.forEach(each => {
        const proposal = proposals.get(each.key) ?? new DrawnProposal(panel, each);
        proposals.set(each.key, proposal);
        proposal.update(each.proposal.place.cell_id);
      });
    });
  };
  links.forEachNotebook(panel => {
    const proposals = new Map<string, DrawnProposal>();
    drawn.set(panel, proposals);
    panel.disposed.connect(() => drawn.delete(panel));
    // The signal is emitted before the cells are drawn.
    panel.content.modelContentChanged.connect(() =>
      queueMicrotask(() => proposals.forEach(each => each.update()))
    );
    update();
  });
  links.changed.connect(update);
}

/** Let tools change open notebooks, and show changes that wait for a decision. */
export function serveNotebooks(links: Links): void {
  serveRequests(links);
  drawProposals(links);
}
