/** Buttons below a failed cell that ask the agent to fix or explain the error. */
import { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

import { h } from '../../view/dom';
import type { Links } from '../kernel/links';
import type { Settings } from '../settings';
import { addAgentCell, agentIcon, isPython } from './agentCell';
import { runCurrent, watchCells } from './cellLocations';
import { Failure, failureOf, fixPrompt, explainPrompt } from './failures';

type Prompt = (failure: Failure) => string;

/** Run an agent cell about a failed cell below it; one about a stranger's output is not run yet. */
export async function askAbout(
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

/** Show the buttons of a cell while it has an error; return a function that updates them. */
function watchCell(
  cell: CodeCell,
  isOffered: () => boolean,
  ask: (prompt: Prompt) => void
): () => void {
  let row: Widget | null = null;
  const update = (): void => {
    // The layout for the buttons exists once the cell was in view.
    if (cell.isDisposed || cell.isPlaceholder()) {
      return;
    }
    const isWanted = isOffered() && failureOf(cell.model) !== null;
    if (isWanted && row === null) {
      row = drawRow(ask);
      const layout = cell.layout as PanelLayout;
      layout.insertWidget(layout.widgets.length - 1, row);
    } else if (!isWanted) {
      row?.dispose();
      row = null;
    }
  };
  const { outputs, sharedModel } = cell.model;
  outputs.changed.connect(update);
  sharedModel.changed.connect(update);
  cell.disposed.connect(() => {
    outputs.changed.disconnect(update);
    sharedModel.changed.disconnect(update);
  });
  void cell.ready.then(update);
  return update;
}

function drawRow(ask: (prompt: Prompt) => void): Widget {
  const [fix, explain] = (
    [
      ['fix', 'Fix with agent', fixPrompt],
      ['explain', 'Explain', explainPrompt]
    ] as const
  ).map(([name, label, prompt]) => {
    const attributes = { type: 'button', class: 'ipyagent-action', 'data-ipyagent': name };
    const button = h('button', attributes, label);
    button.addEventListener('click', () => ask(prompt));
    return button;
  });
  fix.prepend(agentIcon.element({ tag: 'span', className: 'ipyagent-action-icon' }));
  const row = {
    class: 'ipyagent-error-actions',
    role: 'group',
    'aria-label': 'Ask the agent about this error',
    'data-lm-suppress-shortcuts': 'true'
  };
  const node = h('div', row, fix, explain);
  // Otherwise the notebook would select the failed cell again.
  node.addEventListener('dblclick', event => event.stopPropagation());
  return new Widget({ node });
}

/** Offer to ask the agent about the errors in a notebook. */
export function watchErrors(panel: NotebookPanel, links: Links, settings: Settings): void {
  const { content, sessionContext } = panel;
  const updates = new Map<CodeCell, () => void>();
  const update = (): void => updates.forEach(each => each());
  const isOffered = (): boolean => settings.now.errorActions && isPython(panel);
  settings.changed.connect(update);
  sessionContext.kernelChanged.connect(update);
  panel.disposed.connect(() => settings.changed.disconnect(update));
  watchCells(panel, () => {
    for (const cell of content.widgets) {
      if (cell instanceof CodeCell && !updates.has(cell)) {
        const ask = (prompt: Prompt): void => void askAbout(panel, cell, links, prompt);
        updates.set(cell, watchCell(cell, isOffered, ask));
        cell.disposed.connect(() => updates.delete(cell));
      }
    }
  });
  void sessionContext.ready.then(update);
}
