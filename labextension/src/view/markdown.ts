/** Markdown to safe nodes. */
import MarkdownIt, { type Token } from 'markdown-it';

import { withMaths } from './delimiters';
import { h } from './dom';
import { revealProse, revealProseWithin } from './prose';
import { asItIs, Before, imageNotLoaded, isDataImage, MAX_HTML, sanitize } from './sanitize';

/** Markdown has no HTML here: tags are shown as they were written. */
const parser = new MarkdownIt({ html: false, linkify: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
withMaths(parser);
restrictImages(parser);
alignWithoutStyle(parser, 'th_open');
alignWithoutStyle(parser, 'td_open');

/** The same language, but only its outermost blocks are found: a small part of the work. */
const outline = new MarkdownIt({ html: false });
withMaths(outline);
outline.core.ruler.enableOnly(['normalize', 'block']);

/** `text` as nodes; text that is too long to be laid out stays plain. */
export function renderMarkdown(text: string, before: Before = asItIs): DocumentFragment {
  if (text.length <= MAX_HTML) {
    return revealProseWithin(sanitize(parser.render(text), before));
  }
  const fragment = document.createDocumentFragment();
  fragment.append(h('div', { class: 'ipyagent-plain' }, revealProse(text)));
  return fragment;
}

/** A block of code between fences. */
export interface Fence {
  /** Where its own first line begins. */
  readonly body: number;
  readonly language: string;
  readonly markup: string;
  /** Where the line after its end begins; null while it goes on. */
  readonly end: number | null;
}

export interface Outline {
  /** The offsets at which the outermost blocks begin. */
  readonly starts: number[];
  /** No block refers to another. */
  readonly areIndependent: boolean;
  /** The last block, where it is one of code between fences. */
  readonly fence: Fence | null;
}

/** The outermost blocks of `text`. */
export function outlineOf(text: string): Outline {
  if (text.length > MAX_HTML) {
    return { starts: [], areIndependent: false, fence: null };
  }
  const env: { references?: Record<string, unknown> } = {};
  const offsets = lineOffsets(text);
  const tokens = outline
    .parse(text, env)
    .filter(token => token.level === 0 && token.nesting >= 0 && token.map !== null);
  return {
    starts: tokens.map(token => offsets[token.map?.[0] ?? 0]),
    areIndependent: Object.keys(env.references ?? {}).length === 0,
    fence: fenceOf(tokens.at(-1), text, offsets)
  };
}

/** Null also for a fence whose first line has not ended: its language may go on. */
function fenceOf(token: Token | undefined, text: string, offsets: number[]): Fence | null {
  if (token?.type !== 'fence' || token.map === null) {
    return null;
  }
  const [first, after] = token.map;
  if (first + 1 >= offsets.length) {
    return null;
  }
  const last = text.slice(offsets[after - 1], offsets[after]);
  const isClosed = after - first > 1 && last.endsWith('\n') && closes(token.markup).test(last);
  return {
    body: offsets[first + 1],
    language: /^[\w+-]*/.exec(token.info.trim())?.[0] ?? '',
    markup: token.markup,
    end: isClosed ? offsets[after] : null
  };
}

/** A line that ends a block of code which began with `markup`. */
export function closes(markup: string): RegExp {
  return new RegExp(`^ {0,3}${markup.charAt(0)}{${markup.length},}[ \\t]*$`, 'm');
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
