/** The commands of the palette, shortcuts, toolbar and menus. */
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { ICodeCellModel } from '@jupyterlab/cells';
import { CommandRegistry } from '@lumino/commands';

import { host } from '../view/host';
import { addAgentCell, agentIcon, askAbout, isPython, partOf } from './agentCells';
import { QuestionCards, oldestWaiting, PANEL, showWaiting, Waiting } from './approvals';
import { codeCells, indexOfCell, placeOf, select, uncover } from './cells';
import type { Links } from './links';
import { isPrompt } from './prompts';
import { areAllButtonsInSight, scrollToCard } from './questionCard';
import { NOTIFY, Reminder, serveNotifications } from './reminders';
import type { Settings } from './settings';

/** Milliseconds between two deliberate presses: a key that is held down decides nothing. */
const PRESS_MILLISECONDS = 400;

type Word = 'approve' | 'deny';

/** Return what decides on the oldest approval of the current notebook. */
function makeDecider(links: Links, cards: QuestionCards): (word: Word) => Promise<void> {
  let lastPress = -PRESS_MILLISECONDS;
  /** Find the form with the buttons, uncovering the cell that asks if none is displayed. */
  const findForm = async (waiting: Waiting): Promise<HTMLElement | null> => {
    const place = placeOf(waiting.approval.cell_id, [waiting.panel]);
    cards.chooseCards();
    if (cards.choiceOf(waiting) === null && place !== null) {
      await uncover(place);
      cards.chooseCards();
    }
    return cards.choiceOf(waiting);
  };
  /** Show a question without a card in the current notebook: in another one, or in the panel. */
  const lead = async (waiting: Waiting): Promise<void> => {
    await showWaiting(waiting, links);
    cards.chooseCards();
    if (cards.choiceOf(waiting) === null) {
      links.app.shell.activateById(PANEL);
    }
  };
  /** Press the button, which guards itself; if it is not on screen, scroll there instead. */
  return async word => {
    const [last, now] = [lastPress, performance.now()];
    lastPress = now;
    if (now - last < PRESS_MILLISECONDS) {
      return;
    }
    const oldest = oldestWaiting(links);
    const form = oldest && (await findForm(oldest));
    if (form === null) {
      await (oldest && lead(oldest));
    } else if (areAllButtonsInSight(form)) {
      form.querySelector<HTMLButtonElement>(`[data-ipyagent="${word}"]`)?.click();
    } else {
      // A toast might cover the call.
      const status = form.querySelector('.ipyagent-sent');
      status?.replaceChildren(`Read it, then ${word} again.`);
      scrollToCard(form);
    }
  };
}

const CATEGORY = 'ipyagent';

/** The commands about a cell: the label, and the task about a part of it. */
const ACTS: Record<string, readonly [label: string, task: (part: string) => string]> = {
  'ask-about-cell': ['Ask About', part => `About ${part}: `],
  'change-cell': ['Change', part => `Change ${part}: `],
  'explain-cell': ['Explain', part => `Explain ${part}.`],
  'test-cell': ['Test', part => `Test ${part}: write checks of its results in a new cell below.`]
};

/** Make a cell whose menu opens the current one: after a click in its editor, it is not yet. */
function activate({ panel }: Links, cell: Node | undefined): void {
  const index = panel && cell ? indexOfCell(panel, cell) : -1;
  if (panel && index >= 0 && !panel.content.isSelectedOrActive(panel.content.widgets[index])) {
    select(panel, index);
  }
}

/** Add the commands that ask about the current cell, or its output. */
function addActs(links: Links, palette: ICommandPalette | null): void {
  const { app } = links;
  const isCell = ({ classList }: HTMLElement): boolean => classList.contains('jp-Cell');
  app.contextMenu.opened.connect(() => activate(links, app.contextMenuHitTest(isCell)));
  for (const [name, [label, task]] of Object.entries(ACTS)) {
    const command = `ipyagent:${name}`;
    app.commands.addCommand(command, {
      label: ({ output }) => `${label} This ${output === true ? 'Output' : 'Cell'}`,
      caption: 'Asks in an agent cell below; lines that are selected are meant alone',
      isEnabled: () => links.panel?.content.model?.readOnly === false,
      isVisible: () => isUsable(links),
      execute: ({ output }) => {
        const { panel } = links;
        const cell = panel?.content.activeCell ?? null;
        const part = output === true ? 'the output of this cell' : cell && partOf(cell);
        return panel && cell && part && askAbout(panel, cell, links, task(part));
      }
    });
    palette?.addItem({ command, category: CATEGORY });
  }
}

type Command = CommandRegistry.ICommandOptions & { readonly label: string };

/** Return the commands for the current notebook. */
function commandsFor(links: Links, cards: QuestionCards): Record<string, Command> {
  const decide = makeDecider(links, cards);
  const decideCommand = (word: Word, label: string): Command => ({
    label,
    caption: 'Decide on the call that has waited longest; shows it first, if it was not seen',
    isEnabled: () => {
      const oldest = oldestWaiting(links);
      return oldest !== null && (word === 'deny' || oldest.approval.asked.question === null);
    },
    execute: () => decide(word)
  });
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
    'ipyagent:approve': decideCommand('approve', 'Approve What Is Asked'),
    'ipyagent:deny': decideCommand('deny', 'Deny What Is Asked')
  };
}

/** Return whether the current notebook is for Python. */
function isUsable({ panel }: Links): boolean {
  return panel !== null && isPython(panel);
}

/** Return whether a run is live, as the kernel reports or else by the running cell. */
function isRunning({ current, panel }: Links): boolean {
  const runsPrompt = ({ executionState, sharedModel }: ICodeCellModel): boolean =>
    executionState === 'running' && isPrompt(sharedModel.getSource());
  return current?.overview
    ? current.live.length > 0
    : panel !== null && codeCells(panel).some(runsPrompt);
}

function stop({ current, panel }: Links): unknown {
  const live = current?.live ?? [];
  live.forEach(({ id }) => current?.sendToRun(id, { type: 'stop' }));
  return live.length > 0 ? null : panel?.sessionContext.session?.kernel?.interrupt();
}

/** Return the keys of buttons, as the user has set them: commands are named like buttons. */
function keysOf({ keyBindings }: CommandRegistry): typeof host.keys {
  const ours = keyBindings.filter(({ command }) => command.startsWith('ipyagent:'));
  const { formatKeystroke } = CommandRegistry;
  const named = ours.map(each => [each.command.replace('ipyagent:', ''), each.keys] as const);
  return Object.fromEntries(named.map(([name, keys]) => [name, formatKeystroke(keys)]));
}

/** Add the commands, and lead to questions that wait. */
export function addCommands(
  links: Links,
  settings: Settings,
  palette: ICommandPalette | null
): void {
  const { commands: registry, serviceManager } = links.app;
  const cards = new QuestionCards(links);
  new Reminder(links, cards);
  serveNotifications(links, settings);
  palette?.addItem({ command: NOTIFY, category: CATEGORY });
  addActs(links, palette);
  const all = commandsFor(links, cards);
  for (const [id, { label, ...command }] of Object.entries(all)) {
    registry.addCommand(id, {
      ...command,
      label: args => (args.toolbar === true ? '' : label),
      icon: id === 'ipyagent:add-cell' ? agentIcon : undefined,
      isVisible: () => isUsable(links)
    });
    palette?.addItem({ command: id, category: CATEGORY });
  }
  const updateKeys = (): void => {
    host.keys = keysOf(registry);
  };
  registry.keyBindingChanged.connect(updateKeys);
  updateKeys();
  const update = (): void => registry.notifyCommandChanged('ipyagent:add-cell');
  links.changed.connect(update);
  serviceManager.kernelspecs.specsChanged.connect(update);
}
