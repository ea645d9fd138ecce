/**
 * Maths in Markdown: `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. It becomes code in the language `math`,
 * with its delimiters, so that invalid formulas are shown as they were written.
 */
import type MarkdownIt from 'markdown-it';
import type StateBlock from 'markdown-it/lib/rules_block/state_block.mjs';
import type StateInline from 'markdown-it/lib/rules_inline/state_inline.mjs';

/** Maximal length of a formula, so that an unclosed delimiter is not searched for repeatedly. */
const REACH = 5_000;

const CLOSING: Readonly<Record<string, string>> = { $$: '$$', '\\[': '\\]', '\\(': '\\)' };

/** Add rules for maths to `parser`. */
export function withMaths(parser: MarkdownIt): void {
  // Added before escapes, which would turn `\(` into a bracket.
  parser.inline.ruler.before('escape', 'maths', inline);
  const alt = ['paragraph', 'reference', 'blockquote', 'list'];
  parser.block.ruler.before('fence', 'maths_block', block, { alt });
  const { escapeHtml } = parser.utils;
  parser.renderer.rules.maths = (tokens, index) =>
    `<code class="language-math">${escapeHtml(tokens[index].content)}</code>`;
  parser.renderer.rules.maths_block = (tokens, index) =>
    `<pre><code class="language-math">${escapeHtml(tokens[index].content)}</code></pre>\n`;
}

function inline(state: StateInline, silent: boolean): boolean {
  const { src, pos, posMax } = state;
  const rest = src.slice(pos, Math.min(posMax, pos + REACH));
  const length = lengthOf(rest, src.charAt(pos - 1));
  if (length === 0) {
    return false;
  }
  if (!silent) {
    state.push('maths', 'code', 0).content = rest.slice(0, length);
  }
  state.pos += length;
  return true;
}

/** Return the length of the formula at the start of `text`, or 0. */
function lengthOf(text: string, before: string): number {
  const opening = text.slice(0, 2);
  if (Object.hasOwn(CLOSING, opening)) {
    const end = text.indexOf(CLOSING[opening], 2);
    return end > 2 ? end + 2 : 0;
  }
  return text.startsWith('$') && !/\w/.test(before) ? dollars(text) : 0;
}

/**
 * Return the length between single dollars. The next dollar closes it or there is none: no space
 * inside beside a dollar, no digit or letter after the last, so that "$5 and $10" are prices.
 */
function dollars(text: string): number {
  return /^\$(?![\s$])(?:[^$\\`]|\\[^])*?(?<!\s)\$(?![\w$])/.exec(text)?.[0].length ?? 0;
}

/** Parse maths on lines of its own. A blank line ends a paragraph before it ends a formula. */
function block(state: StateBlock, first: number, last: number, silent: boolean): boolean {
  const begin = state.bMarks[first] + state.tShift[first];
  const opening = state.src.slice(begin, begin + 2);
  if ((opening !== '$$' && opening !== '\\[') || state.sCount[first] - state.blkIndent >= 4) {
    return false;
  }
  const end = lastLine(state, first, last, CLOSING[opening]);
  if (end < 0) {
    return false;
  }
  if (!silent) {
    const token = state.push('maths_block', 'code', 0);
    token.block = true;
    token.content = state.getLines(first, end + 1, state.blkIndent, false);
    token.map = [first, end + 1];
    state.line = end + 1;
  }
  return true;
}

/** Return the line on which the formula ends, or -1. */
function lastLine(state: StateBlock, first: number, last: number, closing: string): number {
  for (let line = first; line < last && !state.isEmpty(line); line += 1) {
    const begin = state.bMarks[line] + state.tShift[line] + (line === first ? 2 : 0);
    const text = state.src.slice(begin, state.eMarks[line]);
    const at = text.indexOf(closing);
    if (at >= 0) {
      return text.slice(at + 2).trim() === '' ? line : -1;
    }
    if (line > first && state.sCount[line] < state.blkIndent) {
      return -1;
    }
  }
  return -1;
}
