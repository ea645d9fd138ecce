/** Draws a live run: blocks of HTML, as the kernel sends them, and what a page adds to them. */
import type { RunView } from '../channel';
import type { Blocks, Changes, Drawn, Gone } from '../protocol';
import { h } from './dom';
import { reuse, typeset } from './formulas';
import { appendText, arrange, isKept, keep, morph } from './morph';
import { Connection, makersFor, Own, Part } from './own';
import { sanitizeCard, sanitizeText } from './sanitize';
import { serveListings } from './toCell';
import { serveLinks } from './trace';

/** The key of a block of a text: it is replaced as a whole. */
const TEXT = /\/x\/\d+$/;

/** The keys of blocks that only a run that goes on has. */
const WAITING = /^r\/say$|\/(?:w\d*|l)$/;

/** A block as it is drawn. */
interface Block {
  element: HTMLElement;
  html: string;
  more: string;
  own: Own | null;
  part: Part<Own> | null;
}

/** Draws the states of a run as long as it goes on, changing only blocks that changed. */
export class Card implements RunView {
  readonly element = h('div', { class: 'ipyagent-live' });

  private blocks = new Map<string, Block>();
  private unsubscribe: (() => void) | undefined;

  constructor(
    run: Connection & { subscribe?(view: RunView): () => void },
    private makers = makersFor(run)
  ) {
    serveListings(this.element);
    serveLinks(this.element);
    this.unsubscribe = run.subscribe?.(this);
  }

  /** Draw the blocks of a message; those that a snapshot does not have go. */
  update(message: Changes | (Blocks & { type: 'snapshot' })): void {
    const { set, order } = message;
    set.forEach(drawn => this.set(drawn));
    Object.entries(order).forEach(([parent, keys]) => this.arrange(parent, keys));
    if (message.type === 'snapshot') {
      const keys = new Set(set.map(({ key }) => key));
      [...this.blocks.keys()].filter(key => !keys.has(key)).forEach(key => this.drop(key));
    } else {
      message.more.forEach(({ key, text }) => this.append(key, text));
      message.drop.forEach(key => this.drop(key));
    }
    // A form watches the block around it.
    set.forEach(({ key }) => [key, `${key}/a`].forEach(each => this.addOwn(each)));
    set.forEach(({ key }) => typeset(this.blocks.get(key)?.element ?? this.element));
  }

  /** Show that the kernel is gone: nothing waits any more. A draft waits for another kernel. */
  cutOff({ state, states, replaced, ending }: Gone): void {
    const root = this.blocks.get('r')?.element;
    if (root === undefined || !/^(?:running|waiting)$/.test(root.dataset.state ?? '')) {
      return;
    }
    this.blocks.forEach(endPart);
    if (root.classList.contains('ia-draft')) {
      return;
    }
    Object.entries(replaced).forEach(([selector, html]) =>
      root.querySelectorAll(selector).forEach(each => each.replaceWith(sanitizeCard(html)))
    );
    root.querySelectorAll<HTMLElement>('.ia-tool').forEach(({ dataset }) => {
      const { state: before = '' } = dataset;
      dataset.state = (states as Partial<Record<string, string>>)[before] ?? before;
    });
    root.classList.replace(`ia-${root.dataset.state ?? ''}`, `ia-${state}`);
    root.dataset.state = state;
    [...this.blocks.keys()].filter(key => WAITING.test(key)).forEach(key => this.drop(key));
    const [footer, unsent] = ['r/f', 'r/u'].map(key => this.blocks.get(key)?.element);
    root.insertBefore(this.draw('r/e', ending, ''), footer ?? unsent ?? null);
  }

  /** Stop clocks and observers. */
  dispose(): void {
    this.unsubscribe?.();
    this.blocks.forEach(endPart);
  }

  private set({ key, html, more, own }: Drawn): void {
    const known = this.blocks.get(key);
    if (known === undefined) {
      const block = { element: keep(this.draw(key, html, more)), html, more, own, part: null };
      this.blocks.set(key, block);
      return;
    }
    known.own = own;
    if (known.html === html && more.startsWith(known.more)) {
      this.append(key, more.slice(known.more.length));
      return;
    }
    const { element } = known;
    const next = this.draw(key, html, more);
    if (!TEXT.test(key) && next.localName === element.localName) {
      morph(element, next);
    } else {
      known.element = keep(next);
      reuse(element, next);
      next.append(...[...element.children].filter(isKept));
      element.replaceWith(next);
    }
    known.html = html;
    known.more = more;
  }

  private draw(key: string, html: string, more: string): HTMLElement {
    const number = Number(/\/s(\d+)$/.exec(key)?.[1] ?? 1);
    const fragment = TEXT.test(key) ? sanitizeText(html) : sanitizeCard(html, number);
    const [first, ...rest] = fragment.children;
    const isOne = rest.length === 0 && first instanceof HTMLElement;
    const element = isOne ? first : h('div', {}, fragment);
    if (more !== '') {
      appendText(element, more);
    }
    return element;
  }

  private arrange(parent: string, keys: readonly string[]): void {
    const place = parent === '' ? this.element : this.blocks.get(parent)?.element;
    const blocks = keys.flatMap(key => this.blocks.get(key)?.element ?? []);
    if (place !== undefined) {
      arrange(place, blocks);
    }
  }

  private append(key: string, text: string): void {
    const block = this.blocks.get(key);
    if (block !== undefined && text !== '') {
      block.more += text;
      appendText(block.element, text);
    }
  }

  private drop(key: string): void {
    const block = this.blocks.get(key);
    if (block !== undefined) {
      endPart(block);
      block.element.remove();
      this.blocks.delete(key);
    }
  }

  /** Add to a block what only a page adds. */
  private addOwn(key: string): void {
    const block = this.blocks.get(key);
    if (block === undefined) {
      return;
    }
    const { own } = block;
    if (own === null) {
      endPart(block);
    } else {
      block.part ??= this.makers[own.type](key);
      block.part.update(own, block.element);
    }
  }
}

function endPart(block: Block): void {
  block.part?.dispose?.();
  block.part?.element?.remove();
  block.part = null;
}
