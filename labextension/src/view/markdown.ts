/** Markdown to safe nodes, whole or block by block while it streams in. */
import { Marked, Token, Tokens, TokensList } from 'marked';

import { h } from './dom';
import { imageNotLoaded, isDataImage, MAX_HTML, sanitize } from './sanitize';
import { StreamedText } from './stream';

const marked = new Marked({
  async: false,
  gfm: true,
  renderer: {
    // Markdown has no HTML here: tags are shown as they were written.
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escape(text),
    image({ href, text }: Tokens.Image): string | false {
      return isDataImage(href) ? false : escape(imageNotLoaded(text, href));
    }
  }
});

/** `text` as nodes; text that is too long or too deeply nested to be laid out stays plain. */
export function renderMarkdown(text: string): DocumentFragment {
  try {
    return renderTokens(lex(text));
  } catch {
    return plain(text);
  }
}

/**
 * Markdown that may still grow. A block is laid out once, when the next one has begun; until then
 * it is shown as it was written.
 */
export class MarkdownText {
  readonly element = h('div', { class: 'ipyagent-markdown' });

  private text = '';
  private sealed: string[] = [];
  private finished = false;
  private tail = new StreamedText('ipyagent-open-text');

  constructor() {
    this.element.append(this.tail.element);
  }

  /** Show `source`; `finished` when nothing will follow. */
  update(source: string, finished: boolean): void {
    const text = source.replace(/\r\n?/g, '\n');
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

  private grow(added: string): void {
    this.tail.update(this.tail.text + added);
    if (added.includes('\n')) {
      this.seal();
    }
  }

  /** Lay out all blocks of the tail but the last one, which may go on. */
  private seal(): void {
    const tokens = attempt(() => lex(this.tail.text));
    const last = tokens?.findLastIndex(token => token.type !== 'space') ?? 0;
    const complete = tokens?.slice(0, last) ?? [];
    const raw = complete.map(token => token.raw);
    const rest = this.tail.text.slice(raw.join('').length);
    if (complete.length > 0 && this.tail.text === raw.join('') + rest) {
      this.tail.element.before(renderTokens(complete));
      this.sealed.push(...raw);
      this.tail.update(rest);
    }
  }

  /** Lay out what is left; all of it again where the blocks turn out to depend on each other. */
  private finish(): void {
    const tokens = attempt(() => lex(this.text));
    const unchanged = tokens?.slice(0, this.sealed.length).map(token => token.raw);
    const independent = tokens !== null && Object.keys(tokens.links).length === 0;
    this.tail.update('');
    if (independent && this.sealed.every((raw, i) => raw === unchanged?.[i])) {
      this.tail.element.before(renderTokens(tokens.slice(this.sealed.length)));
    } else {
      this.element.replaceChildren(renderMarkdown(this.text), this.tail.element);
    }
    this.sealed = tokens?.map(token => token.raw) ?? [];
  }

  private reset(): void {
    this.text = '';
    this.sealed = [];
    this.tail.update('');
    this.element.replaceChildren(this.tail.element);
  }
}

function lex(text: string): TokensList {
  if (text.length > MAX_HTML) {
    throw new RangeError('too long to be laid out');
  }
  return marked.lexer(text);
}

function renderTokens(tokens: Token[]): DocumentFragment {
  try {
    return sanitize(marked.parser(tokens));
  } catch {
    return plain(tokens.map(token => token.raw).join(''));
  }
}

function plain(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(h('div', { class: 'ipyagent-open-text' }, text));
  return fragment;
}

function attempt<T>(action: () => T): T | null {
  try {
    return action();
  } catch {
    return null;
  }
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`);
}
