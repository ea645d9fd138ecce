/** Shows the current notebook's newest run in the status bar. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { h, setText } from '../../view/dom';
import { revealText } from '../../view/reveal';
import { listWaiting, PANEL, showWaiting } from '../approvals/waiting';
import { ILinks } from '../kernel/links';
import { countWaiting } from './approvals';
import { CurrentNotebook } from './currentNotebook';

/** A button with one line of text. */
class Status extends Widget {
  private line = h('button', { type: 'button', class: 'ipyagent-status' });

  constructor(press: () => void) {
    super();
    this.node.dataset.ipyagent = 'status';
    this.line.addEventListener('click', press);
    this.node.append(this.line);
  }

  showText(text: string, isWaiting: boolean): void {
    setText(this.line, text);
    this.line.title = isWaiting ? 'Go to the question' : 'Show the panel';
    this.line.classList.toggle('ipyagent-waiting', isWaiting);
  }
}

export const status: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:status',
  description: 'Shows the state of the agent in the status bar.',
  autoStart: true,
  requires: [INotebookTracker, ILinks],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    links: ILinks,
    bar: IStatusBar | null
  ) => {
    if (bar === null) {
      return;
    }
    const current = new CurrentNotebook(tracker, links);
    const item = new Status(() => {
      const { link } = current;
      const waiting = listWaiting(links, link === null ? [] : [link]).at(0);
      if (waiting === undefined) {
        app.shell.activateById(PANEL);
      } else {
        void showWaiting(waiting, app);
      }
    });
    const show = (): void => {
      const { overview } = current;
      if (overview !== null) {
        item.showText(revealText(overview.status), countWaiting(overview) > 0);
      }
    };
    // Connected first: the status bar then asks whether the item is active.
    current.changed.connect(show);
    bar.registerStatusItem('ipyagent:status', {
      item,
      align: 'right',
      rank: 900,
      isActive: () => current.overview !== null,
      activeStateChanged: current.changed
    });
    show();
  }
};
