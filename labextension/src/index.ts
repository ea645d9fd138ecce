/** The JupyterLab extension. */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ICompletionProviderManager } from '@jupyterlab/completer';
import { ILSPCodeExtractorsManager } from '@jupyterlab/lsp';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ILatexTypesetter } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { watchErrors, watchPrompts } from './lab/agentCells';
import { serveCards } from './lab/cards';
import { addCommands } from './lab/commands';
import { completePrompts } from './lab/completion';
import { Links } from './lab/links';
import { serveNotebooks } from './lab/notebookTools';
import { addPanel } from './lab/panel';
import { withoutPrompts } from './lab/prompts';
import { Restorer, saveLiveRuns } from './lab/restore';
import { Settings } from './lab/settings';
import { host } from './view/host';

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
    IStatusBar,
    ILatexTypesetter
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    completers: ICompletionProviderManager | null,
    extractors: ILSPCodeExtractorsManager | null,
    restorer: ILayoutRestorer | null,
    bar: IStatusBar | null,
    typesetter: ILatexTypesetter | null
  ) => {
    const links = new Links(app, tracker);
    const settings = new Settings(registry, plugin.id);
    serveCards(links);
    host.typeset = typesetter && (formula => typesetter.typeset(formula));
    extractors?.register(withoutPrompts, null);
    links.forEachNotebook(watchPrompts);
    addCommands(links, settings, palette);
    links.forEachNotebook(panel => watchErrors(panel, links, settings));
    serveNotebooks(links);
    const panel = addPanel(links, palette, restorer, bar);
    if (completers !== null) {
      completePrompts(links, completers, settings, panel);
    }
    new Restorer(links);
    saveLiveRuns(links);
  }
};

export default plugin;
