/** The JupyterLab extension: plugins only. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { commands } from './lab/commands';
import { completion } from './lab/completion';
import { editing } from './lab/editing';
import { errors } from './lab/errors';
import { focus } from './lab/focus';
import { saveLiveRuns } from './lab/saveLiveRuns';
import { links } from './lab/links';
import { notify } from './lab/notify';
import { panel } from './lab/panel';
import { prose } from './lab/prose';
import { provideWidget } from './lab/provideWidget';
import { restore } from './lab/restore';
import { settings } from './lab/settings';
import { status } from './lab/status';
import { undoing } from './lab/undoing';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  provideWidget,
  links,
  settings,
  prose,
  completion,
  commands,
  errors,
  editing,
  undoing,
  panel,
  status,
  notify,
  restore,
  saveLiveRuns,
  focus
];

export default plugins;
