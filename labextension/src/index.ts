/** The plugins of the JupyterLab extension. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { faces } from './lab/approvals/faces';
import { notify } from './lab/approvals/notify';
import { remind } from './lab/approvals/reminder';
import { focus, provideWidget, requests } from './lab/cards';
import { completion } from './lab/cells/completion';
import { errors } from './lab/cells/errorActions';
import { toCells } from './lab/cells/insertBelow';
import { prose } from './lab/cells/promptCells';
import { commands } from './lab/commands';
import { links } from './lab/kernel/links';
import { panel } from './lab/panel/plugin';
import { status } from './lab/panel/status';
import { editing } from './lab/proposals/proposals';
import { restore } from './lab/saving/restore';
import { saveLiveRuns } from './lab/saving/saveLiveRuns';
import { settings } from './lab/settings';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  provideWidget,
  links,
  settings,
  prose,
  completion,
  commands,
  errors,
  editing,
  requests,
  toCells,
  panel,
  status,
  faces,
  notify,
  remind,
  restore,
  saveLiveRuns,
  focus
];

export default plugins;
