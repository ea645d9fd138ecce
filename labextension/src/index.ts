/** The plugins of the JupyterLab extension. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { cards } from './lab/cards';
import { completion } from './lab/cells/completion';
import { errors } from './lab/cells/errorActions';
import { prose } from './lab/cells/promptCells';
import { commands } from './lab/commands';
import { links } from './lab/kernel/links';
import { panel } from './lab/panel/plugin';
import { editing } from './lab/proposals/proposals';
import { restore } from './lab/saving/restore';
import { settings } from './lab/settings';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  links,
  settings,
  cards,
  prose,
  completion,
  commands,
  errors,
  editing,
  panel,
  restore
];

export default plugins;
