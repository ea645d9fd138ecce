/** Adds agent cells, and loads ipyagent in the kernel where that is needed. */
import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { LabIcon } from '@jupyterlab/ui-components';

import type { Link } from '../kernel/link';

/** The agent's icon: a spark in a cell. */
export const agentIcon = new LabIcon({
  name: 'ipyagent:agent',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M5 4h7v2H5v13h14v-6h2v6a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z"/>
    <path d="M17 1q.6 5.4 6 6-5.4.6-6 6-.6-5.4-6-6 5.4-.6 6-6z"/>
    <path d="M7 15h7v2H7z"/>
  </g>
</svg>`
});

const EMPTY = '%%agent\n';

/** Leaves no history, and does not abort the cells in the queue. */
const LOAD = {
  code: '%load_ext ipyagent',
  silent: true,
  store_history: false,
  stop_on_error: false,
  allow_stdin: false
};

/** Return whether a notebook's kernel, or without one its metadata, is for Python. */
export function isPython({ sessionContext, model }: NotebookPanel): boolean {
  const kernel = sessionContext.session?.kernel?.name;
  const specs = sessionContext.specsManager.specs?.kernelspecs;
  const language = kernel === undefined ? model?.defaultKernelLanguage : specs?.[kernel]?.language;
  return language?.toLowerCase() === 'python';
}

/**
 * Insert an agent cell below the one at `above`, put the cursor in it, and load ipyagent if needed.
 * An identical cell there is reused: a second click adds no second cell. Return whether it is new.
 */
export async function addAgentCell(
  panel: NotebookPanel,
  link: Link | null,
  above = panel.content.activeCellIndex,
  source = EMPTY
): Promise<boolean> {
  void load(panel, link);
  const notebook = panel.content;
  const index = above + 1;
  const isNew = notebook.model?.sharedModel.cells.at(index)?.getSource() !== source;
  if (isNew) {
    // The user runs it, so its outputs can be trusted.
    const cell = { cell_type: 'code', source, metadata: { trusted: true } };
    notebook.model?.sharedModel.insertCell(index, cell);
  }
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index);
  await notebook.activeCell?.ready;
  notebook.mode = 'edit';
  notebook.activate();
  const lines = source.split('\n');
  const line = Math.min(1, lines.length - 1);
  notebook.activeCell?.editor?.setCursorPosition({ line, column: lines[line].length });
  return isNew;
}

/** Load ipyagent in a kernel that has not said that it is there: before what is executed next. */
export async function load({ sessionContext }: NotebookPanel, link: Link | null): Promise<void> {
  const kernel = sessionContext.session?.kernel;
  if (!kernel || (link?.overview ?? null) !== null) {
    return;
  }
  try {
    const { content } = await kernel.requestExecute(LOAD).done;
    if (content.status === 'error') {
      Notification.error(whyNot(content.ename, content.evalue), { autoClose: false });
    }
  } catch {
    // The kernel was restarted or shut down meanwhile.
  }
}

function whyNot(name: string, message: string): string {
  return name === 'ModuleNotFoundError'
    ? 'ipyagent is not in this kernel: run %pip install ipyagent, then %load_ext ipyagent.'
    : `ipyagent cannot be loaded in this kernel: ${name}: ${message}`;
}
