/** Draws unified diffs, with changed words marked. */
import { Child, h } from './dom';
import { groupRuns, showsNothing, linesMark, markOf, reveal, revealWithin } from './reveal';

const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'hunk' };

/** Matches words, runs of space, and single signs. */
const WORDS = /[\p{L}\p{N}_]+|\s+|./gsu;

/** Matches the lines that name two files. */
const FILES = /^(?:--- |\+\+\+ )/;

/** Match the sign of a hunk's line, and lines that count others. */
const SIGN = /^[+\- ]/;
const COUNTED =
  /^[+\- ](⟨[\d,]+ (?:empty lines|lines of invisible characters|lines that show nothing)⟩)$/;

/** Longer lines are not compared by word, and more lines are not coloured. */
const MAX_LINE = 2_000;
const MAX_LINES = 5_000;

/** Lines in a chunk. */
const PART = 500;

/** Draw a whole diff. */
export function diffOf(diff: string): HTMLElement {
  return draw(linesOf(diff));
}

/** Draw a diff of one thing, without its name. */
export function changesOf(diff: string): HTMLElement {
  return draw(hunkLines(linesOf(diff)));
}

function linesOf(diff: string): string[] {
  return withoutEmpty(diff.replace(/\n$/, '').split('\n'));
}

/** Replace consecutive lines that show nothing, with the same sign, by a line that counts them. */
function withoutEmpty(lines: string[]): string[] {
  const isEmpty = (line: string): boolean => SIGN.test(line) && showsNothing(line.slice(1));
  const groups = groupRuns(
    lines,
    (one, other) => one.startsWith(other.charAt(0)) && isEmpty(one) && isEmpty(other)
  );
  return groups.flatMap(group => {
    const name = linesMark(group.map(line => line.slice(1)));
    return name === '' ? group : [`${group[0].charAt(0)}${name}`];
  });
}

/** Draw in chunks, so that the browser lays out only visible ones. */
function draw(lines: string[]): HTMLElement {
  const parts: Child[][] =
    lines.length > MAX_LINES
      ? chunk(lines).map(part => [reveal(`${part.join('\n')}\n`)])
      : chunk(blocks(lines).flatMap(drawBlock));
  const drawn = parts.map(part => h('div', { class: 'ipyagent-diff-part' }, ...part));
  return h('pre', { class: 'ipyagent-pre ipyagent-diff', tabindex: '0' }, ...drawn);
}

function chunk<T>(all: T[]): T[][] {
  const count = Math.ceil(all.length / PART);
  return Array.from({ length: count }, (_, at) => all.slice(at * PART, (at + 1) * PART));
}

/** Return the lines of hunks; positions only if there are several hunks. */
function hunkLines(whole: string[]): string[] {
  const lines = withoutEnds(whole);
  const isHunk = (line: string): boolean => line.startsWith('@@');
  const hunks = lines.slice(Math.max(lines.findIndex(isHunk), 0));
  return hunks.filter(isHunk).length === 1 ? hunks.slice(1) : hunks;
}

/** Drop the note on a missing newline unless the two sides differ in it. */
function withoutEnds(lines: string[]): string[] {
  const isEnd = (line: string): boolean => line.startsWith('\\');
  const signs = lines.filter((_, at) => at + 1 < lines.length && isEnd(lines[at + 1]));
  const has = (sign: string): boolean => signs.some(line => line.startsWith(sign));
  return has('-') === has('+') ? lines.filter(line => !isEnd(line)) : lines;
}

interface Line {
  readonly kind: 'file' | 'change' | 'other';
  readonly text: string;
}

/** Group removed lines with the added lines that replace them. */
function blocks(lines: string[]): Line[][] {
  const all = lines.map((text, at): Line => {
    const kind = isFile(lines, at) ? 'file' : /^[+-]/.test(text) ? 'change' : 'other';
    return { kind, text };
  });
  return groupRuns(
    all,
    (one, other) =>
      one.kind === 'change' &&
      other.kind === 'change' &&
      !(one.text.startsWith('-') && other.text.startsWith('+'))
  );
}

/** Return whether a line names a file: removed lines may look the same, but have no hunk below. */
function isFile(lines: string[], at: number): boolean {
  const first = lines[at].startsWith('+') ? at - 1 : at;
  return (
    [0, 1].every(n => FILES.test(lines[first + n] ?? '')) &&
    (lines[first + 2] ?? '').startsWith('@@')
  );
}

function drawBlock(block: Line[]): HTMLElement[] {
  const lines = block.map(({ text }) => text);
  const [{ kind }] = block;
  const removed = lines.filter(line => line.startsWith('-'));
  const added = lines.slice(removed.length);
  const isPaired = kind === 'change' && removed.length === added.length;
  const others = isPaired ? added.concat(removed) : [];
  return lines.map((line, at) => {
    const text = at in others ? markWords(line, others[at]) : plainLine(line);
    const name = kind === 'file' ? kind : (KINDS[line.charAt(0)] ?? 'same');
    const element = h('span', { class: `ipyagent-diff-line ipyagent-diff-${name}` }, ...text);
    revealWithin(element).append('\n');
    return element;
  });
}

function plainLine(line: string): Child[] {
  const mark = COUNTED.exec(line)?.[1];
  return mark === undefined ? [line] : [line.charAt(0), markOf(mark)];
}

/** Return a line with the words marked that differ from the line that it replaces. */
function markWords(line: string, other: string): Child[] {
  if (line.length > MAX_LINE || other.length > MAX_LINE || COUNTED.test(line)) {
    return plainLine(line);
  }
  const [own, others] = [line, other].map(each => each.slice(1).match(WORDS) ?? []);
  const start = countEqual(own, others);
  const end = countEqual(own.slice(start).reverse(), others.slice(start).reverse());
  const part = (from: number, to: number): string => own.slice(from, to).join('');
  const differs = part(start, own.length - end);
  const isOther = start + end === 0 || start + end === own.length;
  return [
    line.charAt(0),
    part(0, start),
    isOther ? differs : h('mark', { class: 'ipyagent-diff-word' }, differs),
    part(own.length - end, own.length)
  ];
}

/** Count the equal words at the start of both. */
function countEqual(one: string[], other: string[]): number {
  const end = one.findIndex((word, at) => word !== other[at]);
  return end < 0 ? one.length : end;
}
