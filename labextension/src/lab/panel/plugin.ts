/** The side panel of the current notebook. */
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { IStatusBar } from '@jupyterlab/statusbar';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import type { Answer } from '../../channel';
import type { PendingApproval } from '../../protocol';
import { NOTIFY } from '../approvals/notify';
import { PANEL } from '../approvals/waiting';
import { agentIcon } from '../cells/agentCell';
import { cellIds, goTo, placeOf, runBelow } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import { ILinks } from '../kernel/links';
import { sharedNotebook } from '../proposals/documents';
import { insertCells } from '../proposals/sharedCells';
import { countWaiting } from './approvals';
import { CurrentNotebook } from './currentNotebook';
import { PanelActions, PanelState } from './section';
import { addStatus } from './status';
import { PanelView } from './view';

const SHOW = 'ipyagent:show-panel';
const ADD = 'ipyagent:add-cell';
const CAPTION = 'Agent: runs, approvals and sessions';

const EXAMPLE = [
  `import pandas as pd

sales = pd.DataFrame({
    "region": ["North", "South", "East"] * 2,
    "year": [2024] * 3 + [2025] * 3,
    "revenue": [84.2, 61.5, 47.0, 91.3, 58.8, 52.6],
})`,
  '%%agent\nPlot revenue by region'
];

/** Provides the panel's state, and carries out its actions. */
class Controller implements PanelActions {
  /** The prompts that the kernel proposed to begin with. */
  private proposed: { readonly link: Link; readonly prompts: string[] } | null = null;

  constructor(
    private app: JupyterFrontEnd,
    private links: ILinks,
    private current: CurrentNotebook
  ) {}

  state(): PanelState {
    const { panel, link, overview, isReachable } = this.current;
    const { commands } = this.app;
    return {
      notebook: panel?.title.label ?? null,
      overview,
      isReachable,
      prompts: this.proposed !== null && this.proposed.link === link ? this.proposed.prompts : null,
      cells: new Set(this.notebooks().flatMap(cellIds)),
      canAdd: commands.hasCommand(ADD) && commands.isEnabled(ADD),
      canNotify: commands.hasCommand(NOTIFY) && commands.isEnabled(NOTIFY)
    };
  }

  /** Ask the kernel for prompts where there is no run yet; call `done` with the reply in `state`. */
  async propose(done: () => void): Promise<void> {
    const { link, overview } = this.current;
    if (link !== null && overview?.runs.length === 0) {
      const reply = (await link.ask('requests', {})) as { requests?: string[] } | undefined;
      this.proposed = { link, prompts: reply?.requests ?? [] };
      done();
    }
  }

  /** Return whether a kernel without runs was not asked for prompts yet. */
  get isNew(): boolean {
    const { link, overview } = this.current;
    return overview?.runs.length === 0 && this.proposed?.link !== link;
  }

  ask(prompt: string): void {
    const { panel } = this.current;
    if (panel !== null) {
      void runBelow({ panel, index: panel.content.activeCellIndex }, `%%agent\n${prompt}`);
    }
  }

  insertExample(): void {
    const { panel } = this.current;
    if (panel !== null) {
      insertCells(sharedNotebook(panel), panel.content.activeCellIndex + 1, 'code', EXAMPLE);
    }
  }

  decide(asked: PendingApproval, approvalId: string, answer: Answer): void {
    if (approvalId === '') {
      this.decidePlan(asked, answer);
    } else {
      const message = { type: 'decide' as const, approval_id: approvalId, answer };
      this.current.link?.sendToRun(asked.run_id, message);
    }
  }

  /** Decide on a plan that no cell asks about in a new cell, which shows what follows. */
  private decidePlan({ cell_id, run_id }: PendingApproval, answer: Answer): void {
    const { panel } = this.current;
    const end = panel && { panel, index: cellIds(panel).length - 1 };
    const place = placeOf(cell_id, this.notebooks()) ?? end;
    // IPython reads a question mark at the end of a line as its help.
    const why = answer.decision === 'deny' ? answer.reason.replace(/[\s?]+/g, ' ').trimEnd() : '';
    if (place !== null && /^\w+$/.test(run_id)) {
      void runBelow(place, `%agent ${answer.decision} ${run_id} ${why}`.trimEnd());
    }
  }

  stop(runId: string): void {
    this.current.link?.sendToRun(runId, { type: 'stop' });
  }

  jump(cellId: string): void {
    const place = placeOf(cellId, this.notebooks());
    if (place !== null) {
      void goTo(place, this.app);
    }
  }

  resume(sessionId: string): void {
    const { link } = this.current;
    if (link !== null && /^[\w-]+$/.test(sessionId)) {
      const reply = execute(link.kernel, `%agent session resume ${sessionId}`);
      void reply.then(text =>
        text.startsWith('ipyagent: ')
          ? Notification.error(text)
          : Notification.success(`ipyagent goes on with ${text}`, { autoClose: 5_000 })
      );
    }
  }

  models(chosen: string | null): Promise<unknown> {
    return this.current.link?.ask('models', { model: chosen }) ?? Promise.resolve(undefined);
  }

  add(): void {
    void this.app.commands.execute(ADD);
  }

  notify(): void {
    void this.app.commands.execute(NOTIFY);
  }

  private notebooks(): NonNullable<CurrentNotebook['panel']>[] {
    const { link } = this.current;
    return link === null ? [] : this.links.notebooks(link);
  }
}

/** The panel's widget, updated while visible. */
class Panel extends Widget {
  private view: PanelView;

  constructor(
    private controller: Controller,
    current: CurrentNotebook,
    rendermime: IRenderMimeRegistry | null
  ) {
    super();
    this.id = PANEL;
    this.title.icon = agentIcon;
    this.title.className = 'ipyagent-tab';
    this.title.caption = CAPTION;
    this.node.tabIndex = -1;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'ipyagent');
    this.view = new PanelView(controller, html => rendermime?.sanitizer.sanitize(html) ?? html);
    this.node.append(this.view.element);
    NotebookActions.executed.connect(() => this.propose());
    current.changed.connect(() => {
      this.update();
      if (controller.isNew) {
        this.propose();
      }
      const { overview, isReachable } = current;
      this.showCount(overview !== null && isReachable ? countWaiting(overview) : 0);
    });
  }

  /** Show on the side bar how many questions wait. */
  private showCount(count: number): void {
    const { dataset } = this.title;
    this.title.dataset = { ...dataset, waiting: count > 0 ? `${count}` : '' };
    this.title.caption = count > 0 ? `${CAPTION} (${count} waiting for you)` : CAPTION;
  }

  protected onActivateRequest(): void {
    this.node.focus();
  }

  protected onAfterShow(): void {
    this.update();
    this.propose();
  }

  private propose(): void {
    if (this.isVisible) {
      void this.controller.propose(() => this.update());
    }
  }

  protected onUpdateRequest(): void {
    if (this.isVisible) {
      this.view.update(this.controller.state());
    }
  }
}

/** Execute code without a trace in the history; return what it printed. */
async function execute(kernel: Kernel.IKernelConnection, code: string): Promise<string> {
  const printed: string[] = [];
  const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
  future.onIOPub = ({ header, content }: KernelMessage.IIOPubMessage) => {
    if (header.msg_type === 'stream') {
      printed.push((content as KernelMessage.IStreamMsg['content']).text);
    }
  };
  await future.done;
  return printed.join('').trim();
}

export const panel: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:panel',
  description:
    'Shows what the agent of the current notebook does, beside it and in the status bar.',
  autoStart: true,
  requires: [INotebookTracker, ILinks],
  optional: [ICommandPalette, ILayoutRestorer, IRenderMimeRegistry, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    links: ILinks,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    rendermime: IRenderMimeRegistry | null,
    bar: IStatusBar | null
  ) => {
    const current = new CurrentNotebook(tracker, links);
    const widget = new Panel(new Controller(app, links, current), current, rendermime);
    app.commands.commandChanged.connect(() => widget.update());
    app.shell.add(widget, 'right', { rank: 850, type: 'ipyagent' });
    restorer?.add(widget, PANEL);
    app.commands.addCommand(SHOW, {
      label: 'Show the agent’s panel',
      icon: agentIcon,
      execute: () => app.shell.activateById(PANEL)
    });
    palette?.addItem({ command: SHOW, category: 'ipyagent' });
    if (bar !== null) {
      addStatus(bar, app, links, current);
    }
  }
};
