/**
 * Marks hidden characters, floods and look-alikes in text that users decide on.
 * `ipyagent.ui.reveal` does the same; `tests/ui/reveal_cases.json` tests both, and its limits and
 * look-alikes are generated from there.
 */
import table from '../reveal.json';
import { count, h } from './dom';

/**
 * Controls, format characters (bidi, zero-width, tags), line separators, lone surrogates,
 * unassigned code points, and characters that fonts draw as nothing, but not newline and tab.
 */
const HIDDEN_KINDS =
  '\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800';
const HIDDEN_ONE = `(?![\\n\\t])[${HIDDEN_KINDS}]`;
const HIDDEN = new RegExp(HIDDEN_ONE, 'gu');

const {
  empty_lines: EMPTY_LINES,
  blanks: BLANKS,
  same: SAME,
  mixed: MIXED,
  stacked: STACKED,
  turns: TURNS
} = table;

const COMBINING = `(?![${HIDDEN_KINDS}])[\\p{Mn}\\p{Me}]`;
const RUNS = new RegExp(
  [
    `(?<blanks>[\\p{Zs}\\t]{${BLANKS + 1},})`,
    `(?<combining>(?:${COMBINING}){${STACKED + 1},})`,
    `(?<hidden>(?:${HIDDEN_ONE})+)`
  ].join('|'),
  'gu'
);
const BLANK = '[\\p{Zs}\\t]';
const FAINT = new RegExp(
  `(?:${BLANK}|${HIDDEN_ONE}|${COMBINING}){${TURNS + 1},}|(?:${HIDDEN_ONE})+`,
  'gu'
);
const TURN = new RegExp(`${BLANK}+|(?:${HIDDEN_ONE})+|(?:${COMBINING})+`, 'gu');
const NOTHING = /^[\p{Zs}\t]*$/u;
const INVISIBLE = new RegExp(`^(?:[\\s\\t]|${HIDDEN_ONE})*$`, 'u');

const LOOKALIKES = new Set(table.lookalikes);
const NAME = /[\p{L}\p{Nl}\p{No}_](?:[\p{L}\p{N}_.]*[\p{L}\p{N}_])?/gu;
const PART = /[\p{L}\p{Nl}\p{No}]+/gu;
const LATIN = /[A-Za-z\u00c0-\u024f]/;
const GREEK = /^[\u0370-\u03ff]$/;

/** The number of marks that are drawn as elements; a page holds only so many. */
const MARKS = 2_000;

/** Matches texts that may have something to mark; most have not. */
const UNUSUAL = new RegExp(
  `[^\\n\\t -~]|[ \\t]{${BLANKS + 1}}|(?:^|\\n)[ \\t]*(?:\\n[ \\t]*){${EMPTY_LINES}}`
);

/** A range of text that is drawn as a mark. */
interface Mark {
  readonly start: number;
  readonly end: number;
  readonly name: string;
}

/** Return `text` with every hidden character as ⟨U+202E⟩, in an element of its own. */
export function reveal(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(text);
  return revealWithin(fragment);
}

/** Do the same in place for all text below `root`. */
export function revealWithin<T extends Node>(root: T): T {
  if (!UNUSUAL.test(root.textContent ?? '')) {
    return root;
  }
  const texts = textNodes(root);
  const marks = marksIn(texts.map(({ data }) => data).join(''));
  let start = 0;
  let next = 0;
  for (const text of marks.length > 0 ? texts : []) {
    const end = start + text.data.length;
    const first = next;
    while (next < marks.length && marks[next].end <= end) {
      next++;
    }
    // A mark across text nodes is drawn in the first.
    const own = marks.slice(first, next + 1).filter(mark => mark.start < end);
    if (own.length > 0) {
      text.replaceWith(drawMarks(text.data, start, own, MARKS - first));
    }
    start = end;
  }
  return root;
}

/** Return `reveal` as a string, for attributes. */
export function revealText(text: string): string {
  return reveal(text).textContent;
}

/** Return `reveal` of our own text, in which backticks mark code. */
export function withInlineCode(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  text.split(/`([^`\n]+)`/).forEach((part, at) => {
    const shown = reveal(part);
    fragment.append(at % 2 === 0 ? shown : h('code', { class: 'ipyagent-typed' }, shown));
  });
  return fragment;
}

/** Escape hidden characters in JSON, which keeps its value. */
export function hiddenAsEscapes(json: string): string {
  const escape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return json.replace(HIDDEN, character => character.split('').map(escape).join(''));
}

/** Return an element that names hidden characters. */
export function markOf(name: string): HTMLElement {
  return h('span', { class: 'ipyagent-hidden-character' }, name);
}

/** Return whether a line shows nothing. */
export function showsNothing(line: string): boolean {
  return INVISIBLE.test(line);
}

/** Return one mark for lines that show nothing; "" if they are drawn one by one. */
export function linesMark(lines: readonly string[]): string {
  if (lines.length <= EMPTY_LINES || !showsNothing(lines[0])) {
    return '';
  }
  const empty = lines.filter(line => NOTHING.test(line)).length;
  const noun =
    empty === lines.length
      ? 'empty lines'
      : empty === 0
        ? 'lines of invisible characters'
        : 'lines that show nothing';
  return `⟨${count(lines.length)} ${noun}⟩`;
}

/** Group consecutive items, each of which goes with the one before it. */
export function groupRuns<T>(
  items: readonly T[],
  goesWith: (item: T, before: T) => boolean
): T[][] {
  const groups: T[][] = [];
  items.forEach((item, at) => {
    if (at > 0 && goesWith(item, items[at - 1])) {
      groups.at(-1)?.push(item);
    } else {
      groups.push([item]);
    }
  });
  return groups;
}

function marksIn(text: string): Mark[] {
  const marks: Mark[] = [];
  const lines = text.replace(/\n$/, '').split('\n');
  let start = 0;
  for (const group of groupRuns(lines, (one, other) => showsNothing(one) && showsNothing(other))) {
    const name = linesMark(group);
    if (name !== '') {
      marks.push({ start, end: start + group.join('\n').length, name });
    }
    for (const line of group) {
      marks.push(...(name === '' ? marksInLine(line, start) : []));
      start += line.length + 1;
    }
  }
  return marks;
}

function marksInLine(line: string, offset: number): Mark[] {
  const runs = Array.from(line.matchAll(FAINT), ({ 0: run, index }) =>
    marksOfFaint(run, offset + index)
  );
  const marks = [...runs.flat(), ...lookalikes(line, offset)];
  return marks.sort((one, other) => one.start - other.start);
}

/** Mark consecutive characters that show nothing, or next to nothing. */
function marksOfFaint(run: string, start: number): Mark[] {
  if (run.length > TURNS && (run.match(TURN)?.length ?? 0) > TURNS) {
    const size = Array.from(run).length;
    const name = `⟨${count(size)} characters that show nothing⟩`;
    return [{ start, end: start + run.length, name }];
  }
  return Array.from(run.matchAll(RUNS), ({ 0: same, index, groups = {} }) =>
    marksOfRun(same, start + index, groups)
  ).flat();
}

/** Mark consecutive characters of one kind: together, or each by itself. */
function marksOfRun(
  run: string,
  start: number,
  { blanks, combining }: Partial<Record<string, string>>
): Mark[] {
  const characters = Array.from(run);
  const size = characters.length;
  const one = (name: string): Mark[] => [{ start, end: start + run.length, name: `⟨${name}⟩` }];
  if (blanks !== undefined) {
    return one(`${count(size)} blanks`);
  }
  if (size > SAME && new Set(characters).size === 1) {
    return one(`${count(size)} × ${codeOf(characters[0])}`);
  }
  if (combining !== undefined) {
    return one(`${count(size)} combining marks`);
  }
  return size > MIXED ? one(`${count(size)} invisible characters`) : markEach(characters, start);
}

/** Mark letters that look Latin in names that also have Latin letters. */
function lookalikes(line: string, offset: number): Mark[] {
  const names = /[\u0370-\u058f]/.test(line) ? Array.from(line.matchAll(NAME)) : [];
  return names
    .filter(([name]) => LATIN.test(name))
    .flatMap(({ 0: name, index: at }) =>
      Array.from(name.matchAll(PART), ({ 0: part, index }) =>
        looksLatin(part) ? markEach(Array.from(part), offset + at + index) : []
      ).flat()
    );
}

/**
 * Return whether a part could pass for Latin. A single Greek letter is a symbol, and a letter that
 * is plainly not Latin gives the part away.
 */
function looksLatin(part: string): boolean {
  const foreign = Array.from(part).filter(letter => !LATIN.test(letter));
  return !GREEK.test(part) && foreign.every(letter => LOOKALIKES.has(letter));
}

/** Return a mark for each character but Latin letters. */
function markEach(characters: string[], start: number): Mark[] {
  let end = start;
  const marks = characters.map(character => {
    end += character.length;
    return { start: end - character.length, end, name: `⟨${codeOf(character)}⟩` };
  });
  return marks.filter((_, at) => !LATIN.test(characters[at]));
}

function codeOf(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return `U+${code}`;
}

/** Draw a text that begins at `offset`: the first `elements` marks as elements. */
function drawMarks(
  text: string,
  offset: number,
  marks: Mark[],
  elements: number
): DocumentFragment {
  const fragment = document.createDocumentFragment();
  let plain = '';
  let at = 0;
  marks.forEach(({ start, end, name }, index) => {
    plain += text.slice(at, Math.max(start - offset, 0));
    at = Math.min(end - offset, text.length);
    if (start < offset) {
      return;
    }
    if (index < elements) {
      fragment.append(plain, markOf(name));
      plain = '';
    } else {
      plain += name;
    }
  });
  fragment.append(plain + text.slice(at));
  return fragment;
}

function textNodes(root: Node): Text[] {
  const texts: Text[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    texts.push(walker.currentNode as Text);
  }
  return texts;
}
