/** The commands of the palette, shortcuts, toolbar and menus. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { CommandRegistry } from '@lumino/commands';

import { host } from '../view/host';
import { Decisions } from './approvals/decisions';
import { Faces } from './approvals/faces';
import { NOTIFY, Notifier } from './approvals/notify';
import { Reminder } from './approvals/reminder';
import { addAgentCell, agentIcon, isPython } from './cells/agentCell';
import { askAbout } from './cells/errorActions';
import { Failure, failureOf, fixPrompt, explainPrompt } from './cells/failures';
import { isPrompt } from './cells/prompts';
import type { Link } from './kernel/link';
import { ILinks } from './kernel/links';
import { ISettings } from './settings';

const CATEGORY = 'ipyagent';

interface Command {
  readonly label: string;
  readonly caption: string;
  readonly isEnabled: () => boolean;
  readonly execute: () => unknown;
}

/** The commands for the current notebook. */
class Commands {
  private decisions: Decisions;

  constructor(
    app: JupyterFrontEnd,
    private tracker: INotebookTracker,
    private links: ILinks,
    faces: Faces
  ) {
    this.decisions = new Decisions(app, tracker, links, faces);
  }

  get all(): Record<string, Command> {
    return {
      'ipyagent:add-cell': {
        label: 'Add an Agent Cell Below',
        caption: 'Add an agent cell below',
        isEnabled: () => this.isUsable() && this.panel?.content.model?.readOnly === false,
        execute: () => this.panel && addAgentCell(this.panel, this.link)
      },
      'ipyagent:stop': {
        label: 'Stop the Agent',
        caption: 'Stop the run of this notebook',
        isEnabled: () => this.isRunning(),
        execute: () => this.stop()
      },
      'ipyagent:approve': this.decideCommand('approve', 'Approve What Is Asked'),
      'ipyagent:deny': this.decideCommand('deny', 'Deny What Is Asked'),
      'ipyagent:fix-error': this.errorCommand('Fix This Error with the Agent', fixPrompt),
      'ipyagent:explain-error': this.errorCommand(
        'Explain This Error with the Agent',
        explainPrompt
      )
    };
  }

  /** Return whether the current notebook is for Python. */
  isUsable(): boolean {
    return this.panel !== null && isPython(this.panel);
  }

  private get panel(): NotebookPanel | null {
    return this.tracker.currentWidget;
  }

  private get link(): Link | null {
    return this.links.of(this.panel);
  }

  private decideCommand(word: 'approve' | 'deny', label: string): Command {
    return {
      label,
      caption: 'Decide on the call that has waited longest; shows it first, if it was not seen',
      isEnabled: () => {
        const { pending } = this.decisions;
        return pending !== null && (word === 'deny' || !pending.call?.question);
      },
      execute: () => this.decisions.press(word)
    };
  }

  private errorCommand(label: string, prompt: (failure: Failure) => string): Command {
    return {
      label,
      caption: 'Ask in a cell below the one that failed',
      isEnabled: () => this.failedCell() !== null,
      execute: () => {
        const cell = this.failedCell();
        return this.panel && cell && askAbout(this.panel, cell, this.links, prompt);
      }
    };
  }

  private failedCell(): CodeCell | null {
    const cell = this.tracker.activeCell;
    const isFailed = cell instanceof CodeCell && failureOf(cell.model) !== null;
    return isFailed && this.isUsable() ? cell : null;
  }

  /** Return whether a run is live, as the kernel reports or else by the running cell. */
  private isRunning(): boolean {
    const { link } = this;
    if (link !== null && link.overview !== null) {
      return link.live.length > 0;
    }
    return (this.panel?.content.widgets ?? []).some(
      cell =>
        cell instanceof CodeCell &&
        cell.model.executionState === 'running' &&
        isPrompt(cell.model.sharedModel.getSource())
    );
  }

  private stop(): unknown {
    const { link } = this;
    const live = link?.live ?? [];
    live.forEach(({ id }) => link?.sendToRun(id, { type: 'stop' }));
    return live.length > 0 ? null : this.panel?.sessionContext.session?.kernel?.interrupt();
  }
}

/** Return the keys of buttons, as the user has set them: commands are named like buttons. */
function keysOf({ keyBindings }: CommandRegistry): typeof host.keys {
  const ours = keyBindings.filter(({ command }) => command.startsWith('ipyagent:'));
  return Object.fromEntries(
    ours.map(({ command, keys }) => [
      command.replace('ipyagent:', ''),
      CommandRegistry.formatKeystroke(keys)
    ])
  );
}

export const commands: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:commands',
  description: 'Adds the commands, and leads to questions that wait.',
  autoStart: true,
  requires: [INotebookTracker, ILinks, ISettings],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    links: ILinks,
    settings: ISettings,
    palette: ICommandPalette | null
  ) => {
    const { commands: registry, serviceManager } = app;
    const faces = new Faces(tracker, links);
    new Reminder(app, tracker, faces);
    new Notifier(app, links, settings);
    palette?.addItem({ command: NOTIFY, category: CATEGORY });
    const all = new Commands(app, tracker, links, faces);
    for (const [id, { label, ...command }] of Object.entries(all.all)) {
      registry.addCommand(id, {
        ...command,
        label: args => (args.toolbar === true ? '' : label),
        icon: id === 'ipyagent:add-cell' ? agentIcon : undefined,
        // The context menu shows them where they apply.
        isVisible: () => all.isUsable() && (!id.endsWith('-error') || command.isEnabled())
      });
      palette?.addItem({ command: id, category: CATEGORY });
    }
    const tellKeys = (): void => {
      host.keys = keysOf(registry);
    };
    registry.keyBindingChanged.connect(tellKeys);
    tellKeys();
    const update = (): void => registry.notifyCommandChanged('ipyagent:add-cell');
    tracker.currentChanged.connect(update);
    links.changed.connect(update);
    serviceManager.kernelspecs.specsChanged.connect(update);
  }
};
