/** Reminds users of approvals that wait out of sight: by a toast, or by a notification. */
import { Notification as Toast } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';

import {
  describeWaiting,
  describeWithPrompt,
  type QuestionCards,
  listWaiting,
  PANEL,
  showWaiting,
  Waiting
} from './approvals';
import { Badge } from './badge';
import type { Links } from './links';
import { isInSight } from './questionCard';
import type { Settings } from './settings';

/** Browsers ask for the permission only after a user's action. */
export const NOTIFY = 'ipyagent:enable-notifications';

/** Show one notification for each new approval, and close it with the approval. */
export function serveNotifications(links: Links, settings: Settings): void {
  const { commands } = links.app;
  const badge = new Badge();
  const known = new Map<string, Notification | null>();
  const update = (): void => {
    const waiting = new Map(listWaiting(links).map(each => [each.key, each]));
    badge.show(waiting.size);
    for (const [key, notification] of known) {
      if (!waiting.has(key)) {
        notification?.close();
        known.delete(key);
      }
    }
    for (const [key, each] of waiting) {
      if (!known.has(key)) {
        const isElsewhere = document.hidden || !document.hasFocus();
        const isWanted = settings.now.notify && permission() === 'granted';
        known.set(key, isElsewhere && isWanted ? notify(each, links) : null);
      }
    }
  };
  links.changed.connect(update);
  update();
  commands.addCommand(NOTIFY, {
    label: 'Notify me when an approval waits in the background',
    isEnabled: () => permission() === 'default',
    execute: async () => {
      await Notification.requestPermission();
      commands.notifyCommandChanged(NOTIFY);
    }
  });
}

function notify(waiting: Waiting, links: Links): Notification {
  const tag = `ipyagent ${waiting.key}`;
  const notification = new Notification(describeWaiting(waiting), { tag });
  notification.onclick = () => {
    window.focus();
    notification.close();
    void showWaiting(waiting, links);
  };
  return notification;
}

function permission(): NotificationPermission {
  return 'Notification' in window ? Notification.permission : 'denied';
}

/** Checks before an approval counts as out of sight: its card may still be drawn. */
const CHECKS = 8;

/** Milliseconds for which a toast lies over a small page. */
const BRIEFLY = 5_000;

const INPUTS = ['wheel', 'touchmove', 'pointerdown', 'keydown'];

/**
 * Shows one toast for the approvals that have not been in sight yet. While the user does nothing
 * but run cells and decide, it scrolls to them instead: Run All leaves the view at its last cell.
 */
export class Reminder {
  /** The number of checks at which an approval was out of sight; Infinity once it was seen. */
  private checks = new Map<string, number>();
  private toast: { readonly id: string; readonly text: string } | null = null;
  /** The cells that were run since the user did anything else. */
  private fresh = new Set<string>();

  constructor(
    private links: Links,
    private cards: QuestionCards
  ) {
    cards.checked.connect((_, waiting) => this.update(waiting));
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
    [...this.checks.keys()].filter(key => !keys.includes(key)).forEach(k => this.checks.delete(k));
    if (document.visibilityState === 'visible') {
      this.countChecks(waiting);
    }
    this.remind(waiting);
  }

  private countChecks(waiting: readonly Waiting[]): void {
    waiting.forEach(each => {
      const checks = (this.checks.get(each.key) ?? 0) + 1;
      const isSeen = isListed(each, this.links) || this.cards.list(each).some(isInSight);
      this.checks.set(each.key, isSeen ? Infinity : checks);
    });
    const left = waiting.find(each => this.isOutOfSight(each) && this.isLeftBehind(each));
    if (left !== undefined) {
      this.checks.set(left.key, Infinity);
      void showWaiting(left, this.links);
    }
  }

  /** Show, change or remove the toast; one that the user has closed stays away. */
  private remind(waiting: readonly Waiting[]): void {
    const unseen = waiting.filter(each => this.isOutOfSight(each));
    const [first, ...others] = unseen;
    const more = others.length > 0 ? ` (and ${others.length} more)` : '';
    const text = unseen.length > 0 ? `${describeWithPrompt(first)}${more}` : null;
    if (text === this.toast?.text) {
      return;
    }
    if (this.toast !== null) {
      Toast.dismiss(this.toast.id);
      this.toast = null;
    }
    if (text !== null) {
      const callback = (): void => void showWaiting(first, this.links);
      const show = { label: 'Show', caption: 'Go to the question', callback };
      const isSmall = window.innerWidth < 700 || window.innerHeight < 500;
      const options = { autoClose: isSmall ? BRIEFLY : (false as const), actions: [show] };
      this.toast = { id: Toast.warning(text, options), text };
    }
  }

  private isOutOfSight({ key }: Waiting): boolean {
    const checks = this.checks.get(key) ?? 0;
    return checks >= CHECKS && checks < Infinity;
  }

  /** Return whether running cells alone has moved the view away from it. */
  private isLeftBehind({ approval, panel }: Waiting): boolean {
    const isHere = panel === this.links.panel && panel.content.mode === 'command';
    const { activeElement } = document;
    const isElsewhere = activeElement !== document.body && !panel.node.contains(activeElement);
    return isHere && !isElsewhere && this.fresh.has(approval.cell_id ?? '');
  }
}

/** Return whether the panel lists an approval, and that is in sight. */
function isListed({ link }: Waiting, links: Links): boolean {
  const rows = document.querySelector<HTMLElement>(`#${PANEL} .ia-section-asked > .ia-rows`);
  return link === links.current && rows !== null && isInSight(rows);
}
