/** The saved run in JupyterLab: plugins only. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { rendererFactory } from './renderer';

/** Ranked before HTML, which is the same run for front ends without this renderer. */
const extension: IRenderMime.IExtension = {
  id: 'ipyagent:run',
  rendererFactory,
  rank: 10,
  dataType: 'json'
};

export default extension;
