/** Shows the current notebook's newest run in the status bar. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { h, setText } from '../../view/dom';
import { revealText } from '../../view/reveal';
import { ILinks } from '../kernel/links';
import { CurrentNotebook } from './currentNotebook';
import { PANEL } from './plugin';

/** A button with one line of text. */
class Status extends Widget {
  private line = h('button', { type: 'button', class: 'ipyagent-status', title: 'Show the panel' });

  constructor(press: () => void) {
    super();
    this.node.dataset.ipyagent = 'status';
    this.line.addEventListener('click', press);
    this.node.append(this.line);
  }

  setText(text: string): void {
    setText(this.line, text);
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
    const item = new Status(() => app.shell.activateById(PANEL));
    const show = (): void => {
      const { overview } = current;
      if (overview !== null) {
        item.setText(revealText(overview.status));
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
