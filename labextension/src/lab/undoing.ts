/** Runs that are taken back by the button on their card: the card asks, the kernel answers. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { UNDO, UndoRequest } from '../view/undo';
import { ILinks } from './links';

export const undoing: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:undoing',
  description: 'Takes back what a run changed, when its card asks for it.',
  autoStart: true,
  requires: [ILinks],
  activate: (_: JupyterFrontEnd, links: ILinks) => {
    document.addEventListener(UNDO, event => {
      const { target, detail } = event as CustomEvent<UndoRequest>;
      const panel = links.notebooks().find(({ node }) => node.contains(target as Node));
      const link = links.of(panel ?? null);
      if (link?.overview) {
        detail.answer = link.undo(detail.runId, detail.isDry);
      }
    });
  }
};
