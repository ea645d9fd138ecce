/** Numbers, durations and one-line summaries as people read them. */
import type { ToolExecution } from '../protocol';

const ONE_LINE = 200;

/** 1,204 */
export function count(number: number): string {
  return number.toLocaleString('en-US');
}

/** 0.01 s, 12.3 s, 2 min 5 s */
export function duration(seconds: number): string {
  if (seconds < 60) {
    return `${seconds < 10 ? Math.max(seconds, 0.01).toFixed(2) : seconds.toFixed(1)} s`;
  }
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** $0.006, $1.25, <$0.001 */
export function dollars(cost: number): string {
  if (cost > 0 && cost < 0.001) {
    return '<$0.001';
  }
  return `$${cost.toFixed(cost < 1 ? 3 : 2)}`;
}

/** A count of things: 1 line, 2 lines. */
export function plural(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}

/** The arguments of a call in one line: the first bare, the others named. */
export function argumentSummary({ call }: Pick<ToolExecution, 'call'>): string {
  const parts = Object.entries(call.arguments).map(([name, value], index) =>
    index === 0 ? inline(value) : `${name}=${inline(value)}`
  );
  return shorten(parts.join(', '));
}

/** The first line of an output that has something on it. */
export function firstLine(text: string): string {
  return shorten(/\S.*/.exec(text)?.[0] ?? '');
}

/** A value as text: strings as they are, the rest as JSON. */
export function valueText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function inline(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  // Only what looks like space: hidden characters are shown, not dropped.
  const line = text.slice(0, 2 * ONE_LINE).replace(/[ \t\n]+/g, ' ');
  return line.replace(/^ | $/g, '');
}

function shorten(line: string): string {
  return line.length > ONE_LINE ? `${line.slice(0, ONE_LINE)}…` : line;
}
