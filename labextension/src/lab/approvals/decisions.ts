/** Approve and deny by a command: the card's own buttons, and only once the call was seen. */
import { Notification } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import type { INotebookTracker } from '@jupyterlab/notebook';

import type { PendingApproval } from '../../protocol';
import type { ILinks } from '../kernel/links';
import { Asked, show, Visibility } from './visibility';

/** Milliseconds between two looks, while something waits. */
const LOOK = 100;

/** Milliseconds between two presses that are meant: a key that is held down decides nothing. */
const PAUSE = 400;

/** The oldest question of the current notebook, and what was seen of it. */
export class Decisions {
  private sight = new Visibility('');
  private timer: number | null = null;
  private pressed = -PAUSE;

  constructor(
    private tracker: INotebookTracker,
    private links: ILinks
  ) {
    const update = (): void => this.update();
    links.changed.connect(update);
    tracker.currentChanged.connect(update);
  }

  /** What waits longest; null where nothing does. */
  get pending(): PendingApproval | null {
    return this.links.of(this.tracker.currentWidget)?.overview?.approvals.at(0) ?? null;
  }

  /** Press the card's button, or else show what was not seen of it yet. */
  async press(word: 'approve' | 'deny'): Promise<void> {
    const [last, now] = [this.pressed, performance.now()];
    this.pressed = now;
    if (now - last < PAUSE) {
      return;
    }
    const asked = await this.found();
    if (asked === null) {
      Notification.warning('The card of this call is not in the notebook, so it cannot be seen.');
      return;
    }
    this.look();
    const missing = this.sight.missing(asked);
    if (missing === null) {
      asked.form.querySelector<HTMLButtonElement>(`[data-ipyagent="${word}"]`)?.click();
    } else {
      show(asked, missing);
      Notification.info(`Read what is asked, then ${word} again.`, { autoClose: 4_000 });
    }
  }

  private update(): void {
    if (this.pending === null && this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
    } else if (this.pending !== null && this.timer === null) {
      this.timer = window.setInterval(() => this.look(), LOOK);
    }
  }

  private look(): void {
    const { pending } = this;
    if (pending !== null && pending.approval_id !== this.sight.approvalId) {
      this.sight = new Visibility(pending.approval_id);
    }
    const asked = pending && askedIn(this.cell, pending);
    if (asked !== null) {
      this.sight.look(asked);
    }
  }

  /** The card, in the page even if its cell was scrolled far away. */
  private async found(): Promise<Asked | null> {
    const { cell, pending } = this;
    if (cell !== null && !cell.node.isConnected) {
      const notebook = this.tracker.currentWidget?.content;
      await notebook?.scrollToItem(notebook.widgets.indexOf(cell));
    }
    return pending && askedIn(cell, pending);
  }

  private get cell(): CodeCell | null {
    const cells = this.tracker.currentWidget?.content.widgets ?? [];
    const cell = cells.find(({ model }) => model.id === this.pending?.cell_id);
    return cell instanceof CodeCell ? cell : null;
  }
}

function askedIn(cell: CodeCell | null, { approval_id }: PendingApproval): Asked | null {
  const place = `[data-approval="${CSS.escape(approval_id)}"]`;
  const form = cell?.outputArea.node.querySelector<HTMLElement>(place);
  const card = form?.closest<HTMLElement>('.ipyagent-tool, .ipyagent-plan');
  return form && card ? { card, form } : null;
}
