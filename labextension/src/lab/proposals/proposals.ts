/** Draws all waiting changes of cells, each in its notebook. */
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { Answer } from '../../channel';
import { listWaiting } from '../approvals/waiting';
import type { Links } from '../kernel/links';
import { Proposal, Waiting } from './cellProposal';
import { serveRequests } from './documents';
import { Inserted } from './placement';

const TOOLS = ['edit_cell', 'insert_cell'];

/** Keeps all notebooks' proposals up to date: decided calls disappear. */
class Proposals {
  /** The proposals in each view of a notebook. */
  private drawn = new Map<NotebookPanel, Map<string, Proposal>>();

  constructor(
    private links: Links,
    private inserted: Inserted
  ) {
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
      const here = new Map(
        waiting.filter(({ path }) => path === panel.context.path).map(each => [each.id, each])
      );
      proposals.forEach((proposal, id) => {
        if (!here.has(id)) {
          proposal.dispose();
          proposals.delete(id);
        }
      });
      here.forEach((each, id) => {
        const proposal = proposals.get(id) ?? new Proposal(panel, each);
        proposals.set(id, proposal);
        proposal.update();
      });
    });
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
    const open = [...this.drawn.keys()].map(({ context }) => context.path);
    const { contents } = this.links.app.serviceManager;
    const relative = contents.resolvePath(`${own}/..`, given);
    return open.includes(relative) ? relative : given;
  }
}

/** Let tools change open notebooks, and show changes that wait for a decision. */
export function serveNotebooks(links: Links): void {
  const inserted = new Inserted();
  serveRequests(links, inserted);
  new Proposals(links, inserted);
}
