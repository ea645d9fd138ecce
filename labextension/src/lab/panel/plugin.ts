/** The side panel of the current notebook. */
import type { ILayoutRestorer } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';
import type { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import { PANEL } from '../approvals/waiting';
import { agentIcon } from '../cells/agentCell';
import { watchCells } from '../cells/cellLocations';
import type { Links } from '../kernel/links';
import { countWaiting } from './approvals';
import { Controller } from './controller';
import { addStatus } from './status';
import { PanelView } from './view';

const SHOW = 'ipyagent:show-panel';
const CAPTION = 'Agent: runs, approvals and sessions';

/** The panel's widget, updated while visible. */
class Panel extends Widget {
  private controller: Controller;
  private view: PanelView;

  constructor(links: Links) {
    super();
    this.id = PANEL;
    this.title.icon = agentIcon;
    this.title.className = 'ipyagent-tab';
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'ipyagent');
    this.controller = new Controller(links);
    this.view = new PanelView(this.controller);
    this.node.append(this.view.element);
    const update = (): void => this.update();
    links.forEachNotebook(panel => watchCells(panel, update));
    links.app.commands.commandChanged.connect(update);
    links.changed.connect(update);
    links.changed.connect(() => this.propose(false));
    NotebookActions.executed.connect(() => this.propose(true));
    links.changed.connect(() => this.showCount());
    this.showCount();
  }

  /** Show on the side bar how many questions wait. */
  private showCount(): void {
    const { overview, isReachable } = this.controller.state();
    const count = overview !== null && isReachable ? countWaiting(overview) : 0;
    const { dataset } = this.title;
    this.title.dataset = { ...dataset, waiting: count > 0 ? `${count}` : '' };
    this.title.caption = count > 0 ? `${CAPTION} (${count} waiting for you)` : CAPTION;
  }

  protected onActivateRequest(): void {
    this.node.focus();
  }

  protected onAfterShow(): void {
    this.update();
    this.propose(true);
  }

  private propose(again: boolean): void {
    if (this.isVisible) {
      void this.controller.propose(again, () => this.update());
    }
  }

  protected onUpdateRequest(): void {
    if (this.isVisible) {
      this.view.update(this.controller.state());
    }
  }
}

/** Add the panel, and what the status bar shows. */
export function addPanel(
  links: Links,
  palette: ICommandPalette | null,
  restorer: ILayoutRestorer | null,
  bar: IStatusBar | null
): void {
  const { commands, shell } = links.app;
  const widget = new Panel(links);
  shell.add(widget, 'right', { rank: 850, type: 'ipyagent' });
  restorer?.add(widget, PANEL);
  commands.addCommand(SHOW, {
    label: 'Show the agent’s panel',
    icon: agentIcon,
    execute: () => shell.activateById(PANEL)
  });
  palette?.addItem({ command: SHOW, category: 'ipyagent' });
  if (bar !== null) {
    addStatus(bar, links);
  }
}
