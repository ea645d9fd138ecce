/** Notifies users of waiting approvals while the page is in the background. */
import type { Links } from '../kernel/links';
import type { Settings } from '../settings';
import { Badge } from './badge';
import { describeWaiting, listWaiting, showWaiting, Waiting } from './waiting';

/** Browsers ask for the permission only after a user's action. */
export const NOTIFY = 'ipyagent:enable-notifications';

/** Shows one notification for each new approval, and closes it with the approval. */
export class Notifier {
  private badge = new Badge();
  private known = new Map<string, Notification | null>();

  constructor(
    private links: Links,
    private settings: Settings
  ) {
    const { commands } = links.app;
    links.changed.connect(() => this.update());
    this.update();
    commands.addCommand(NOTIFY, {
      label: 'Notify me when an approval waits in the background',
      isEnabled: () => permission() === 'default',
      execute: async () => {
        await Notification.requestPermission();
        commands.notifyCommandChanged(NOTIFY);
      }
    });
  }

  private update(): void {
    const waiting = new Map(listWaiting(this.links).map(each => [each.key, each]));
    this.badge.show(waiting.size);
    for (const [key, notification] of this.known) {
      if (!waiting.has(key)) {
        notification?.close();
        this.known.delete(key);
      }
    }
    for (const [key, each] of waiting) {
      if (!this.known.has(key)) {
        const isElsewhere = document.hidden || !document.hasFocus();
        const isWanted = this.settings.now.notify && permission() === 'granted';
        this.known.set(key, isElsewhere && isWanted ? this.notify(each) : null);
      }
    }
  }

  private notify(waiting: Waiting): Notification {
    const tag = `ipyagent ${waiting.key}`;
    const notification = new Notification(describeWaiting(waiting), { tag });
    notification.onclick = () => {
      window.focus();
      notification.close();
      void showWaiting(waiting, this.links);
    };
    return notification;
  }
}

function permission(): NotificationPermission {
  return 'Notification' in window ? Notification.permission : 'denied';
}
