/** The person's notebooks as the agent sees and changes them. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { Documents } from './document';
import { Inserted } from './inserted';
import { ILinks } from './links';
import { Proposals } from './proposals';

export const editing: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:editing',
  description: 'Lets tools change open notebooks, and shows changes that wait for a decision.',
  autoStart: true,
  requires: [INotebookTracker, ILinks],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker, links: ILinks) => {
    const { contents } = app.serviceManager;
    const inserted = new Inserted();
    new Documents(links, inserted);
    new Proposals(tracker, links, inserted, (notebook, path) =>
      contents.resolvePath(`${notebook}/..`, path)
    );
  }
};
