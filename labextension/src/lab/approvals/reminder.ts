/** Leads to approvals that wait where nobody sees them. */
import { Notification } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';

import type { Links } from '../kernel/links';
import type { Faces } from './faces';
import { isInSight } from './visibility';
import { describeWaiting, showWaiting, Waiting } from './waiting';

/** Looks before an approval counts as out of sight: its card may still be drawn. */
const LOOKS = 8;

/** Milliseconds for which a toast lies over a small page. */
const BRIEFLY = 5_000;

const INPUTS = ['wheel', 'touchmove', 'pointerdown', 'keydown'];

/**
 * Shows one toast for the approvals that have not been in sight yet. While the user does nothing
 * but run cells and decide, it scrolls to them instead: Run All leaves the view at its last cell.
 */
export class Reminder {
  /** The number of looks at which an approval was out of sight; Infinity once it was seen. */
  private looks = new Map<string, number>();
  private toast: { readonly id: string; readonly text: string } | null = null;
  /** The cells that were run since the user did anything else. */
  private fresh = new Set<string>();

  constructor(
    private links: Links,
    private faces: Faces
  ) {
    faces.looked.connect((_, waiting) => this.update(waiting));
    NotebookActions.executionScheduled.connect((_, { cell }) => this.fresh.add(cell.model.id));
    // Before JupyterLab handles it: a key may run cells.
    INPUTS.forEach(type => window.addEventListener(type, this.onInput, { capture: true }));
  }

  private onInput = (event: Event): void => {
    const isCommand = event instanceof KeyboardEvent && (event.ctrlKey || event.metaKey);
    const { target } = event;
    const isDecision = target instanceof Element && target.closest('[data-approval]') !== null;
    if (!isCommand && !isDecision) {
      this.fresh.clear();
    }
  };

  private update(waiting: readonly Waiting[]): void {
    const keys = waiting.map(({ key }) => key);
    [...this.looks.keys()].filter(key => !keys.includes(key)).forEach(k => this.looks.delete(k));
    if (document.visibilityState === 'visible') {
      this.countLooks(waiting);
    }
    this.remind(waiting);
  }

  private countLooks(waiting: readonly Waiting[]): void {
    waiting.forEach(each => {
      const looks = (this.looks.get(each.key) ?? 0) + 1;
      const isSeen = looks === Infinity || this.faces.list(each).some(isInSight);
      this.looks.set(each.key, isSeen ? Infinity : looks);
    });
    const left = waiting.find(each => this.isOutOfSight(each) && this.isLeftBehind(each));
    if (left !== undefined) {
      this.looks.set(left.key, Infinity);
      void showWaiting(left, this.links);
    }
  }

  /** Show, change or remove the toast; one that the user has closed stays away. */
  private remind(waiting: readonly Waiting[]): void {
    const unseen = waiting.filter(each => this.isOutOfSight(each));
    const [first, ...others] = unseen;
    const more = others.length > 0 ? ` (and ${others.length} more)` : '';
    const text = unseen.length > 0 ? `${describeWaiting(first)}${more}` : null;
    if (text === this.toast?.text) {
      return;
    }
    if (this.toast !== null) {
      Notification.dismiss(this.toast.id);
      this.toast = null;
    }
    if (text !== null) {
      const callback = (): void => void showWaiting(first, this.links);
      const show = { label: 'Show', caption: 'Go to the question', callback };
      const isSmall = window.innerWidth < 700 || window.innerHeight < 500;
      const options = { autoClose: isSmall ? BRIEFLY : (false as const), actions: [show] };
      this.toast = { id: Notification.warning(text, options), text };
    }
  }

  private isOutOfSight({ key }: Waiting): boolean {
    const looks = this.looks.get(key) ?? 0;
    return looks >= LOOKS && looks < Infinity;
  }

  /** Return whether running cells alone has moved the view away from it. */
  private isLeftBehind({ approval, panel }: Waiting): boolean {
    const isHere = panel === this.links.panel && panel.content.mode === 'command';
    const { activeElement } = document;
    const isElsewhere = activeElement !== document.body && !panel.node.contains(activeElement);
    return isHere && !isElsewhere && this.fresh.has(approval.cell_id ?? '');
  }
}
