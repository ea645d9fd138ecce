/** What of a call has been before a person's eyes: a key must not approve what nobody saw. */
import { GLANCE } from '../../view/gate';

/** From an edge, to be inside of it. */
const INSET = 6;

/** A part that is closed shows a line of the call instead of the call. */
const FOLDED = '.ipyagent-tool-details:not([open]), [data-ipyagent="plan-step"] > :not([open])';

/** Where a call is drawn, and below it the buttons. */
export interface Asked {
  readonly card: HTMLElement;
  readonly form: HTMLElement;
}

/** Collects what was seen of one approval's card, by being asked to look again and again. */
export class Visibility {
  private since = new WeakMap<Element, number>();
  private seen = new WeakSet<Element>();

  constructor(readonly approvalId: string) {}

  /** Note what is on screen now. */
  look({ card, form }: Asked, now = performance.now()): void {
    this.note(card, folds(card).length === 0 && isPainted(card, 'top'), now);
    scrollers(card).forEach(each =>
      this.note(each, isAtEnd(each) && isPainted(each, 'bottom'), now)
    );
    this.note(form, isPainted(form, 'top') && isPainted(form, 'bottom'), now);
  }

  /** The first part that was not seen; the buttons have to be there now. */
  missing({ card, form }: Asked): HTMLElement | null {
    const isThere = this.since.has(form) && this.seen.has(form);
    const unseen = [card, ...scrollers(card)].find(each => !this.seen.has(each));
    return unseen ?? (isThere ? null : form);
  }

  private note(part: Element, isThere: boolean, now: number): void {
    if (!isThere) {
      this.since.delete(part);
      return;
    }
    const since = this.since.get(part) ?? now;
    this.since.set(part, since);
    if (now - since >= GLANCE) {
      this.seen.add(part);
    }
  }
}

/** Bring a part of a card before the person's eyes; what scrolls in itself moves on by a page. */
export function show({ card }: Asked, part: HTMLElement): void {
  folds(card).forEach(each => each.setAttribute('open', ''));
  if (part === card) {
    const fits = card.offsetHeight < window.innerHeight / 2;
    card.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  } else {
    part.scrollTop += 0.9 * part.clientHeight;
    part.scrollIntoView({ block: 'nearest' });
  }
}

function folds(card: Element): Element[] {
  return [...card.querySelectorAll(FOLDED)];
}

function scrollers(card: Element): HTMLElement[] {
  return [...card.querySelectorAll<HTMLElement>('pre:not(.ipyagent-exact *)')].filter(
    each => each.scrollHeight > each.clientHeight + 1
  );
}

function isAtEnd({ scrollTop, scrollHeight, clientHeight }: Element): boolean {
  return scrollTop + clientHeight >= scrollHeight - INSET;
}

/** Whether an edge can be seen: not scrolled away, not covered, on a page that is in front. */
function isPainted(element: Element, edge: 'top' | 'bottom'): boolean {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const y = edge === 'top' ? top + INSET : bottom - INSET;
  const isHit = (x: number): boolean => element.contains(document.elementFromPoint(x, y));
  return document.visibilityState === 'visible' && isHit(left + INSET) && isHit((left + right) / 2);
}
