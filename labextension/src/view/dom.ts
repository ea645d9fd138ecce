/** Helpers for elements and keyed updates. Text is always a text node, never markup. */

export type Child = Node | string | null;

/** Within an element with this attribute, keys of the notebook do nothing, and those of buttons work. */
export const NO_SHORTCUTS = { 'data-lm-suppress-shortcuts': 'true' };

/** Create an element; null children are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

/** A place whose content is rebuilt only when its key changes, so that what is open stays open. */
export class Slot {
  private key: string | null = null;

  constructor(readonly element: HTMLElement) {}

  /** Show what `build` makes, unless the same `key` made what is there. */
  show(key: unknown, build: () => Child[]): void {
    const next = JSON.stringify(key);
    if (next !== this.key) {
      this.key = next;
      this.element.replaceChildren(...build().filter(child => child !== null));
    }
  }

  /** Show what `build` makes of a value; nothing of null and "". */
  showIf<T>(value: T | null, build: (value: T) => Child): void {
    this.show(value, () => (value === null || value === '' ? [] : [build(value)]));
  }
}

/** Set an element's text, if it differs: screen readers read each change of a live region. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** A text that changes with time. */
export class Clock {
  private timer: number | undefined;

  constructor(readonly element: HTMLElement) {}

  /** Show what `read` returns from now on. */
  run(read: () => string): void {
    this.dispose();
    const show = (): void => setText(this.element, read());
    show();
    this.timer = window.setInterval(show, 250);
  }

  dispose(): void {
    window.clearInterval(this.timer);
  }
}

/** Format a number: 1,204. */
export function count(number: number): string {
  return number.toLocaleString('en-US');
}

/** Format a count of things: 1 line, 2 lines. */
export function plural(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`;
}
