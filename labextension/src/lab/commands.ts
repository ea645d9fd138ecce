/** The commands of the palette, shortcuts, toolbar and menus. */
import type { ICommandPalette } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import { CommandRegistry } from '@lumino/commands';

import { host } from '../view/host';
import { Decisions } from './approvals/decisions';
import { Faces } from './approvals/faces';
import { NOTIFY, Notifier } from './approvals/notify';
import { Reminder } from './approvals/reminder';
import { addAgentCell, agentIcon, isPython } from './cells/agentCell';
import { isPrompt } from './cells/prompts';
import type { Links } from './kernel/links';
import type { Settings } from './settings';

const CATEGORY = 'ipyagent';

interface Command {
  readonly label: string;
  readonly caption: string;
  readonly isEnabled: () => boolean;
  readonly execute: () => unknown;
}

/** Return the commands for the current notebook. */
function commandsFor(links: Links, decisions: Decisions): Record<string, Command> {
  return {
    'ipyagent:add-cell': {
      label: 'Add an Agent Cell Below',
      caption: 'Add an agent cell below',
      isEnabled: () => isUsable(links) && links.panel?.content.model?.readOnly === false,
      execute: () => links.panel && addAgentCell(links.panel, links.current)
    },
    'ipyagent:stop': {
      label: 'Stop the Agent',
      caption: 'Stop the run of this notebook',
      isEnabled: () => isRunning(links),
      execute: () => stop(links)
    },
    'ipyagent:approve': decideCommand(decisions, 'approve', 'Approve What Is Asked'),
    'ipyagent:deny': decideCommand(decisions, 'deny', 'Deny What Is Asked')
  };
}

function decideCommand(decisions: Decisions, word: 'approve' | 'deny', label: string): Command {
  return {
    label,
    caption: 'Decide on the call that has waited longest; shows it first, if it was not seen',
    isEnabled: () => {
      const { pending } = decisions;
      return pending !== null && (word === 'deny' || !pending.call?.question);
    },
    execute: () => decisions.press(word)
  };
}

/** Return whether the current notebook is for Python. */
function isUsable({ panel }: Links): boolean {
  return panel !== null && isPython(panel);
}

/** Return whether a run is live, as the kernel reports or else by the running cell. */
function isRunning({ current, panel }: Links): boolean {
  if (current !== null && current.overview !== null) {
    return current.live.length > 0;
  }
  return (panel?.content.widgets ?? []).some(
    cell =>
      cell instanceof CodeCell &&
      cell.model.executionState === 'running' &&
      isPrompt(cell.model.sharedModel.getSource())
  );
}

function stop({ current, panel }: Links): unknown {
  const live = current?.live ?? [];
  live.forEach(({ id }) => current?.sendToRun(id, { type: 'stop' }));
  return live.length > 0 ? null : panel?.sessionContext.session?.kernel?.interrupt();
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

/** Add the commands, and lead to questions that wait. */
export function addCommands(
  links: Links,
  settings: Settings,
  palette: ICommandPalette | null
): void {
  const { commands: registry, serviceManager } = links.app;
  const faces = new Faces(links);
  new Reminder(links, faces);
  new Notifier(links, settings);
  palette?.addItem({ command: NOTIFY, category: CATEGORY });
  const all = commandsFor(links, new Decisions(links, faces));
  for (const [id, { label, ...command }] of Object.entries(all)) {
    registry.addCommand(id, {
      ...command,
      label: args => (args.toolbar === true ? '' : label),
      icon: id === 'ipyagent:add-cell' ? agentIcon : undefined,
      isVisible: () => isUsable(links)
    });
    palette?.addItem({ command: id, category: CATEGORY });
  }
  const tellKeys = (): void => {
    host.keys = keysOf(registry);
  };
  registry.keyBindingChanged.connect(tellKeys);
  tellKeys();
  const update = (): void => registry.notifyCommandChanged('ipyagent:add-cell');
  links.changed.connect(update);
  serviceManager.kernelspecs.specsChanged.connect(update);
}
