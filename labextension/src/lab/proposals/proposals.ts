/** Draws all waiting changes of cells, each in its notebook. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { Answer } from '../../channel';
import { listWaiting } from '../approvals/waiting';
import { ILinks } from '../kernel/links';
import { Proposal, Waiting } from './cellProposal';
import { Documents } from './documents';
import { Inserted } from './placement';

const TOOLS = ['edit_cell', 'insert_cell'];

/** Resolves a path that a notebook's agent gave. */
type Resolve = (notebook: string, path: string) => string;

/** Keeps all notebooks' proposals up to date: decided calls disappear. */
class Proposals {
  private views = new Map<NotebookPanel, NotebookProposals>();

  constructor(
    tracker: INotebookTracker,
    private links: ILinks,
    private inserted: Inserted,
    private resolve: Resolve
  ) {
    tracker.forEach(panel => this.add(panel));
    tracker.widgetAdded.connect((_, panel) => this.add(panel));
    links.changed.connect(() => this.update());
  }

  private add(panel: NotebookPanel): void {
    const view = new NotebookProposals(panel);
    this.views.set(panel, view);
    panel.disposed.connect(() => this.views.delete(panel));
    // The signal is emitted before the cells are drawn.
    panel.content.modelContentChanged.connect(() => queueMicrotask(() => view.update()));
    this.update();
  }

  private update(): void {
    const waiting = this.listProposed();
    this.views.forEach((board, { context }) =>
      board.show(waiting.filter(({ path }) => path === context.path))
    );
  }

  private listProposed(): Waiting[] {
    return listWaiting(this.links).flatMap(({ key, approval, link, panel }) => {
      const { call, cell_id: cellId, run_id: runId } = approval;
      if (call === null || !TOOLS.includes(call.name)) {
        return [];
      }
      const own = panel.context.path;
      const path = this.resolveTarget(own, call.request.arguments.path);
      const asking = path === own ? null : own;
      const decide = (answer: Answer): void =>
        link.sendToRun(runId, { type: 'decide', approval_id: approval.approval_id, answer });
      const inserted = this.inserted.by(runId);
      return [{ id: key, runId, call, path, asking, cellId, inserted, decide }];
    });
  }

  /** Resolve a path to an open notebook: relative to the agent's, or to the server's root. */
  private resolveTarget(own: string, given: unknown): string {
    if (typeof given !== 'string') {
      return own;
    }
    const open = [...this.views.keys()].map(({ context }) => context.path);
    const relative = this.resolve(own, given);
    return open.includes(relative) ? relative : given;
  }
}

/** The proposals in one view of a notebook. */
class NotebookProposals {
  private proposals = new Map<string, Proposal>();

  constructor(private panel: NotebookPanel) {}

  /** Show these and no others. */
  show(waiting: readonly Waiting[]): void {
    const ids = waiting.map(({ id }) => id);
    this.proposals.forEach((proposal, id) => {
      if (!ids.includes(id)) {
        proposal.dispose();
        this.proposals.delete(id);
      }
    });
    waiting
      .filter(({ id }) => !this.proposals.has(id))
      .forEach(each => this.proposals.set(each.id, new Proposal(this.panel, each)));
    this.update();
  }

  /** Draw them at their current places. */
  update(): void {
    this.proposals.forEach(proposal => proposal.update());
  }
}

export const editing: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:editing',
  description: 'Lets tools change open notebooks, and shows changes that wait for a decision.',
  autoStart: true,
  requires: [INotebookTracker, ILinks],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker, links: ILinks) => {
    const { contents } = app.serviceManager;
    const inserted = new Inserted();
    new Documents(links, inserted);
    new Proposals(tracker, links, inserted, (notebook, path) =>
      contents.resolvePath(`${notebook}/..`, path)
    );
  }
};
