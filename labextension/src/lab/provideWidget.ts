/** Provides the module that draws cards, so that no kernel of the same version has to send it. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { WIDGET_HASH } from '../widgetHash';
import { widgetModules } from '../widgetModules';

export const provideWidget: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:widget',
  description: 'Draws the cards of runs that are on.',
  autoStart: true,
  activate: () => {
    widgetModules().set(WIDGET_HASH, async () => (await import('../widget')).default);
  }
};
