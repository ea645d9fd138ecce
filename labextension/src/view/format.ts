/** What only the page can say: how long something goes on, how much of a box is below. */

/** 1,204 */
export function count(number: number): string {
  return number.toLocaleString('en-US');
}

/** A count of things: 1 line, 2 lines. */
export function plural(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}

/** Whole seconds, as they pass: 5 s, 2 min 5 s. */
export function elapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** The first line that has something on it, cut to fit. */
export function firstLine(text: string, width = 200): string {
  const line = /\S.*/.exec(text)?.[0] ?? '';
  return line.length > width ? `${line.slice(0, width)}…` : line;
}
