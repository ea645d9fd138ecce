/**
 * Serves the kernel's notebook tools (`ipyagent/kernel/pages.py`), and draws the changes that they
 * propose at their cells.
 */
import { type Cell, CodeCellModel } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

import type { AskedCall } from '../protocol';
import { ProposalView } from '../view/proposal';
import { listWaiting, type Waiting } from './approvals';
import { mark, runCells } from './cells';
import type { Link } from './link';
import type { Links } from './links';
import {
  codeCell,
  insertCells,
  Kind,
  type Notebook,
  Output,
  CallPlace,
  placeOfCall,
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

/** A call that waits, in the notebook whose agent asks. */
interface ProposedCall extends Waiting {
  readonly call: AskedCall;
  /** The path of the notebook to change. */
  readonly path: string;
}

/** Draws one proposal in the layout of a cell, with which it moves. */
class Proposal {
  private view: ProposalView | null = null;
  private widget: Widget | null = null;
  private isDisposed = false;
  /** The cell to change, and its source at the time of the proposal. */
  private changed: { cellId: string; before: string } | null = null;

  constructor(
    private panel: NotebookPanel,
    private waiting: ProposedCall
  ) {}

  /** Draw it at its current place: cells are added, moved and deleted. */
  update(): void {
    const { widgets } = this.panel.content;
    const { approval, call } = this.waiting;
    const cells = widgets.map(({ model }) => model.id);
    const place: CallPlace | null = this.changed
      ? { cellId: this.changed.cellId, side: 'changed' }
      : placeOfCall(call, {
          cells,
          agentCell: approval.cell_id,
          inserted: approval.inserted
        });
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

  private draw(cell: Cell, { cellId, side }: CallPlace): void {
    const source = cell.model.sharedModel.getSource();
    if (side === 'changed') {
      this.changed ??= { cellId, before: source };
    }
    const before = this.changed?.before ?? null;
    const { approval, call, link, path, panel } = this.waiting;
    const given = call.request.arguments;
    const kind = side === 'changed' ? cell.model.type : (given.kind ?? 'code');
    const changed = nameChange(this.panel, this.changed?.cellId ?? '', given.source);
    const step = listSteps(link).find(each => each.startsWith(`${approval.run_id} `)) ?? '';
    const run = (): void => toRun.add(changed, step);
    const own = panel.context.path;
    this.view ??= new ProposalView(
      { approval, call, before, asking: path === own ? null : own },
      answer => link.decide(approval, answer),
      kind === 'code' ? run : null
    );
    this.view.element.dataset.run = approval.run_id;
    this.view.update(before !== null && before !== source);
    if (this.widget?.parent !== cell) {
      this.remove();
      this.insert(this.view, cell, side);
    }
  }

  private insert({ element }: ProposalView, cell: Cell, side: CallPlace['side']): void {
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

const TOOLS = ['edit_cell', 'insert_cell'];

/** Keeps all notebooks' proposals up to date: decided calls disappear. */
class Proposals {
  /** The proposals in each view of a notebook. */
  private drawn = new Map<NotebookPanel, Map<string, Proposal>>();

  constructor(private links: Links) {
    links.forEachNotebook(panel => this.add(panel));
    links.changed.connect(() => this.update());
  }

  private add(panel: NotebookPanel): void {
    const proposals = new Map<string, Proposal>();
    this.drawn.set(panel, proposals);
    panel.disposed.connect(() => this.drawn.delete(panel));
    // The signal is emitted before the cells are drawn.
    panel.content.modelContentChanged.connect(() =>
      queueMicrotask(() => proposals.forEach(each => each.update()))
    );
    this.update();
  }

  private update(): void {
    const waiting = this.listProposed();
    this.drawn.forEach((proposals, panel) => {
      const here = waiting.filter(({ path }) => path === panel.context.path);
      proposals.forEach((proposal, id) => {
        if (here.every(({ key }) => key !== id)) {
          proposal.dispose();
          proposals.delete(id);
        }
      });
      here.forEach(each => {
        const proposal = proposals.get(each.key) ?? new Proposal(panel, each);
        proposals.set(each.key, proposal);
        proposal.update();
      });
    });
  }

  private listProposed(): ProposedCall[] {
    return listWaiting(this.links).flatMap(waiting => {
      const { asked } = waiting.approval;
      const call = asked.calls.at(0);
      if (call === undefined || asked.is_plan || !TOOLS.includes(call.name)) {
        return [];
      }
      const path = this.resolveTarget(waiting.panel.context.path, call.request.arguments.path);
      return [{ ...waiting, call, path }];
    });
  }

  /** Resolve a path to an open notebook: relative to the agent's, or to the server's root. */
  private resolveTarget(own: string, given: unknown): string {
    if (typeof given !== 'string') {
      return own;
    }
    const open = [...this.drawn.keys()].map(({ context }) => context.path);
    const { contents } = this.links.app.serviceManager;
    const relative = contents.resolvePath(`${own}/..`, given);
    return open.includes(relative) ? relative : given;
  }
}

/** Let tools change open notebooks, and show changes that wait for a decision. */
export function serveNotebooks(links: Links): void {
  serveRequests(links);
  new Proposals(links);
}
