/** Markdown that may still grow: what is complete is laid out once and never touched again. */
import { listing } from './copy';
import { h } from './dom';
import { closes, Fence, outlineOf, renderMarkdown } from './markdown';
import { revealProse } from './prose';
import { asItIs, Before } from './sanitize';
import { StreamedText } from './stream';

/** A block up to this long is laid out again with every change, */
const SHORT = 400;
/** up to this long with every line, */
const MIDDLE = 1_500;
/** and a longer one when it has grown by this part of itself: so all work is linear. */
const GROWN = 1 / 8;

/** Sealed blocks stand together in chunks of this many characters: a browser skips those it can. */
const CHUNK = 4_000;

/** Where text goes that came after the last block was laid out. */
const LAST_BLOCK = 'p, li, h1, h2, h3, h4, h5, h6, td, pre > code';

/** All blocks but the last are sealed. The last one is drawn as if it ended here, most of the time. */
export class MarkdownText {
  readonly element = h('div', { class: 'ipyagent-markdown' });

  private text = '';
  private finished = false;
  /** Where sealed blocks end, as offsets in the text; the last is where the open block begins. */
  private cuts: number[] = [];
  private chunk: HTMLElement | null = null;
  private chunkBegins = 0;
  private open = h('div', { class: 'ipyagent-open' });
  /** How much of the open block has been laid out, and where the rest of it goes. */
  private drawn = 0;
  private end: Element = this.open;
  private code: OpenCode | null = null;

  constructor(private before: Before = asItIs) {
    this.element.append(this.open);
  }

  /** Show `source`; `finished` when nothing will follow. */
  update(source: string, finished: boolean): void {
    const text = source.includes('\r') ? source.replace(/\r\n?/g, '\n') : source;
    if (this.finished && text === this.text) {
      return;
    }
    if (this.finished || !text.startsWith(this.text)) {
      this.reset();
    }
    const added = text.slice(this.text.length);
    this.text = text;
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
    if (this.code !== null ? this.code.isClosedBy(added) : this.isDue(added)) {
      this.layOut(this.text.slice(this.sealed));
    } else if (this.code !== null) {
      this.code.append(revealProse(added));
    } else {
      this.end.append(revealProse(added));
    }
  }

  private isDue(added: string): boolean {
    const length = this.text.length - this.sealed;
    const isShort = length < (added.includes('\n') ? MIDDLE : SHORT);
    return isShort || length - this.drawn > length * GROWN;
  }

  /** Seal all blocks of the tail but the last, and draw that one as far as it is there. */
  private layOut(tail: string): void {
    const { starts, fence } = outlineOf(tail);
    const begin = fence?.end ?? starts.at(-1) ?? 0;
    if (begin > 0) {
      this.chunkOpen().append(renderMarkdown(tail.slice(0, begin), this.before));
      this.cuts.push(this.sealed + begin);
    }
    this.drawn = tail.length - begin;
    this.code = fence !== null && fence.end === null ? new OpenCode(fence, tail) : null;
    const block = this.code?.element ?? renderMarkdown(tail.slice(begin), this.before);
    this.open.replaceChildren(block);
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

  /** Lay out what is left; all of it again where the blocks turn out to depend on each other. */
  private finish(): void {
    const { starts, areIndependent } = outlineOf(this.text);
    const ends = [...starts, this.text.length];
    const isSound = areIndependent && this.cuts.every(cut => ends.includes(cut));
    if (isSound) {
      this.element.querySelectorAll(':scope > .ipyagent-sealed').forEach(unwrap);
      this.open.before(renderMarkdown(this.text.slice(this.sealed), this.before));
    } else {
      this.element.replaceChildren(renderMarkdown(this.text, this.before), this.open);
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
    this.code = null;
  }
}

function unwrap(chunk: Element): void {
  chunk.replaceWith(...chunk.childNodes);
}

/** A block of code that has not been closed: text as it comes, coloured when it is complete. */
class OpenCode {
  readonly element: HTMLElement;

  private code = new StreamedText('ipyagent-open-code');
  private closing: RegExp;
  /** The line that is being written. */
  private line: string;

  constructor({ body, language, markup }: Fence, text: string) {
    this.closing = closes(markup);
    this.code.update(text.slice(body));
    this.line = text.slice(text.lastIndexOf('\n') + 1);
    this.element = listing(language, h('pre', {}, h('code', {}, this.code.element)));
  }

  /** Whether the block ends in what comes next. */
  isClosedBy(added: string): boolean {
    const lines = this.line + added;
    return added.includes('\n') && this.closing.test(lines.slice(0, lines.lastIndexOf('\n')));
  }

  append(added: string): void {
    this.code.update(this.code.text + added);
    const end = added.lastIndexOf('\n');
    this.line = end < 0 ? this.line + added : added.slice(end + 1);
  }
}
