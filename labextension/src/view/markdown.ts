/** Renders Markdown as safe nodes. */
import MarkdownIt, { type Token } from 'markdown-it';

import { withMaths } from './delimiters';
import type { AnswerNumber } from '../protocol';
import { h } from './dom';
import { nameNumbers, withNumbers } from './numbers';
import { revealProse, revealProseWithin } from './prose';
import { keepHtml, Before, MAX_HTML, sanitize } from './sanitize';

/** HTML is off: tags are shown as text. */
const parser = new MarkdownIt({ html: false, linkify: true });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
withMaths(parser);
withNumbers(parser);
alignWithoutStyle(parser, 'th_open');
alignWithoutStyle(parser, 'td_open');

/** A fast parser that finds only the outermost blocks. */
const outline = new MarkdownIt({ html: false });
withMaths(outline);
outline.core.ruler.enableOnly(['normalize', 'block']);

/** Return `text` as nodes, with its numbers marked; too long texts stay plain. */
export function renderMarkdown(
  text: string,
  before: Before = keepHtml,
  numbers: readonly AnswerNumber[] = []
): DocumentFragment {
  if (text.length <= MAX_HTML) {
    const fragment = sanitize(parser.render(text, { numbers }), before);
    nameNumbers(fragment, numbers);
    fragment.querySelectorAll('table').forEach(makeScrollable);
    return revealProseWithin(fragment);
  }
  const fragment = document.createDocumentFragment();
  fragment.append(h('div', { class: 'ipyagent-plain' }, revealProse(text)));
  return fragment;
}

/** Put a table into a box, which the keyboard can scroll. */
function makeScrollable(table: Element): void {
  const attributes = { role: 'group', 'aria-label': 'Table', tabindex: '0' };
  const box = h('div', { class: 'ipyagent-table', ...attributes });
  table.replaceWith(box);
  box.append(table);
}

interface Outline {
  /** The offsets at which the outermost blocks begin. */
  readonly starts: number[];
  /** No block refers to another. */
  readonly areIndependent: boolean;
  /** The offset after the last block if that is fenced code with its end; else null. */
  readonly end: number | null;
}

/** Find the outermost blocks of `text`. */
export function outlineOf(text: string): Outline {
  if (text.length > MAX_HTML) {
    return { starts: [], areIndependent: false, end: null };
  }
  const env: { references?: Record<string, unknown> } = {};
  const offsets = lineOffsets(text);
  const tokens = outline
    .parse(text, env)
    .filter(token => token.level === 0 && token.nesting >= 0 && token.map !== null);
  return {
    starts: tokens.map(token => offsets[token.map?.[0] ?? 0]),
    areIndependent: Object.keys(env.references ?? {}).length === 0,
    end: endOfFence(tokens.at(-1), text, offsets)
  };
}

/** Return the offset after fenced code; null while its last line is not there, and for others. */
function endOfFence(token: Token | undefined, text: string, offsets: number[]): number | null {
  if (token?.type !== 'fence' || token.map === null) {
    return null;
  }
  const [first, after] = token.map;
  const { markup } = token;
  const closing = new RegExp(`^ {0,3}${markup.charAt(0)}{${markup.length},}[ \\t]*\n$`);
  const last = text.slice(offsets[after - 1], offsets[after]);
  return after - first > 1 && closing.test(last) ? offsets[after] : null;
}

function lineOffsets(text: string): number[] {
  const offsets = [0];
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', end + 1)) {
    offsets.push(end + 1);
  }
  return offsets;
}

/** Align columns by attribute, as the sanitizer removes styles. */
function alignWithoutStyle({ renderer }: MarkdownIt, rule: 'th_open' | 'td_open'): void {
  renderer.rules[rule] = (tokens, index, options, _env, self) => {
    const side = /\w+$/.exec(tokens[index].attrGet('style') ?? '')?.[0];
    if (side !== undefined) {
      tokens[index].attrSet('align', side);
    }
    return self.renderToken(tokens, index, options);
  };
}
