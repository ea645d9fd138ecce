/** Notifies users of waiting approvals while the page is in the background. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { approvalKey } from '../../model';
import type { PendingApproval } from '../../protocol';
import { revealText } from '../../view/reveal';
import { goTo, placeOf } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import { ILinks } from '../kernel/links';
import { ISettings } from '../settings';
import { Badge } from './badge';

/** Browsers ask for the permission only after a user's action. */
export const NOTIFY = 'ipyagent:enable-notifications';

/** Maximal length of the call's description in a notification. */
const ABOUT = 80;

/** An approval that waits in an open notebook. */
interface Waiting {
  readonly approval: PendingApproval;
  readonly link: Link;
  readonly panel: NotebookPanel;
}

/** Shows one notification for each new approval, and closes it with the approval. */
class Notifier {
  private badge = new Badge();
  private known = new Map<string, Notification | null>();

  constructor(
    private app: JupyterFrontEnd,
    private links: ILinks,
    private settings: ISettings
  ) {
    links.changed.connect(() => this.update());
    this.update();
  }

  private update(): void {
    const waiting = new Map(this.listWaiting().map(each => [approvalKey(each.approval), each]));
    this.badge.show(waiting.size);
    for (const [key, notification] of this.known) {
      if (!waiting.has(key)) {
        notification?.close();
        this.known.delete(key);
      }
    }
    for (const [key, each] of waiting) {
      if (!this.known.has(key)) {
        const isWanted = this.settings.now.notify && isElsewhere() && permission() === 'granted';
        this.known.set(key, isWanted ? this.notify(key, each) : null);
      }
    }
  }

  /**
   * Name only the tool and the notebook: arguments may be secret, and others may see notifications.
   */
  private notify(key: string, { approval, link, panel }: Waiting): Notification {
    const what = revealText(approval.about).slice(0, ABOUT);
    const title = `ipyagent asks: ${what} in ${panel.title.label}`;
    const notification = new Notification(title, { tag: `ipyagent ${key}` });
    notification.onclick = () => {
      window.focus();
      notification.close();
      const place = placeOf(approval.cell_id, this.links.notebooks(link));
      if (place !== null) {
        void goTo(place, this.app);
      }
    };
    return notification;
  }

  /** List each kernel's approvals once, with the notebook that asks. */
  private listWaiting(): Waiting[] {
    return this.links.all.flatMap(link => {
      const panels = this.links.notebooks(link);
      return (link.overview?.approvals ?? []).map(approval => ({
        approval,
        link,
        panel: placeOf(approval.cell_id, panels)?.panel ?? panels[0]
      }));
    });
  }
}

function isElsewhere(): boolean {
  return document.hidden || !document.hasFocus();
}

function permission(): NotificationPermission {
  return 'Notification' in window ? Notification.permission : 'denied';
}

export const notify: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:notify',
  description: 'Notifies of approvals that wait while the page is in the background.',
  autoStart: true,
  requires: [ILinks, ISettings],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    links: ILinks,
    settings: ISettings,
    palette: ICommandPalette | null
  ) => {
    new Notifier(app, links, settings);
    app.commands.addCommand(NOTIFY, {
      label: 'Notify me when an approval waits in the background',
      isEnabled: () => permission() === 'default',
      execute: async () => {
        await Notification.requestPermission();
        app.commands.notifyCommandChanged(NOTIFY);
      }
    });
    palette?.addItem({ command: NOTIFY, category: 'ipyagent' });
  }
};
