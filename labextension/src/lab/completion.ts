/** Completion in `%%agent` cells: the kernel's matches, without Python's. */
import type { ICellModel } from '@jupyterlab/cells';
import {
  Completer,
  CompleterModel,
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider,
  ICompletionProviderManager
} from '@jupyterlab/completer';
import type { Kernel, KernelMessage } from '@jupyterlab/services';

import { findMention } from '../view/form';
import { PANEL } from './approvals';
import { forEachCodeCell } from './cells';
import type { Links } from './links';
import type { Panel } from './panel';
import { isPrompt } from './prompts';
import type { Settings } from './settings';

/** Above JupyterLab's own providers: 550 is the kernel's, 500 the words of the cell. */
const RANK = 1_000;

/** A completion with its rank, and the number of characters before the cursor that it replaces. */
interface Item extends CompletionHandler.ICompletionItem {
  order: number;
  fragment: number;
}

type Answer = Omit<KernelMessage.ICompleteReplyMsg['content'] & { status: 'ok' }, 'status'>;

type Items = CompletionHandler.ICompletionItems;

function isOurs(item: CompletionHandler.ICompletionItem): item is Item {
  return 'fragment' in item;
}

/** The line above the prompt in a cell, which the panel's field does not have. */
const MAGIC = '%%agent\n';

/** In prompts, accepts this provider's items only, in their order and range. */
class Model extends CompleterModel {
  constructor(private isField: boolean) {
    super();
  }

  completionItems(): Items {
    const items = super.completionItems();
    return items.every(isOurs) ? [...items].sort((a, b) => a.order - b.order) : items;
  }

  setCompletionItems(items: Items): void {
    if (!this.isField && !isPrompt(this.original?.text ?? '')) {
      super.setCompletionItems(items);
      return;
    }
    // Merging with other providers may have removed the start of an item's text.
    const ours = items.filter(isOurs).map(item => ({ ...item, insertText: item.label }));
    if (this.cursor !== null && ours.length > 0) {
      const { end } = this.cursor;
      this.cursor = { start: end - ours[0].fragment, end };
    }
    super.setCompletionItems(ours);
  }
}

/** Shows types in the kernel's own case: `DataFrame`, not `dataframe`. */
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

  private requests = new WeakMap<Kernel.IKernelConnection, Promise<unknown>>();

  isApplicable({ editor, session, widget }: ICompletionContext): Promise<boolean> {
    const source = editor?.model.sharedModel.getSource() ?? '';
    const isHere = widget.id === PANEL || isPrompt(source);
    return Promise.resolve(Boolean(session?.kernel) && isHere);
  }

  modelFactory({ widget }: ICompletionContext): Promise<Completer.IModel> {
    return Promise.resolve(new Model(widget.id === PANEL));
  }

  /** Wait until the kernel has replied: requests pile up while it runs a cell. */
  async waitForReply(kernel: Kernel.IKernelConnection): Promise<void> {
    await this.requests.get(kernel)?.catch(() => undefined);
  }

  async fetch(
    { text, offset }: CompletionHandler.IRequest,
    { session, widget }: ICompletionContext
  ): Promise<CompletionHandler.ICompletionItemsReply<Item>> {
    const kernel = session?.kernel;
    const above = widget.id === PANEL ? MAGIC : '';
    const [code, cursor_pos] = [above + text, above.length + offset];
    const request = kernel?.requestComplete({ code, cursor_pos });
    if (kernel && request) {
      this.requests.set(kernel, request);
    }
    const { content } = (await request) ?? {};
    return content?.status === 'ok'
      ? toItems(content, code, above.length)
      : { start: offset, end: offset, items: [] };
  }
}

/** Convert the kernel's reply to items of the completer. */
function toItems(
  { cursor_start: start, cursor_end: end, matches, metadata }: Answer,
  text: string,
  above: number
): CompletionHandler.ICompletionItemsReply<Item> {
  const types = metadata._jupyter_types_experimental as { type?: string }[] | undefined;
  // The kernel counts code points, the page UTF-16 code units.
  const characters = Array.from(text);
  const fragment = characters.slice(start, end).join('').length;
  const items = matches.map((label, order) => {
    return { label, type: types?.[order]?.type ?? '', order, fragment };
  });
  return { start: start - above, end: end - above, items };
}

/** Open the completer while a name is typed after `@`. */
function watchMentions(
  links: Links,
  manager: ICompletionProviderManager,
  provider: Provider,
  settings: Settings,
  panel: Panel
): void {
  let typed = 0;
  /** Return the id of the widget in which a mention is typed; null if none is. */
  const findPlace = (): string | null => {
    const { editor: field } = panel.composer;
    const isField = field?.hasFocus() === true;
    const editor = isField ? field : links.tracker.activeCell?.editor;
    if (!editor?.hasFocus() || !(isField || isPrompt(editor.model.sharedModel.getSource()))) {
      return null;
    }
    const { line, column } = editor.getCursorPosition();
    const isMention = findMention(editor.getLine(line)?.slice(0, column) ?? '') !== null;
    return isMention ? ((isField ? panel : links.panel)?.id ?? null) : null;
  };
  /** Open the completer, unless more was typed meanwhile. */
  const open = async (): Promise<void> => {
    const kernel = links.panel?.sessionContext.session?.kernel;
    const count = ++typed;
    if (kernel) {
      await provider.waitForReply(kernel);
      const id = findPlace();
      if (count === typed && id !== null) {
        manager.invoke(id);
      }
    }
  };
  const watch = ({ sharedModel }: Pick<ICellModel, 'sharedModel'>): void => {
    sharedModel.changed.connect((_, { sourceChange }) => {
      const inserted = sourceChange?.map(({ insert }) => insert ?? '').join('');
      if (settings.now.completeOnAt && inserted?.length === 1 && findPlace() !== null) {
        void open();
      }
    });
  };
  links.forEachNotebook(each => forEachCodeCell(each, ({ model }) => watch(model)));
  watch(panel.composer.model);
}

/** Complete variables, files and options in prompts. */
export function completePrompts(
  links: Links,
  manager: ICompletionProviderManager,
  settings: Settings,
  panel: Panel
): void {
  const provider = new Provider();
  manager.registerProvider(provider);
  watchMentions(links, manager, provider, settings, panel);
  const { composer } = panel;
  let known: unknown = null;
  composer.element.addEventListener('focusin', () => {
    const session = links.panel?.sessionContext.session ?? null;
    if (composer.editor !== null && session !== known) {
      known = session;
      void manager.updateCompleter({ editor: composer.editor, session, widget: panel });
    }
  });
  composer.accepted.connect(() => manager.select(panel.id));
}
