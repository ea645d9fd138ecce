/** The JupyterLab extension. */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { ILSPCodeExtractorsManager } from '@jupyterlab/lsp';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { serveCards } from './lab/cards';
import { completePrompts } from './lab/cells/completion';
import { watchErrors } from './lab/cells/errorActions';
import { watchPrompts } from './lab/cells/promptCells';
import { withoutPrompts } from './lab/cells/prompts';
import { addCommands } from './lab/commands';
import { Links } from './lab/kernel/links';
import { addPanel } from './lab/panel/plugin';
import { serveNotebooks } from './lab/proposals/proposals';
import { Restorer } from './lab/saving/restore';
import { LiveRunSaver } from './lab/saving/saveLiveRuns';
import { Settings } from './lab/settings';

const plugin: JupyterFrontEndPlugin<void> = {
  // The same as in schema/settings.json.
  id: 'ipyagent:settings',
  description: 'An agent in the kernel of a notebook: its cells, cards, commands and panel.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [
    ISettingRegistry,
    ICommandPalette,
    ICompletionProviderManager,
    ILSPCodeExtractorsManager,
    ILayoutRestorer,
    IStatusBar
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    completers: ICompletionProviderManager | null,
    extractors: ILSPCodeExtractorsManager | null,
    restorer: ILayoutRestorer | null,
    bar: IStatusBar | null
  ) => {
    const links = new Links(app, tracker);
    const settings = new Settings(registry, plugin.id);
    serveCards(links);
    extractors?.register(withoutPrompts, null);
    links.forEachNotebook(watchPrompts);
    if (completers !== null) {
      completePrompts(links, completers, settings);
    }
    addCommands(links, settings, palette);
    links.forEachNotebook(panel => watchErrors(panel, links, settings));
    serveNotebooks(links);
    addPanel(links, palette, restorer, bar);
    new Restorer(links);
    new LiveRunSaver(links);
  }
};

export default plugin;
