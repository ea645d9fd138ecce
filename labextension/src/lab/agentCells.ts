/** Agent cells: shows them as prose, adds them, also below a cell that failed, and loads ipyagent. */
import { Notification } from '@jupyterlab/apputils';
import { type Cell, CodeCell, type ICodeCellModel } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { LabIcon } from '@jupyterlab/ui-components';
import { PanelLayout, Widget } from '@lumino/widgets';

import { h } from '../view/dom';
import { forEachCodeCell, runCurrent, select } from './cells';
import type { Link, Links } from './links';
import { hasFailed, isPrompt, promptAbout } from './prompts';
import type { Settings } from './settings';

const CLASS = 'ipyagent-cell';

/** Markdown with TeX. */
export const PROMPT_TYPE = 'text/x-ipythongfm';

/** Show the prompts of a notebook as prose, also when their sources change. */
export function watchPrompts(panel: NotebookPanel): void {
  forEachCodeCell(panel, cell => {
    const update = (): void => showAsProse(cell, panel.content);
    // An editor accepts no change while it processes another.
    cell.model.contentChanged.connect(() => queueMicrotask(update));
    // The kernel's language is set on every code cell when it is known.
    cell.model.mimeTypeChanged.connect(update);
    update();
  });
}

function showAsProse(cell: Cell, { codeMimetype, editorConfig }: Notebook): void {
  if (cell.isDisposed) {
    return;
  }
  const prompt = isPrompt(cell.model.sharedModel.getSource());
  if (prompt || cell.hasClass(CLASS)) {
    cell.toggleClass(CLASS, prompt);
    cell.model.mimeType = prompt ? PROMPT_TYPE : codeMimetype;
    const lineWrap = prompt || editorConfig.code.lineWrap === true;
    if (cell.editorConfig.lineWrap !== lineWrap) {
      cell.updateEditorConfig({ lineWrap });
    }
  }
}

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
  select(panel, index);
  await notebook.scrollToItem(index);
  await notebook.activeCell?.ready;
  notebook.mode = 'edit';
  notebook.activate();
  const [, prompt] = source.split('\n');
  notebook.activeCell?.editor?.setCursorPosition({ line: 1, column: prompt.length });
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

const ALREADY = 'This was asked before: the cell below has the answer.';

/**
 * Ask for something about a cell in an agent cell below it. A task that ends in a space is for the
 * user to write on; one about a stranger's output is not run yet.
 */
export async function askAbout(
  panel: NotebookPanel,
  cell: Cell,
  links: Links,
  task: string
): Promise<void> {
  const index = panel.content.widgets.indexOf(cell);
  const { executionCount = null } = cell.model as Partial<ICodeCellModel>;
  const prompt = promptAbout(`${executionCount ?? `#${index}`}`, task);
  const isNew = await addAgentCell(panel, links.of(panel), index, prompt);
  if (task.endsWith(' ')) {
    return;
  }
  if (!isNew) {
    const callback = (): void => void runCurrent(panel);
    const again = { label: 'Ask again', caption: 'Run that cell again', callback };
    Notification.info(ALREADY, { autoClose: 5_000, actions: [again] });
  } else if (cell.model.trusted) {
    await runCurrent(panel);
  }
}

/** Describe the part of a cell that is selected, or all of it. */
export function partOf({ editor }: Cell): string {
  const { start, end } = editor?.getSelection() ?? {};
  if (start === undefined || end === undefined || JSON.stringify(start) === JSON.stringify(end)) {
    return 'this cell';
  }
  const [first, last] = [start.line + 1, end.line + 1].sort((one, other) => one - other);
  return `${first === last ? `line ${first}` : `lines ${first} to ${last}`} of this cell`;
}

/** Offer to ask the agent about the errors in a notebook: below each cell that has one. */
export function watchErrors(panel: NotebookPanel, links: Links, settings: Settings): void {
  const { sessionContext } = panel;
  const rows = new Map<CodeCell, Widget | null>();
  const update = (cell: CodeCell): void => {
    // The layout for the buttons exists once the cell was in view.
    if (cell.isDisposed || cell.isPlaceholder()) {
      return;
    }
    const isOffered = settings.now.errorActions && isPython(panel);
    const row = rows.get(cell) ?? null;
    if (!isOffered || !hasFailed(cell.model)) {
      row?.dispose();
      rows.set(cell, null);
    } else if (row === null) {
      const drawn = drawRow(task => void askAbout(panel, cell, links, task));
      const layout = cell.layout as PanelLayout;
      layout.insertWidget(layout.widgets.length - 1, drawn);
      rows.set(cell, drawn);
    }
  };
  const updateAll = (): void => [...rows.keys()].forEach(update);
  settings.changed.connect(updateAll);
  sessionContext.kernelChanged.connect(updateAll);
  panel.disposed.connect(() => settings.changed.disconnect(updateAll));
  void sessionContext.ready.then(updateAll);
  forEachCodeCell(panel, cell => {
    const updateCell = (): void => update(cell);
    rows.set(cell, null);
    cell.model.outputs.changed.connect(updateCell);
    cell.model.sharedModel.changed.connect(updateCell);
    cell.disposed.connect(() => rows.delete(cell));
    void cell.ready.then(updateCell);
  });
}

function drawRow(ask: (task: string) => void): Widget {
  const make = (name: string, label: string, task: string): HTMLElement => {
    const attributes = { type: 'button', class: 'ipyagent-action', 'data-ipyagent': name };
    const button = h('button', attributes, label);
    button.addEventListener('click', () => ask(task));
    return button;
  };
  const fix = make('fix', 'Fix with agent', 'Fix the error.');
  fix.prepend(agentIcon.element({ tag: 'span', className: 'ipyagent-action-icon' }));
  const row = {
    class: 'ipyagent-error-actions',
    role: 'group',
    'aria-label': 'Ask the agent about this error',
    'data-lm-suppress-shortcuts': 'true'
  };
  const node = h('div', row, fix, make('explain', 'Explain', 'Explain the error.'));
  // Otherwise the notebook would select the failed cell again.
  node.addEventListener('dblclick', event => event.stopPropagation());
  return new Widget({ node });
}
