/** Unified diffs: the lines that a change takes and gives, and in them the words. */
import { Child, h } from './dom';
import { isFaint, linesMark, markOf, reveal, revealWithin } from './reveal';

const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'hunk' };

/** Words, runs of space, and single signs. */
const WORDS = /[\p{L}\p{N}_]+|\s+|./gsu;

/** The names of two files, which no line of a hunk can be taken for. */
const FILES = /^(?:--- |\+\+\+ )/;

/** Of a line of a hunk, and such a line that counts others. */
const SIGN = /^[+\- ]/;
const COUNTED =
  /^[+\- ](⟨[\d,]+ (?:empty lines|lines of invisible characters|lines that show nothing)⟩)$/;

/** Longer lines are not looked at word by word, and more of them are not coloured. */
const MAX_LINE = 2_000;
const MAX_LINES = 5_000;

/** Lines that stand together. */
const PART = 500;

/** A whole diff. */
export function diffOf(diff: string): HTMLElement {
  return draw(linesOf(diff));
}

/** That of one thing, whose name need not be said. */
export function changesOf(diff: string): HTMLElement {
  return draw(body(linesOf(diff)));
}

function linesOf(diff: string): string[] {
  return withoutEmpty(diff.replace(/\n$/, '').split('\n'));
}

/** Lines that show nothing and follow each other with the same sign are one that counts them. */
function withoutEmpty(lines: string[]): string[] {
  const shown: string[] = [];
  for (let at = 0; at < lines.length;) {
    const sign = SIGN.exec(lines[at])?.[0] ?? '';
    const body = (line: string): string => line.slice(sign.length);
    const faint = isFaint(body(lines[at]));
    const isSame = (line: string): boolean => faint && line.startsWith(sign) && isFaint(body(line));
    let end = at + 1;
    while (sign !== '' && end < lines.length && isSame(lines[end])) {
      end++;
    }
    const name = linesMark(lines.slice(at, end).map(body));
    shown.push(...(name === '' ? lines.slice(at, end) : [`${sign}${name}`]));
    at = end;
  }
  return shown;
}

/** In parts, so that of a long one only what is seen has to be laid out. */
function draw(lines: string[]): HTMLElement {
  const parts = lines.length > MAX_LINES ? inParts(lines).map(plain) : inParts(coloured(lines));
  const drawn = parts.map(part => h('div', { class: 'ipyagent-diff-part' }, ...part));
  return h('pre', { class: 'ipyagent-pre ipyagent-diff', tabindex: '0' }, ...drawn);
}

function inParts<T>(all: T[]): T[][] {
  const count = Math.ceil(all.length / PART);
  return Array.from({ length: count }, (_, at) => all.slice(at * PART, (at + 1) * PART));
}

function plain(lines: string[]): Child[] {
  return [reveal(`${lines.join('\n')}\n`)];
}

function coloured(lines: string[]): Child[] {
  return blocks(lines).flatMap(drawBlock);
}
/** Its lines; where they are is said only of several parts. */
function body(whole: string[]): string[] {
  const lines = withoutEnds(whole);
  const isHunk = (line: string): boolean => line.startsWith('@@');
  const shown = lines.slice(Math.max(lines.findIndex(isHunk), 0));
  return shown.filter(isHunk).length === 1 ? shown.slice(1) : shown;
}

/** That a last line has no newline is said only where this is a difference. */
function withoutEnds(lines: string[]): string[] {
  const isEnd = (line: string): boolean => line.startsWith('\\');
  const signs = lines.filter((_, at) => at + 1 < lines.length && isEnd(lines[at + 1]));
  const has = (sign: string): boolean => signs.some(line => line.startsWith(sign));
  return has('-') === has('+') ? lines.filter(line => !isEnd(line)) : lines;
}

interface Block {
  kind: 'file' | 'change' | 'other';
  lines: string[];
}

/** Lines that were taken together with those that were given for them; others by themselves. */
function blocks(lines: string[]): Block[] {
  const found: Block[] = [];
  lines.forEach((line, at) => {
    const kind = isFile(lines, at) ? 'file' : /^[+-]/.test(line) ? 'change' : 'other';
    const last = found.at(-1);
    const before = last?.lines.at(-1) ?? '';
    if (
      kind === 'change' &&
      last?.kind === kind &&
      !(line.startsWith('-') && before.startsWith('+'))
    ) {
      last.lines.push(line);
    } else {
      found.push({ kind, lines: [line] });
    }
  });
  return found;
}

/** A line that was taken may begin as a file's name does: this one has a hunk below it. */
function isFile(lines: string[], at: number): boolean {
  const first = lines[at].startsWith('+') ? at - 1 : at;
  return (
    [0, 1].every(n => FILES.test(lines[first + n] ?? '')) &&
    (lines[first + 2] ?? '').startsWith('@@')
  );
}

function drawBlock({ kind, lines }: Block): HTMLElement[] {
  const removed = lines.filter(line => line.startsWith('-'));
  const added = lines.slice(removed.length);
  const isPaired = kind === 'change' && removed.length === added.length;
  const others = isPaired ? added.concat(removed) : [];
  return lines.map((line, at) => {
    const text = at in others ? words(line, others[at]) : whole(line);
    const name = kind === 'file' ? kind : (KINDS[line.charAt(0)] ?? 'same');
    const shown = h('span', { class: `ipyagent-diff-line ipyagent-diff-${name}` }, ...text);
    revealWithin(shown).append('\n');
    return shown;
  });
}

function whole(line: string): Child[] {
  const mark = COUNTED.exec(line)?.[1];
  return mark === undefined ? [line] : [line.charAt(0), markOf(mark)];
}

/** A line with the words marked that differ from those of the line that it replaces. */
function words(line: string, other: string): Child[] {
  if (line.length > MAX_LINE || other.length > MAX_LINE || COUNTED.test(line)) {
    return whole(line);
  }
  const [own, others] = [line, other].map(each => each.slice(1).match(WORDS) ?? []);
  const start = same(own, others);
  const end = same(own.slice(start).reverse(), others.slice(start).reverse());
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

/** With how many of the same words both begin. */
function same(one: string[], other: string[]): number {
  const end = one.findIndex((word, at) => word !== other[at]);
  return end < 0 ? one.length : end;
}
