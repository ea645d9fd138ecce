/** Approves and denies by shortcut: presses the buttons of a face that are on screen. */
import { Notification } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';

import type { PendingApproval } from '../../protocol';
import type { ILinks } from '../kernel/links';
import type { Faces } from './faces';
import { areAllButtonsInSight, Face, scrollToFace } from './visibility';
import { listWaiting, Waiting } from './waiting';

/** Milliseconds between two deliberate presses: a key that is held down decides nothing. */
const PRESS_MILLISECONDS = 400;

/** Decides on the oldest approval of the current notebook. */
export class Decisions {
  private lastPress = -PRESS_MILLISECONDS;

  constructor(
    private tracker: INotebookTracker,
    private links: ILinks,
    private faces: Faces
  ) {}

  /** The approval that has waited longest; null without one. */
  get pending(): PendingApproval | null {
    return this.oldest?.approval ?? null;
  }

  /** Press the button, which guards itself; if it is not on screen, scroll there instead. */
  async press(word: 'approve' | 'deny'): Promise<void> {
    const [last, now] = [this.lastPress, performance.now()];
    this.lastPress = now;
    if (now - last < PRESS_MILLISECONDS) {
      return;
    }
    const face = await this.findFace();
    if (face === null) {
      Notification.warning('The card of this call is not in the notebook, so it cannot be seen.');
    } else if (areAllButtonsInSight(face)) {
      face.form.querySelector<HTMLButtonElement>(`[data-ipyagent="${word}"]`)?.click();
    } else {
      // A toast might cover the call.
      const status = face.form.querySelector('.ipyagent-sent');
      status?.replaceChildren(`Read it, then ${word} again.`);
      scrollToFace(face);
    }
  }

  private get oldest(): Waiting | null {
    const link = this.links.of(this.tracker.currentWidget);
    return listWaiting(this.links, link === null ? [] : [link]).at(0) ?? null;
  }

  private get face(): Face | null {
    return this.oldest && this.faces.choiceOf(this.oldest);
  }

  /** Find the face with the buttons, scrolling to the cell that asks if none is displayed. */
  private async findFace(): Promise<Face | null> {
    const content = this.tracker.currentWidget?.content;
    const cellId = this.pending?.cell_id;
    const index = content?.widgets.findIndex(({ model }) => model.id === cellId) ?? -1;
    if (this.face === null && index >= 0) {
      await content?.scrollToItem(index);
      this.faces.chooseFaces();
    }
    return this.face;
  }
}
