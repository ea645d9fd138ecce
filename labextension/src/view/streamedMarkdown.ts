/** Renders growing Markdown: complete blocks are laid out once. */
import type { AnswerNumber } from '../protocol';
import { h } from './dom';
import { outlineOf, renderMarkdown } from './markdown';
import { revealProse } from './prose';
import { keepHtml, Before } from './sanitize';

/** Blocks up to this length are laid out again with every change, */
const SHORT = 400;
/** up to this length with every line, */
const MIDDLE = 1_500;
/** longer ones after growing by this fraction, so that all work is linear. */
const GROWN = 1 / 8;

/** Characters in a chunk of sealed blocks, which a browser can skip. */
const CHUNK = 4_000;

const FENCE = /^ {0,3}(?:```|~~~)/m;

/** The element to which text is appended between layouts. */
const LAST_BLOCK = 'p, li, h1, h2, h3, h4, h5, h6, td, pre > code';

/**
 * Growing Markdown. All blocks but the last are sealed; that one is mostly drawn as if it ended
 * here.
 */
export class MarkdownText {
  readonly element = h('div', { class: 'ipyagent-markdown' });

  private text = '';
  private numbers: readonly AnswerNumber[] = [];
  private finished = false;
  /** Offsets of the ends of sealed blocks; the open block begins at the last. */
  private cuts: number[] = [];
  private chunk: HTMLElement | null = null;
  private chunkBegins = 0;
  private open = h('div', { class: 'ipyagent-open' });
  /** The length of the open block at its last layout, and the element for later text. */
  private drawn = 0;
  private end: Element = this.open;

  constructor(private before: Before = keepHtml) {
    this.element.append(this.open);
  }

  /** Show `source`; `finished` when nothing will follow, with the `numbers` of an answer. */
  update(source: string, finished: boolean, numbers: readonly AnswerNumber[] = []): void {
    const text = source.includes('\r') ? source.replace(/\r\n?/g, '\n') : source;
    const isMarked = numbers === this.numbers || numbers.length + this.numbers.length === 0;
    if (this.finished && text === this.text && isMarked) {
      return;
    }
    if (this.finished || !text.startsWith(this.text)) {
      this.reset();
    }
    const added = text.slice(this.text.length);
    this.text = text;
    this.numbers = numbers;
    this.finished = finished;
    if (finished) {
      this.finish();
    } else if (added !== '') {
      this.grow(added);
    }
  }

  private get sealed(): number {
    return this.cuts.at(-1) ?? 0;
  }

  private grow(added: string): void {
    if (this.isDue(added)) {
      this.layOut(this.text.slice(this.sealed));
    } else {
      this.end.append(revealProse(added));
    }
  }

  private isDue(added: string): boolean {
    const length = this.text.length - this.sealed;
    const isShort = length < (added.includes('\n') ? MIDDLE : SHORT);
    return isShort || length - this.drawn > length * GROWN || this.hasFence(added);
  }

  /** Return whether a line that is complete now may begin or end fenced code. */
  private hasFence(added: string): boolean {
    const line = this.text.lastIndexOf('\n', this.text.length - added.length - 1) + 1;
    return added.includes('\n') && FENCE.test(this.text.slice(line));
  }

  /** Seal all blocks of the tail but the last, and draw that one as far as it is there. */
  private layOut(tail: string): void {
    const { starts, end } = outlineOf(tail);
    const begin = end ?? starts.at(-1) ?? 0;
    if (begin > 0) {
      this.chunkOpen().append(renderMarkdown(tail.slice(0, begin), this.before));
      this.cuts.push(this.sealed + begin);
    }
    this.drawn = tail.length - begin;
    this.open.replaceChildren(renderMarkdown(tail.slice(begin), this.before));
    this.end = [...this.open.querySelectorAll(LAST_BLOCK)].at(-1) ?? this.open;
  }

  private chunkOpen(): HTMLElement {
    if (this.chunk === null || this.sealed - this.chunkBegins > CHUNK) {
      this.chunk = h('div', { class: 'ipyagent-sealed' });
      this.chunkBegins = this.sealed;
      this.open.before(this.chunk);
    }
    return this.chunk;
  }

  /** Lay out the rest; or all again if the blocks depend on each other. */
  private finish(): void {
    const { starts, areIndependent } = outlineOf(this.text);
    const ends = [...starts, this.text.length];
    const isWhole = areIndependent && this.cuts.every(cut => ends.includes(cut));
    const isSound = isWhole && this.numbers.length === 0;
    if (isSound) {
      this.element.querySelectorAll(':scope > .ipyagent-sealed').forEach(unwrap);
      this.open.before(renderMarkdown(this.text.slice(this.sealed), this.before));
    } else {
      const all = renderMarkdown(this.text, this.before, this.numbers);
      this.element.replaceChildren(all, this.open);
    }
    this.clear();
  }

  private reset(): void {
    this.text = '';
    this.cuts = [];
    this.element.replaceChildren(this.open);
    this.clear();
  }

  private clear(): void {
    this.open.replaceChildren();
    this.chunk = null;
    this.drawn = 0;
    this.end = this.open;
  }
}

function unwrap(chunk: Element): void {
  chunk.replaceWith(...chunk.childNodes);
}
