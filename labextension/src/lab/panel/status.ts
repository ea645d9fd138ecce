/** Shows the current notebook's newest run in the status bar. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { h, setText } from '../../view/dom';
import { revealText } from '../../view/reveal';
import { listWaiting, PANEL, showWaiting } from '../approvals/waiting';
import type { ILinks } from '../kernel/links';
import { countWaiting } from './approvals';
import type { CurrentNotebook } from './currentNotebook';

/** Add a button with one line of text to the status bar. */
export function addStatus(
  bar: IStatusBar,
  app: JupyterFrontEnd,
  links: ILinks,
  current: CurrentNotebook
): void {
  const line = h('button', { type: 'button', class: 'ipyagent-status' });
  const item = new Widget();
  item.node.dataset.ipyagent = 'status';
  item.node.append(line);
  line.addEventListener('click', () => {
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
      const isWaiting = countWaiting(overview) > 0;
      setText(line, revealText(overview.status));
      line.title = isWaiting ? 'Go to the question' : 'Show the panel';
      line.classList.toggle('ipyagent-waiting', isWaiting);
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
