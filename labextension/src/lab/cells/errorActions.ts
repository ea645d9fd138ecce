/** Buttons below a failed cell that ask the agent to fix or explain the error. */
import { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

import { h } from '../../view/dom';
import type { Links } from '../kernel/links';
import type { Settings } from '../settings';
import { addAgentCell, agentIcon, isPython } from './agentCell';
import { forEachCodeCell, runCurrent } from './cellLocations';
import { Failure, failureOf, fixPrompt, explainPrompt } from './failures';

type Prompt = (failure: Failure) => string;

/** Run an agent cell about a failed cell below it; one about a stranger's output is not run yet. */
async function askAbout(
  panel: NotebookPanel,
  cell: CodeCell,
  links: Links,
  prompt: Prompt
): Promise<void> {
  const failure = failureOf(cell.model);
  if (failure !== null) {
    const index = panel.content.widgets.indexOf(cell);
    const isNew = await addAgentCell(panel, links.of(panel), index, prompt(failure));
    if (isNew && cell.model.trusted) {
      await runCurrent(panel);
    }
  }
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
    if (!isOffered || failureOf(cell.model) === null) {
      row?.dispose();
      rows.set(cell, null);
    } else if (row === null) {
      const drawn = drawRow(prompt => void askAbout(panel, cell, links, prompt));
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

function drawRow(ask: (prompt: Prompt) => void): Widget {
  const make = (name: string, label: string, prompt: Prompt): HTMLElement => {
    const attributes = { type: 'button', class: 'ipyagent-action', 'data-ipyagent': name };
    const button = h('button', attributes, label);
    button.addEventListener('click', () => ask(prompt));
    return button;
  };
  const fix = make('fix', 'Fix with agent', fixPrompt);
  fix.prepend(agentIcon.element({ tag: 'span', className: 'ipyagent-action-icon' }));
  const row = {
    class: 'ipyagent-error-actions',
    role: 'group',
    'aria-label': 'Ask the agent about this error',
    'data-lm-suppress-shortcuts': 'true'
  };
  const node = h('div', row, fix, make('explain', 'Explain', explainPrompt));
  // Otherwise the notebook would select the failed cell again.
  node.addEventListener('dblclick', event => event.stopPropagation());
  return new Widget({ node });
}
