/** All calls that wait with a change of cells, drawn in the notebooks that they are about. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { Answer } from '../../channel';
import { approvalKey } from '../../model';
import type { Link } from '../kernel/link';
import { ILinks } from '../kernel/links';
import { Proposal, Waiting } from './cellProposal';
import { Documents } from './documents';
import { Inserted } from './placement';

const TOOLS = ['edit_cell', 'insert_cell'];

/** What a path means that a notebook's agent named. */
export type Resolve = (notebook: string, path: string) => string;

/** Keeps in step with what waits: a call that was decided on anywhere vanishes. */
export class Proposals {
  private boards = new Map<NotebookPanel, Board>();

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
    const board = new Board(panel);
    this.boards.set(panel, board);
    panel.disposed.connect(() => this.boards.delete(panel));
    // Emitted before the cells are drawn.
    panel.content.modelContentChanged.connect(() => queueMicrotask(() => board.update()));
    this.update();
  }

  private update(): void {
    const waiting = this.links.all.flatMap(link => this.waiting(link));
    this.boards.forEach((board, { context }) =>
      board.show(waiting.filter(({ path }) => path === context.path))
    );
  }

  private waiting(link: Link): Waiting[] {
    const panels = this.links.notebooks(link);
    return (link.overview?.approvals ?? []).flatMap(approval => {
      const { call, cell_id: cellId, run_id: runId } = approval;
      if (call === null || !TOOLS.includes(call.name)) {
        return [];
      }
      const own = (panels.find(panel => has(panel, cellId)) ?? panels[0]).context.path;
      const path = this.target(own, call.request.arguments.path);
      const asking = path === own ? null : own;
      const decide = (answer: Answer): void =>
        link.tell(runId, { type: 'decide', approval_id: approval.approval_id, answer });
      const inserted = this.inserted.by(runId);
      return [{ id: approvalKey(approval), call, path, asking, cellId, inserted, decide }];
    });
  }

  /** The notebook that is meant: one beside that of the agent, or as the server names it. */
  private target(own: string, given: unknown): string {
    if (typeof given !== 'string') {
      return own;
    }
    const open = [...this.boards.keys()].map(({ context }) => context.path);
    const beside = this.resolve(own, given);
    return open.includes(beside) ? beside : given;
  }
}

/** The proposals in one view of a notebook. */
class Board {
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

  /** Draw them where they belong now. */
  update(): void {
    this.proposals.forEach(proposal => proposal.update());
  }
}

function has({ content }: NotebookPanel, cellId: string | null): boolean {
  return content.widgets.some(({ model }) => model.id === cellId);
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
