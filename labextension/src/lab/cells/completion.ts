/** Completion in `%%agent` cells: what the kernel finds, with nothing of Python among it. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import {
  Completer,
  CompleterModel,
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider,
  ICompletionProviderManager
} from '@jupyterlab/completer';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import {
  codeIcon,
  fileIcon,
  historyIcon,
  LabIcon,
  settingsIcon,
  spreadsheetIcon,
  userIcon,
  variableIcon,
  extensionIcon
} from '@jupyterlab/ui-components';

import { ISettings } from '../settings';
import { inMention, isPrompt } from './prompts';

/** Above JupyterLab's own, as it advises: 550 is the kernel's, 500 the words of the cell. */
const RANK = 1_000;

/** By what the kernel says of a completion. */
const ICONS: [RegExp, LabIcon][] = [
  [/^file\b/, fileIcon],
  [/^(DataFrame|LazyFrame|Series|ndarray)\b/, spreadsheetIcon],
  [/^(function|class)\b/, codeIcon],
  [/^module\b/, extensionIcon],
  [/^profile\b/, userIcon],
  [/^session\b/, historyIcon]
];

/** A completion, its place, and the number of characters before the cursor that it stands for. */
interface Item extends CompletionHandler.ICompletionItem {
  order: number;
  fragment: number;
}

type Answer = Omit<KernelMessage.ICompleteReplyMsg['content'] & { status: 'ok' }, 'status'>;

const NOTHING: Answer = { matches: [], cursor_start: 0, cursor_end: 0, metadata: {} };

type Items = CompletionHandler.ICompletionItems;

function isOurs(item: CompletionHandler.ICompletionItem): item is Item {
  return 'fragment' in item;
}

/** In prompts only what this provider found counts, in the order and the range that it gave. */
class Model extends CompleterModel {
  completionItems(): Items {
    const items = super.completionItems();
    return items.every(isOurs) ? [...items].sort((a, b) => a.order - b.order) : items;
  }

  setCompletionItems(items: Items): void {
    if (!isPrompt(this.original?.text ?? '')) {
      super.setCompletionItems(items);
      return;
    }
    // Merged with those of other providers, items may have lost what they begin with.
    const ours = items.filter(isOurs).map(item => ({ ...item, insertText: item.label }));
    if (this.cursor !== null && ours.length > 0) {
      const { end } = this.cursor;
      this.cursor = { start: end - ours[0].fragment, end };
    }
    super.setCompletionItems(ours);
  }
}

/** Types as the kernel writes them: `DataFrame`, not `dataframe`. */
class Renderer extends Completer.Renderer {
  createCompletionItemNode(
    item: CompletionHandler.ICompletionItem,
    types: string[]
  ): HTMLLIElement {
    const node = super.createCompletionItemNode(item, types);
    if (isOurs(item) && item.type !== undefined && node.lastElementChild !== null) {
      node.classList.add('ipyagent-completion');
      node.lastElementChild.textContent = item.type;
    }
    return node;
  }
}

class Provider implements ICompletionProvider<Item> {
  readonly identifier = 'ipyagent:completion';
  readonly rank = RANK;
  readonly renderer = new Renderer();

  private asked = new WeakMap<Kernel.IKernelConnection, Promise<unknown>>();

  isApplicable({ editor, session }: ICompletionContext): Promise<boolean> {
    const source = editor?.model.sharedModel.getSource() ?? '';
    return Promise.resolve(Boolean(session?.kernel) && isPrompt(source));
  }

  modelFactory(): Promise<Completer.IModel> {
    return Promise.resolve(new Model());
  }

  /** Resolves when the kernel owes no answer: while it runs a cell, questions only pile up. */
  async answered(kernel: Kernel.IKernelConnection): Promise<void> {
    await this.asked.get(kernel)?.catch(() => undefined);
  }

  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    { session }: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply<Item>> {
    const kernel = session?.kernel;
    if (!kernel) {
      return { start: offset, end: offset, items: [] };
    }
    const asked = kernel.requestComplete({ code: text, cursor_pos: offset });
    this.asked.set(kernel, asked);
    const { content } = await asked;
    return reply(content.status === 'ok' ? content : NOTHING, text);
  }
}

/** What the kernel answered, as the completer takes it. */
function reply(
  { cursor_start: start, cursor_end: end, matches, metadata }: Answer,
  text: string
): CompletionHandler.ICompletionItemsReply<Item> {
  const told = metadata._jupyter_types_experimental as { type?: string }[] | undefined;
  // The kernel counts characters, the page counts what they are stored in.
  const characters = Array.from(text);
  const fragment = characters.slice(start, end).join('').length;
  const inOptions = !characters.slice(0, end).join('').trimStart().includes('\n');
  const items = matches.map((label, order) => {
    const type = told?.[order]?.type ?? '';
    const icon = ICONS.find(([kind]) => kind.test(type))?.[1];
    return {
      label,
      type,
      icon: icon ?? (inOptions ? settingsIcon : variableIcon),
      order,
      fragment
    };
  });
  return { start, end, items };
}

/** Opens the completer while a name is typed after `@`. */
class Mentions {
  private cell: Cell | null = null;
  private count = 0;

  constructor(
    private tracker: INotebookTracker,
    private manager: ICompletionProviderManager,
    private provider: Provider,
    private settings: ISettings
  ) {
    tracker.activeCellChanged.connect((_, cell) => this.watch(cell));
    this.watch(tracker.activeCell);
  }

  private watch(cell: Cell | null): void {
    // A cell that is gone has no model any more, and lets go of its signals by itself.
    if (this.cell?.isDisposed === false) {
      this.cell.model.sharedModel.changed.disconnect(this.typed);
    }
    this.cell = cell;
    cell?.model.sharedModel.changed.connect(this.typed);
  }

  private typed = (_: unknown, change: { sourceChange?: { insert?: string }[] }): void => {
    const inserted = change.sourceChange?.map(({ insert }) => insert ?? '').join('') ?? '';
    if (this.settings.now.completeOnAt && inserted.length === 1 && this.isMention()) {
      void this.open();
    }
  };

  /** Open the completer for what was typed last. */
  private async open(): Promise<void> {
    const panel = this.tracker.currentWidget;
    const kernel = panel?.sessionContext.session?.kernel;
    const typed = ++this.count;
    if (panel && kernel) {
      await this.provider.answered(kernel);
      if (typed === this.count && this.isMention()) {
        this.manager.invoke(panel.id);
      }
    }
  }

  private isMention(): boolean {
    const editor = this.cell?.editor;
    if (!editor?.hasFocus() || !isPrompt(editor.model.sharedModel.getSource())) {
      return false;
    }
    const { line, column } = editor.getCursorPosition();
    return inMention(editor.getLine(line)?.slice(0, column) ?? '');
  }
}

export const completion: JupyterFrontEndPlugin<void> = {
  id: 'ipyagent:completion',
  description: 'Completes variables, files and options in %%agent cells.',
  autoStart: true,
  requires: [INotebookTracker, ISettings],
  optional: [ICompletionProviderManager],
  activate: (
    _,
    tracker: INotebookTracker,
    settings: ISettings,
    manager: ICompletionProviderManager | null
  ) => {
    if (manager === null) {
      return;
    }
    const provider = new Provider();
    manager.registerProvider(provider);
    new Mentions(tracker, manager, provider, settings);
  }
};
