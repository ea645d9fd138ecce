/** Changes a block of a card to what the kernel draws now, and keeps what the user does in it. */
import { Idiomorph } from 'idiomorph';

import { staysSet } from './formulas';

/** Elements that no morph changes or removes: those of other blocks, and those of the page. */
const kept = new WeakSet<Node>();

/** Attributes that only the page gives to elements of the kernel. */
const OWN = new Set(['data-unfolded', 'id', 'tabindex']);

/** The elements in which a text goes on. */
const LAST = ':is(p, li, h1, h2, h3, h4, h5, h6, td, pre > code)';

let made = 0;

/** Keep an element in all morphs. Its id prevents that it is taken for another. */
export function keep<T extends Element>(element: T): T {
  made += 1;
  element.id = `ipyagent-${made}`;
  kept.add(element);
  return element;
}

/** Put a kept element at the end of a block, unless it is there: a moved field loses the cursor. */
export function place(element: Element, block: Element): void {
  if (element.parentNode !== block) {
    block.append(element);
  }
}

/** Return whether an element is kept. */
export function isKept(element: Element): boolean {
  return kept.has(element);
}

/** Change a kept element to `next`. */
export function morph(element: Element, next: Element): void {
  next.id = element.id;
  void Idiomorph.morph(element, next, { callbacks });
}

const callbacks = {
  beforeNodeMorphed(node: Node, next: Node): boolean {
    if (node instanceof HTMLDetailsElement && next instanceof HTMLDetailsElement) {
      keepFold(node, next);
    }
    const isLonger = node instanceof Text && next instanceof Text && isBegun(node, next);
    if (isLonger) {
      node.appendData(next.data.slice(node.data.length)); // what is selected in it stays so
    }
    return !isLonger && !staysSet(node, next);
  },
  beforeNodeRemoved: (node: Node): boolean => !kept.has(node),
  beforeAttributeUpdated: (name: string, _: Element, change: 'update' | 'remove'): boolean =>
    change === 'update' || !OWN.has(name)
};

function isBegun(node: Text, { data }: Text): boolean {
  return data.length > node.data.length && data.startsWith(node.data);
}

/** Leave a fold as the user has it, unless the kernel opens or closes it now. */
function keepFold(node: HTMLDetailsElement, next: HTMLDetailsElement): void {
  if (node.hasAttribute('data-open') === next.hasAttribute('data-open')) {
    next.open = node.open;
  }
}

/** Append plain text behind the words of a block. */
export function appendText(block: Element, text: string): void {
  const place = [...block.querySelectorAll(LAST)].at(-1) ?? block;
  const { lastChild } = place;
  if (lastChild instanceof Text) {
    lastChild.appendData(text);
  } else {
    place.append(text);
  }
}

type Mover = Element & { moveBefore?: (node: Node, before: Node | null) => void };

/** Put elements in that order, moving only those out of place: most browsers keep their state. */
export function arrange(parent: Mover, elements: readonly Element[]): void {
  const own = new Set(elements);
  let next = parent.firstElementChild;
  for (const element of own) {
    while (next !== null && !own.has(next)) {
      next = next.nextElementSibling;
    }
    if (element === next) {
      next = next.nextElementSibling;
    } else if (parent.moveBefore !== undefined && element.isConnected && parent.isConnected) {
      parent.moveBefore(element, next);
    } else {
      parent.insertBefore(element, next);
    }
  }
}
