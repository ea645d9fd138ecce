/** Adds the side panel and the status bar's item: their state, and what their buttons do. */
import type { ILayoutRestorer } from '@jupyterlab/application';
import { type ICommandPalette, Notification } from '@jupyterlab/apputils';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { IStatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';

import type { Answer } from '../channel';
import type { Blocks, PendingApproval } from '../protocol';
import { h, setText } from '../view/dom';
import { reveal } from '../view/reveal';
import { agentIcon, load } from './agentCells';
import { oldestWaiting, PANEL, showWaiting } from './approvals';
import { chooseModel } from './cards';
import { cellIds, goTo, placeOf, runBelow, uncover, watchCells } from './cells';
import { Composer } from './composer';
import type { Links } from './links';
import { sharedNotebook } from './notebookTools';
import { PanelView } from './panelView';
import { NOTIFY } from './reminders';
import { insertCells } from './sharedCells';

const ADD = 'ipyagent:add-cell';

export type PanelState = ReturnType<Controller['state']>;

export type PanelActions = Omit<Controller, 'state' | 'propose'>;

class Controller {
  constructor(private links: Links) {}

  /** Return what the panel shows of the current notebook. */
  state() {
    const { panel, current, app } = this.links;
    const { commands } = app;
    const can = (command: string): boolean =>
      commands.hasCommand(command) && commands.isEnabled(command);
    return {
      /** Null while no notebook is open. */
      notebook: panel?.title.label ?? null,
      /** Null without ipyagent. */
      overview: current?.overview ?? null,
      /** False while decisions cannot reach the kernel. */
      isReachable: current?.kernel.connectionStatus === 'connected',
      /** The cells of the kernel's open notebooks. */
      cells: new Set(this.notebooks().flatMap(cellIds)),
      /** Prompts that fit the variables and files; null while the kernel has not said them. */
      prompts: current?.prompts ?? null,
      /** False where nothing can be asked. */
      canAdd: can(ADD),
      /** True if the user has not decided on notifications yet. */
      canNotify: can(NOTIFY)
    };
  }

  /** Ask a kernel without runs for prompts, each only once unless `again`; then call `done`. */
  async propose(again: boolean, done: () => void): Promise<void> {
    const { current: link } = this.links;
    if (link?.overview?.runs.length === 0 && (again || link.prompts === undefined)) {
      link.prompts ??= null;
      const reply = await link.ask('requests', {});
      link.prompts = reply?.requests ?? [];
      link.example = reply?.example ?? [];
      done();
    }
  }

  /** Run a prompt in a new cell at the end of the notebook. */
  ask(prompt: string): void {
    const { panel, current } = this.links;
    if (panel !== null) {
      const end = cellIds(panel).length;
      void load(panel, current);
      void runBelow({ panel, index: end - 1 }, `%%agent\n${prompt}`);
      void uncover({ panel, index: end }, 'smart');
    }
  }

  /** Insert cells with a small table and a prompt about it. */
  insertExample(): void {
    const { panel, current } = this.links;
    if (panel !== null && current !== null) {
      const below = panel.content.activeCellIndex + 1;
      insertCells(sharedNotebook(panel), below, 'code', current.example);
    }
  }

  decide(asked: PendingApproval, answer: Answer): void {
    if (asked.approval_id === '') {
      this.decidePlan(asked, answer);
    } else {
      this.links.current?.decide(asked, answer);
    }
  }

  /** Decide on a plan that no cell asks about in a new cell, which shows what follows. */
  private decidePlan({ cell_id, run_id }: PendingApproval, answer: Answer): void {
    const { panel } = this.links;
    const end = panel && { panel, index: cellIds(panel).length - 1 };
    const place = placeOf(cell_id, this.notebooks()) ?? end;
    // IPython reads a question mark at the end of a line as its help.
    const why = answer.decision === 'deny' ? answer.reason.replace(/[\s?]+/g, ' ').trimEnd() : '';
    if (place !== null && /^\w+$/.test(run_id)) {
      void runBelow(place, `%agent ${answer.decision} ${run_id} ${why}`.trimEnd());
    }
  }

  stop(runId: string): void {
    this.links.current?.sendToRun(runId, { type: 'stop' });
  }

  jump(cellId: string): void {
    const place = placeOf(cellId, this.notebooks());
    if (place !== null) {
      void goTo(place, this.links.app);
    }
  }

  /** Go on with a session; with "" in a new one. */
  async resume(sessionId: string): Promise<void> {
    const reply = await this.links.current?.ask('session', { text: sessionId });
    if (reply?.text === undefined) {
      Notification.error(reply?.problem ?? 'There is no connection to ipyagent in a kernel.');
    } else {
      Notification.success(reply.text, { autoClose: 5_000 });
    }
  }

  /** Return the sessions with that text in a prompt or their name. */
  async find(text: string): Promise<Blocks> {
    const found = await this.links.current?.ask('sessions', { text });
    return { set: [], order: {}, ...found };
  }

  chooseModel(): void {
    void chooseModel(this.links.current);
  }

  notify(): void {
    void this.links.app.commands.execute(NOTIFY);
  }

  private notebooks(): NotebookPanel[] {
    const { current } = this.links;
    return current === null ? [] : this.links.notebooks(current);
  }
}

const SHOW = 'ipyagent:show-panel';
const CAPTION = 'Agent: runs, approvals and sessions';

/** The panel's widget, updated while visible. */
export class Panel extends Widget {
  readonly composer: Composer;

  private controller: Controller;
  private view: PanelView;

  constructor(private links: Links) {
    super();
    this.id = PANEL;
    this.title.icon = agentIcon;
    this.title.className = 'ipyagent-tab';
    this.node.tabIndex = -1;
    // The completer takes room within the first widget of one of that class.
    this.addClass('jp-MainAreaWidget');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'ipyagent');
    this.controller = new Controller(links);
    this.composer = new Composer(this.controller);
    this.view = new PanelView(this.controller, this.composer.element);
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
    const count = isReachable ? (overview?.approvals.length ?? 0) : 0;
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
      const { panel, current } = this.links;
      const factory = panel?.content.contentFactory.editorFactory ?? null;
      this.composer.update(factory, current?.overview?.model ?? '');
      this.view.update(this.controller.state());
    }
  }
}

/** Add the panel, and what the status bar shows; return the panel. */
export function addPanel(
  links: Links,
  palette: ICommandPalette | null,
  restorer: ILayoutRestorer | null,
  bar: IStatusBar | null
): Panel {
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
  return widget;
}

/** Add a button with one line of text to the status bar. */
function addStatus(bar: IStatusBar, links: Links): void {
  const line = h('button', { type: 'button', class: 'ipyagent-status' });
  const item = new Widget();
  item.node.dataset.ipyagent = 'status';
  item.node.append(line);
  line.addEventListener('click', () => {
    const waiting = oldestWaiting(links);
    if (waiting === null) {
      links.app.shell.activateById(PANEL);
    } else {
      void showWaiting(waiting, links);
    }
  });
  const show = (): void => {
    const overview = links.current?.overview ?? null;
    if (overview !== null) {
      const isWaiting = overview.approvals.length > 0;
      setText(line, reveal(overview.status));
      line.title = isWaiting ? 'Go to the question' : 'Show the panel';
      line.classList.toggle('ipyagent-waiting', isWaiting);
    }
  };
  // Connected first: the status bar then asks whether the item is active.
  links.changed.connect(show);
  bar.registerStatusItem('ipyagent:status', {
    item,
    align: 'right',
    rank: 900,
    isActive: () => (links.current?.overview ?? null) !== null,
    activeStateChanged: links.changed
  });
  show();
}
