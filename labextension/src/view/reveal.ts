/**
 * What a person decides on, drawn so that nothing in it hides, floods the page or deceives.
 *
 * `ipyagent.ui.reveal` draws the same; `tests/ui/reveal_cases.json` holds for both.
 */
import { count, h } from './dom';

/**
 * Controls, format characters (bidi, zero-width, tags), line separators, lone surrogates, code
 * points without a meaning, and what fonts draw as nothing. A newline and a tab are what they look
 * like.
 */
const HIDDEN_KINDS =
  '\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800';
const HIDDEN_ONE = `(?![\\n\\t])[${HIDDEN_KINDS}]`;
const HIDDEN = new RegExp(HIDDEN_ONE, 'gu');

/** How many of a kind are drawn one by one; more in a row become one mark. */
const EMPTY_LINES = 3;
const BLANKS = 40;
const SAME = 3;
const MIXED = 40;
const STACKED = 8;
/** How often kinds of characters that show nothing may take turns. */
const TURNS = 8;

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

/** Letters that are drawn like Latin ones (Unicode TS 39, confusables.txt), Cyrillic and Greek. */
const LOOKALIKES = new Set('асеорхуіјѕһԁԛԝѵӏАВЕКМНОРСТХУІЈЅҮӀԌԚԜѴ' + 'ονϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧͿ');
const NAME = /[\p{L}\p{Nl}\p{No}_](?:[\p{L}\p{N}_.]*[\p{L}\p{N}_])?/gu;
const PART = /[\p{L}\p{Nl}\p{No}]+/gu;
const LATIN = /[A-Za-z\u00c0-\u024f]/;
const GREEK = /^[\u0370-\u03ff]$/;

/** After so many marks the rest is one text: each mark is an element, and a page holds only so many. */
const MARKS = 2_000;

/** Most texts have nothing to mark: they are known at a glance. */
const UNUSUAL = /[^\n\t -~]|[ \t]{41}|(?:^|\n)[ \t]*(?:\n[ \t]*){3}/;

/** A part of a text that is drawn as a mark. */
interface Mark {
  readonly start: number;
  readonly end: number;
  readonly name: string;
}

/** `text` with every hidden character as ⟨U+202E⟩, set off from the text around it. */
export function reveal(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(text);
  return revealWithin(fragment);
}

/** The same for all text below `root`, in place. */
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
    // One that goes on in the next text is drawn where it begins.
    const own = marks.slice(first, next + 1).filter(mark => mark.start < end);
    if (own.length > 0) {
      text.replaceWith(drawn(text.data, start, own, MARKS - first));
    }
    start = end;
  }
  return root;
}

/** `reveal` as text, for places that take no elements. */
export function revealText(text: string): string {
  return reveal(text).textContent;
}

/** `reveal` of our own words, in which backticks are around what can be typed. */
export function withInlineCode(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  text.split(/`([^`\n]+)`/).forEach((part, at) => {
    const shown = reveal(part);
    fragment.append(at % 2 === 0 ? shown : h('code', { class: 'ipyagent-typed' }, shown));
  });
  return fragment;
}

/** JSON with hidden characters as escapes: the same value, and all of it can be seen. */
export function hiddenAsEscapes(json: string): string {
  const escaped = (unit: string): string =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return json.replace(HIDDEN, character => character.split('').map(escaped).join(''));
}

/** An element that stands for what cannot be seen. */
export function markOf(name: string): HTMLElement {
  return h('span', { class: 'ipyagent-hidden-character' }, name);
}

/** Whether a line shows nothing. */
export function isFaint(line: string): boolean {
  return INVISIBLE.test(line);
}

/** Lines that show nothing as one mark; "" where they are drawn one by one. */
export function linesMark(lines: readonly string[]): string {
  if (lines.length <= EMPTY_LINES || !isFaint(lines[0])) {
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

function marksIn(text: string): Mark[] {
  const marks: Mark[] = [];
  const lines = text.replace(/\n$/, '').split('\n');
  let start = 0;
  for (let at = 0; at < lines.length;) {
    const faint = isFaint(lines[at]);
    let next = at + 1;
    let end = start + lines[at].length;
    while (faint && next < lines.length && isFaint(lines[next])) {
      end += 1 + lines[next].length;
      next++;
    }
    const name = linesMark(lines.slice(at, next));
    if (name !== '') {
      marks.push({ start, end, name });
    } else {
      for (const line of lines.slice(at, next)) {
        marks.push(...marksInLine(line, start));
        start += line.length + 1;
      }
    }
    start = end + 1;
    at = next;
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

/** Characters that show nothing, or next to nothing, and follow each other. */
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

/** Characters of one kind that follow each other: one mark, or one for each. */
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
  return size > MIXED ? one(`${count(size)} invisible characters`) : each(characters, start);
}

/** Letters that look Latin and are not, in names that have Latin letters as well. */
function lookalikes(line: string, offset: number): Mark[] {
  const names = /[\u0370-\u058f]/.test(line) ? Array.from(line.matchAll(NAME)) : [];
  return names
    .filter(([name]) => LATIN.test(name))
    .flatMap(({ 0: name, index: at }) =>
      Array.from(name.matchAll(PART), ({ 0: part, index }) =>
        looksLatin(part) ? each(Array.from(part), offset + at + index) : []
      ).flat()
    );
}

/**
 * One Greek letter by itself is a symbol. Where another letter is plainly no Latin one, the whole
 * cannot be taken for Latin.
 */
function looksLatin(part: string): boolean {
  const foreign = Array.from(part).filter(letter => !LATIN.test(letter));
  return !GREEK.test(part) && foreign.every(letter => LOOKALIKES.has(letter));
}

/** A mark for each character but Latin letters. */
function each(characters: string[], start: number): Mark[] {
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

/** A text that begins at `offset`, with its marks: the first `elements` as elements. */
function drawn(text: string, offset: number, marks: Mark[], elements: number): DocumentFragment {
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
