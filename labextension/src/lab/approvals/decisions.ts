/** Approves and denies by shortcut: presses the buttons of a face that are on screen. */
import type { PendingApproval } from '../../protocol';
import { placeOf, uncover } from '../cells/cellLocations';
import type { Links } from '../kernel/links';
import type { Faces } from './faces';
import { areAllButtonsInSight, Face, scrollToFace } from './visibility';
import { oldestWaiting, PANEL, showWaiting, Waiting } from './waiting';

/** Milliseconds between two deliberate presses: a key that is held down decides nothing. */
const PRESS_MILLISECONDS = 400;

/** Decides on the oldest approval of the current notebook. */
export class Decisions {
  private lastPress = -PRESS_MILLISECONDS;

  constructor(
    private links: Links,
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
    const { oldest } = this;
    const face = await this.findFace();
    if (face === null) {
      await (oldest && this.lead(oldest));
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
    return oldestWaiting(this.links);
  }

  private get face(): Face | null {
    return this.oldest && this.faces.choiceOf(this.oldest);
  }

  /** Find the face with the buttons, uncovering the cell that asks if none is displayed. */
  private async findFace(): Promise<Face | null> {
    const { oldest } = this;
    const place = oldest && placeOf(oldest.approval.cell_id, [oldest.panel]);
    this.faces.chooseFaces();
    if (this.face === null && place !== null) {
      await uncover(place);
      this.faces.chooseFaces();
    }
    return this.face;
  }

  /** Show a question without a face in the current notebook: in another one, or in the panel. */
  private async lead(waiting: Waiting): Promise<void> {
    await showWaiting(waiting, this.links);
    this.faces.chooseFaces();
    if (this.faces.choiceOf(waiting) === null) {
      this.links.app.shell.activateById(PANEL);
    }
  }
}
