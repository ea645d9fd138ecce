/** Buttons below a failed cell that ask the agent to fix or explain the error. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { PanelLayout, Widget } from '@lumino/widgets';

import { h } from '../../view/dom';
import { ILinks } from '../kernel/links';
import { ISettings } from '../settings';
import { addAgentCell, agentIcon, isPython } from './agentCell';
import { runCurrent } from './cellLocations';
import { Failure, failureOf, fixPrompt, explainPrompt } from './failures';

type Prompt = (failure: Failure) => string;

/** Run an agent cell about a failed cell below it; one about a stranger's output is not run yet. */
export async function askAbout(
  panel: NotebookPanel,
  cell: CodeCell,
  links: ILinks,
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

/** Shows the buttons of one cell while it has an error. */
class CellErrors {
  private row: Widget | null = null;
  /** The layout for the buttons exists once the cell was in view. */
  private isDrawn = false;

  constructor(
    private cell: CodeCell,
    private isOffered: () => boolean,
    private ask: (cell: CodeCell, prompt: Prompt) => void
  ) {
    const { outputs, sharedModel } = cell.model;
    const update = (): void => this.update();
    outputs.changed.connect(update);
    sharedModel.changed.connect(update);
    cell.disposed.connect(() => {
      outputs.changed.disconnect(update);
      sharedModel.changed.disconnect(update);
    });
    void cell.ready.then(() => {
      this.isDrawn = true;
      update();
    });
  }

  update(): void {
    const { cell } = this;
    if (cell.isDisposed || !this.isDrawn) {
      return;
    }
    const isWanted = this.isOffered() && failureOf(cell.model) !== null;
    if (isWanted && this.row === null) {
      this.row = this.draw();
      const layout = cell.layout as PanelLayout;
      layout.insertWidget(layout.widgets.length - 1, this.row);
    } else if (!isWanted) {
      this.row?.dispose();
      this.row = null;
    }
  }

  private draw(): Widget {
    const fix = this.button('fix', 'Fix with agent', fixPrompt);
    fix.prepend(agentIcon.element({ tag: 'span', className: 'ipyagent-action-icon' }));
    const row = {
      class: 'ipyagent-error-actions',
      role: 'group',
      'aria-label': 'Ask the agent about this error',
      'data-lm-suppress-shortcuts': 'true'
    };
    const node = h('div', row, fix, this.button('explain', 'Explain', explainPrompt));
    // Otherwise the notebook would select the failed cell again.
    node.addEventListener('dblclick', event => event.stopPropagation());
    return new Widget({ node });
  }

  private button(name: string, label: string, prompt: Prompt): HTMLElement {
    const attributes = { type: 'button', class: 'ipyagent-action', 'data-ipyagent': name };
    const button = h('button', attributes, label);
    button.addEventListener('click', () => this.ask(this.cell, prompt));
    return button;
  }
}

/** The failed cells of one notebook. */
class NotebookErrors {
  private cells = new Map<CodeCell, CellErrors>();

  constructor(
    private panel: NotebookPanel,
    private links: ILinks,
    private settings: ISettings
  ) {
    const { content, sessionContext } = panel;
    const update = (): void => this.update();
    const watch = (): void => this.watch();
    settings.changed.connect(update);
    sessionContext.kernelChanged.connect(update);
    panel.disposed.connect(() => settings.changed.disconnect(update));
    content.modelChanged.connect(watch);
    void panel.context.ready.then(() => content.model?.cells.changed.connect(watch)).then(watch);
    void sessionContext.ready.then(update);
  }

  private watch(): void {
    const isOffered = (): boolean => this.settings.now.errorActions && isPython(this.panel);
    const ask = (cell: CodeCell, prompt: Prompt): void =>
      void askAbout(this.panel, cell, this.links, prompt);
    for (const cell of this.panel.content.widgets) {
      if (cell instanceof CodeCell && !this.cells.has(cell)) {
        this.cells.set(cell, new CellErrors(cell, isOffered, ask));
        cell.disposed.connect(() => this.cells.delete(cell));
      }
    }
  }

  private update(): void {
    this.cells.forEach(cell => cell.update());
  }
}

export const errors: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:errors',
  description: 'Offers to ask the agent about an error.',
  autoStart: true,
  requires: [INotebookTracker, ILinks, ISettings],
  activate: (_, tracker: INotebookTracker, links: ILinks, settings: ISettings) => {
    const watch = (panel: NotebookPanel): NotebookErrors =>
      new NotebookErrors(panel, links, settings);
    tracker.forEach(watch);
    tracker.widgetAdded.connect((_, panel) => watch(panel));
  }
};
