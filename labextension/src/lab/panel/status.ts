/** Shows the current notebook's newest run in the status bar. */
import type { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { h, setText } from '../../view/dom';
import { revealText } from '../../view/reveal';
import { oldestWaiting, PANEL, showWaiting } from '../approvals/waiting';
import type { Links } from '../kernel/links';
import { countWaiting } from './approvals';

/** Add a button with one line of text to the status bar. */
export function addStatus(bar: IStatusBar, links: Links): void {
  const line = h('button', { type: 'button', class: 'ipyagent-status' });
  const item = new Widget();
  item.node.dataset.ipyagent = 'status';
  item.node.append(line);
  line.addEventListener('click', () => {
    const waiting = oldestWaiting(links);
    if (waiting === null) {
      links.app.shell.activateById(PANEL);
    } else {
      void showWaiting(waiting, links);
    }
  });
  const show = (): void => {
    const overview = links.current?.overview ?? null;
    if (overview !== null) {
      const isWaiting = countWaiting(overview) > 0;
      setText(line, revealText(overview.status));
      line.title = isWaiting ? 'Go to the question' : 'Show the panel';
      line.classList.toggle('ipyagent-waiting', isWaiting);
    }
  };
  // Connected first: the status bar then asks whether the item is active.
  links.changed.connect(show);
  bar.registerStatusItem('ipyagent:status', {
    item,
    align: 'right',
    rank: 900,
    isActive: () => (links.current?.overview ?? null) !== null,
    activeStateChanged: links.changed
  });
  show();
}
