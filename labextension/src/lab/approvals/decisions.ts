/** Approves and denies by shortcut: presses the card's own buttons, once the call was visible. */
import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';

import type { PendingApproval } from '../../protocol';
import type { ILinks } from '../kernel/links';
import { Poll } from './poll';
import { CardParts, scrollToPart, Visibility } from './visibility';
import { askingCell, findCard } from './waiting';

/** Milliseconds between two checks of what is visible, while an approval waits. */
const POLL_MILLISECONDS = 100;

/** Milliseconds between two deliberate presses: a key that is held down decides nothing. */
const PRESS_MILLISECONDS = 400;

/** The oldest approval of the current notebook, and which parts of its card were visible. */
export class Decisions {
  private visibility = new Visibility('');
  private poll = new Poll(() => this.recordVisibility(), POLL_MILLISECONDS);
  private lastPress = -PRESS_MILLISECONDS;

  constructor(
    private tracker: INotebookTracker,
    private links: ILinks
  ) {
    const update = (): void => {
      this.poll.isOn = this.pending !== null;
    };
    links.changed.connect(update);
    tracker.currentChanged.connect(update);
  }

  /** The approval that has waited longest; null without one. */
  get pending(): PendingApproval | null {
    return this.links.of(this.tracker.currentWidget)?.overview?.approvals.at(0) ?? null;
  }

  /** Press the card's button; if parts of the call were not visible yet, scroll to them instead. */
  async press(word: 'approve' | 'deny'): Promise<void> {
    const [last, now] = [this.lastPress, performance.now()];
    this.lastPress = now;
    if (now - last < PRESS_MILLISECONDS) {
      return;
    }
    const card = await this.findCard();
    if (card === null) {
      Notification.warning('The card of this call is not in the notebook, so it cannot be seen.');
      return;
    }
    this.recordVisibility();
    const unseen = this.visibility.firstUnseen(card);
    if (unseen === null) {
      card.form.querySelector<HTMLButtonElement>(`[data-ipyagent="${word}"]`)?.click();
    } else {
      scrollToPart(card, unseen);
      Notification.info(`Read what is asked, then ${word} again.`, { autoClose: 4_000 });
    }
  }

  private recordVisibility(): void {
    const { pending } = this;
    if (pending !== null && pending.approval_id !== this.visibility.approvalId) {
      this.visibility = new Visibility(pending.approval_id);
    }
    const card = findCard(this.tracker.currentWidget, pending);
    if (card !== null) {
      this.visibility.record(card);
    }
  }

  /** Find the card, scrolling to its cell if that is not in the page. */
  private async findCard(): Promise<CardParts | null> {
    const { currentWidget: panel } = this.tracker;
    const cell = askingCell(panel, this.pending);
    if (panel !== null && cell !== null && !cell.node.isConnected) {
      await panel.content.scrollToItem(panel.content.widgets.indexOf(cell));
    }
    return findCard(panel, this.pending);
  }
}
