/** Markdown to safe nodes, whole or block by block while it streams in. */
import MarkdownIt from 'markdown-it';

import { h } from './dom';
import { imageNotLoaded, isDataImage, MAX_HTML, sanitize } from './sanitize';
import { StreamedText } from './stream';

/** Markdown has no HTML here: tags are shown as they were written. */
const parser = new MarkdownIt({ html: false, linkify: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
restrictImages(parser);
alignWithoutStyle(parser, 'th_open');
alignWithoutStyle(parser, 'td_open');

/** `text` as nodes; text that is too long to be laid out stays plain. */
export function renderMarkdown(text: string): DocumentFragment {
  if (text.length <= MAX_HTML) {
    return sanitize(parser.render(text));
  }
  const fragment = document.createDocumentFragment();
  fragment.append(h('div', { class: 'ipyagent-open-text' }, text));
  return fragment;
}

/**
 * Markdown that may still grow. A block is laid out once, when the next one has begun; until then
 * it is shown as it was written.
 */
export class MarkdownText {
  readonly element = h('div', { class: 'ipyagent-markdown' });

  private text = '';
  private finished = false;
  /** Where sealed blocks end, as offsets in the text; the last is where the tail begins. */
  private cuts: number[] = [];
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

  private get sealed(): number {
    return this.cuts.at(-1) ?? 0;
  }

  private grow(added: string): void {
    this.tail.update(this.tail.text + added);
    if (added.includes('\n')) {
      this.seal();
    }
  }

  /** Lay out all blocks of the tail but the last one, which may go on. */
  private seal(): void {
    const begin = blockStarts(this.tail.text).starts.at(-1) ?? 0;
    if (begin > 0) {
      this.tail.element.before(renderMarkdown(this.tail.text.slice(0, begin)));
      this.cuts.push(this.sealed + begin);
      this.tail.update(this.tail.text.slice(begin));
    }
  }

  /** Lay out what is left; all of it again where the blocks turn out to depend on each other. */
  private finish(): void {
    const { starts, areIndependent } = blockStarts(this.text);
    const isSound = areIndependent && this.cuts.every(cut => starts.includes(cut));
    this.tail.update('');
    if (isSound) {
      this.tail.element.before(renderMarkdown(this.text.slice(this.sealed)));
    } else {
      this.element.replaceChildren(renderMarkdown(this.text), this.tail.element);
    }
  }

  private reset(): void {
    this.text = '';
    this.cuts = [];
    this.tail.update('');
    this.element.replaceChildren(this.tail.element);
  }
}

interface Blocks {
  readonly starts: number[];
  readonly areIndependent: boolean;
}

/** The offsets at which the outermost blocks begin, and whether none refers to another. */
function blockStarts(text: string): Blocks {
  if (text.length > MAX_HTML) {
    return { starts: [], areIndependent: false };
  }
  const references: { references?: Record<string, unknown> } = {};
  const offsets = lineOffsets(text);
  const starts = parser
    .parse(text, references)
    .filter(token => token.level === 0 && token.nesting >= 0 && token.map !== null)
    .map(token => offsets[token.map?.[0] ?? 0]);
  return { starts, areIndependent: Object.keys(references.references ?? {}).length === 0 };
}

function lineOffsets(text: string): number[] {
  const offsets = [0];
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) {
    offsets.push(end + 1);
  }
  return offsets;
}

/** An image that would have to be fetched becomes text. */
function restrictImages({ renderer, utils }: MarkdownIt): void {
  const draw = renderer.rules.image;
  renderer.rules.image = (tokens, index, options, env, self) => {
    const url = tokens[index].attrGet('src') ?? '';
    return isDataImage(url) && draw !== undefined
      ? draw(tokens, index, options, env, self)
      : utils.escapeHtml(imageNotLoaded(tokens[index].content, url));
  };
}

/** Columns are aligned by attribute: styles do not pass the sanitizer. */
function alignWithoutStyle({ renderer }: MarkdownIt, rule: 'th_open' | 'td_open'): void {
  renderer.rules[rule] = (tokens, index, options, _env, self) => {
    const side = /\w+$/.exec(tokens[index].attrGet('style') ?? '')?.[0];
    if (side !== undefined) {
      tokens[index].attrSet('align', side);
    }
    return self.renderToken(tokens, index, options);
  };
}
