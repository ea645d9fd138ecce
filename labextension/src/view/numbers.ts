/**
 * Marks the numbers of an answer, by their places in its Markdown: never in code, addresses or
 * formulas. The parser makes `<data value="0">` of a number, and no other text can become that; once
 * it is sanitized, it is named after where it comes from. As `ui/marked_numbers.py`.
 */
import type MarkdownIt from 'markdown-it';
import type StateCore from 'markdown-it/lib/rules_core/state_core.mjs';
import type StateInline from 'markdown-it/lib/rules_inline/state_inline.mjs';

import type { AnswerNumber } from '../protocol';
import { h } from './dom';
import { revealText } from './reveal';

/** The parser's environment: all numbers; the block that is parsed, and the numbers in it. */
interface Marks {
  readonly numbers: readonly AnswerNumber[];
  block: string;
  /** The indices of numbers, by their places. */
  places: ReadonlyMap<number, number>;
  /** The place of the next number, by place; undefined if there is none in the block. */
  following: Int32Array | undefined;
}

type Rule = (state: StateInline, silent: boolean) => boolean;

/** Add rules to `parser` that mark the numbers in its environment. */
export function withNumbers(parser: MarkdownIt): void {
  const [text] = parser.inline.ruler.getRules('');
  parser.core.ruler.at('inline', parseBlocks);
  parser.inline.ruler.at('text', (state, silent) => upToNumber(text, state, silent));
  // Last: a dollar may begin a formula.
  parser.inline.ruler.push('number', number);
}

/** Parse the text of each block, with the places of the numbers in it. */
function parseBlocks({ src, md, env, tokens }: StateCore): void {
  const marks = env as Partial<Marks>;
  const starts = startsIn(src, marks.numbers ?? []);
  const lines = starts.length > 0 ? lineOffsets(src) : [];
  let [at, end, next] = [0, 0, 0];
  for (const { type, map, content, children } of tokens) {
    if (map !== null && starts.length > 0) {
      [at, end] = [Math.max(at, lines[map[0]]), lines[map[1]] ?? src.length];
    }
    if (type === 'inline') {
      const places = new Map<number, number>();
      let begin = 0;
      for (const line of starts.length > 0 ? content.split('\n') : []) {
        const found = src.slice(at, end).indexOf(line);
        const from = at + found;
        at = found < 0 ? end : from + line.length;
        for (; starts[next] < at; next++) {
          if (found >= 0 && starts[next] >= from) {
            places.set(begin + starts[next] - from, next);
          }
        }
        begin += line.length + 1;
      }
      const following = places.size > 0 ? nextPlaces(places, content.length) : undefined;
      Object.assign(marks, { block: content, places, following });
      md.inline.parse(content, md, env, children ?? []);
    }
  }
}

function nextPlaces(places: ReadonlyMap<number, number>, length: number): Int32Array {
  const following = new Int32Array(length + 1).fill(length);
  for (let place = length - 1; place >= 0; place--) {
    following[place] = places.has(place + 1) ? place + 1 : following[place + 1];
  }
  return following;
}

/** Return where numbers begin in UTF-16, as JavaScript counts; Python counts characters. */
function startsIn(text: string, numbers: readonly AnswerNumber[]): number[] {
  let [at, characters] = [0, 0];
  return numbers.map(({ start }) => {
    for (; characters < start && at < text.length; characters++) {
      at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    }
    return at;
  });
}

function lineOffsets(text: string): number[] {
  return [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
}

/** Return the index of the number that begins here, if it is to be marked. */
function indexAt({ env, src, pos, posMax }: StateInline, end = posMax): number | null {
  const { block, places, numbers } = env as Partial<Marks>;
  const index = (block === src ? places?.get(pos) : null) ?? null;
  const text = index === null ? '' : (numbers?.[index].text ?? '');
  return text !== '' && pos + text.length <= end && src.startsWith(text, pos) ? index : null;
}

/** Parse text, but not beyond the beginning of a number. */
function upToNumber(text: Rule, state: StateInline, silent: boolean): boolean {
  const { block, following } = state.env as Partial<Marks>;
  const { pos, posMax, src } = state;
  if (block !== src || following === undefined) {
    return text(state, silent);
  }
  state.posMax = Math.min(posMax, following[pos]);
  const isText = indexAt(state, posMax) === null && text(state, silent);
  state.posMax = posMax;
  return isText;
}

function number(state: StateInline, silent: boolean): boolean {
  const index = indexAt(state);
  if (index === null) {
    return false;
  }
  const { text } = (state.env as Marks).numbers[index];
  if (!silent) {
    state.push('number_open', 'data', 1).attrs = [['value', String(index)]];
    state.push('text', '', 0).content = text;
    state.push('number_close', 'data', -1);
  }
  state.pos += text.length;
  return true;
}

/** Name the numbers in sanitized nodes after where they come from. */
export function nameNumbers(nodes: DocumentFragment, numbers: readonly AnswerNumber[]): void {
  nodes.querySelectorAll('data').forEach(element => {
    const found = numbers[Number(element.value)] as AnswerNumber | undefined;
    if (found !== undefined) {
      const kind = `ia-traced ia-${found.trace.replace(' ', '-')}`;
      const attributes = { class: kind, title: revealText(found.title), tabindex: '0' };
      const tag = found.trace === 'not found' ? 'u' : 'span';
      element.replaceWith(h(tag, attributes, ...element.childNodes));
    }
  });
}
