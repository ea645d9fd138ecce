/** Tells a person who looks elsewhere that an approval waits. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { Badge } from './badge';
import { goTo, notebooksOf, placeOf } from './places';
import { ISettings } from './settings';
import type { Link } from './link';
import { ILinks } from './links';
import type { PendingApproval } from './messages';

/** Browsers ask for the permission only when a person did something. */
export const NOTIFY = 'ipyagent:enable-notifications';

/** Characters of a tool's name that a notification has. */
const NAME = 80;

/** An approval that waits in an open notebook. */
interface Waiting {
  readonly approval: PendingApproval;
  readonly link: Link;
  readonly panel: NotebookPanel;
}

/** One notification for each approval that begins to wait; it goes when the approval does. */
class Notifier {
  private badge = new Badge();
  private known = new Map<string, Notification | null>();

  constructor(
    private app: JupyterFrontEnd,
    private tracker: INotebookTracker,
    private links: ILinks,
    private settings: ISettings
  ) {
    links.changed.connect(() => this.look());
    this.look();
  }

  private look(): void {
    const waiting = new Map(this.waiting().map(each => [keyOf(each.approval), each]));
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
        this.known.set(key, isWanted ? this.tell(key, each) : null);
      }
    }
  }

  /** Only which tool and where: arguments may be secret, and notifications are seen by others. */
  private tell(key: string, { approval, link, panel }: Waiting): Notification {
    const title = `ipyagent asks: ${whatOf(approval)} in ${panel.title.label}`;
    const notification = new Notification(title, { tag: key });
    notification.onclick = () => {
      window.focus();
      notification.close();
      const place = placeOf(approval.cell_id, notebooksOf(link, this.links, this.tracker));
      if (place !== null) {
        void goTo(place, this.app);
      }
    };
    return notification;
  }

  /** Of each kernel once, named after the notebook that asks. */
  private waiting(): Waiting[] {
    const links = new Set<Link>();
    this.tracker.forEach(panel => {
      const link = this.links.of(panel);
      if (link !== null) {
        links.add(link);
      }
    });
    return [...links].flatMap(link => {
      const panels = notebooksOf(link, this.links, this.tracker);
      return (link.overview?.approvals ?? []).map(approval => ({
        approval,
        link,
        panel: placeOf(approval.cell_id, panels)?.panel ?? panels[0]
      }));
    });
  }
}

/** Approvals are numbered anew in every kernel; runs are not. */
function keyOf({ run_id, approval_id }: PendingApproval): string {
  return `ipyagent ${run_id} ${approval_id}`;
}

function whatOf({ execution }: PendingApproval): string {
  if (execution === null) {
    return 'a plan';
  }
  return execution.question === null ? execution.call.name.slice(0, NAME) : 'a question';
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
  requires: [INotebookTracker, ILinks, ISettings],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    links: ILinks,
    settings: ISettings,
    palette: ICommandPalette | null
  ) => {
    new Notifier(app, tracker, links, settings);
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
