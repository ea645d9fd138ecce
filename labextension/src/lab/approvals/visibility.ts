/** Tracks which parts of a call were visible, so that a shortcut cannot approve unseen text. */
import { GLANCE } from '../../view/gate';

/** Pixels from an edge to a point inside. */
const INSET = 6;

/** Closed details, which show a line of the call instead of the call. */
const FOLDED = [
  '.ipyagent-tool-details',
  '.ipyagent-plan > details',
  '[data-ipyagent="plan-step"] > *'
]
  .map(each => `${each}:not([open])`)
  .join();

const CARD = '.ipyagent-tool, .ipyagent-plan, .ipyagent-proposal';

/** A place that asks: a card that shows the call, and the form with its buttons. */
export interface Face {
  readonly card: HTMLElement;
  readonly form: HTMLElement;
}

/** Records which parts of one approval's faces were visible, by repeated checks. */
export class Visibility {
  private since = new WeakMap<Element, number>();
  private seen = new WeakSet<Element>();

  constructor(readonly approvalKey: string) {}

  /** Record which parts are on screen now. */
  record({ card, form }: Face, now = performance.now()): void {
    this.recordPart(card, folds(card).length === 0 && isPainted(card, 'top'), now);
    scrollers(card).forEach(each =>
      this.recordPart(each, isAtEnd(each) && isPainted(each, 'bottom'), now)
    );
    this.recordPart(form, isPainted(form, 'top') && isPainted(form, 'bottom'), now);
  }

  /** Return the first part that was not visible; the buttons have to be visible now. */
  firstUnseen({ card, form }: Face): HTMLElement | null {
    const isThere = this.since.has(form) && this.seen.has(form);
    const unseen = [card, ...scrollers(card)].find(each => !this.seen.has(each));
    return unseen ?? (isThere ? null : form);
  }

  private recordPart(part: Element, isThere: boolean, now: number): void {
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

/** Scroll to a part of a card; a part that scrolls itself moves on by a page. */
export function scrollToPart({ card }: Face, part: HTMLElement): void {
  folds(card).forEach(each => each.setAttribute('open', ''));
  if (part === card) {
    const fits = card.offsetHeight < window.innerHeight / 2;
    card.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  } else {
    part.scrollTop += 0.9 * part.clientHeight;
    part.scrollIntoView({ block: 'nearest' });
  }
}

/** Return the face with this part of its form. */
export function faceOf(form: HTMLElement): Face {
  return { card: form.closest<HTMLElement>(CARD) ?? form, form };
}

/** Scroll to a face. */
export function scrollToFace(face: Face): void {
  scrollToPart(face, face.card);
  face.form.scrollIntoView({ block: 'nearest' });
}

/** Focus a face's card: shortcuts do nothing in its form. */
export function focusCard({ card }: Face): void {
  card.tabIndex = -1;
  card.addEventListener('blur', () => card.removeAttribute('tabindex'), { once: true });
  card.focus({ preventScroll: true });
}

/** Return whether an end of the card is visible. */
export function isInSight({ card, form }: Face): boolean {
  return isPainted(card, 'top') || areButtonsInSight({ card, form });
}

/** Return whether an end of the form is visible. */
export function areButtonsInSight({ form }: Face): boolean {
  return isPainted(form, 'top') || isPainted(form, 'bottom');
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

/** Return whether an edge is visible: not scrolled away, not covered, in the foreground page. */
function isPainted(element: Element, edge: 'top' | 'bottom'): boolean {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const y = edge === 'top' ? top + INSET : bottom - INSET;
  const isHit = (x: number): boolean => element.contains(document.elementFromPoint(x, y));
  return document.visibilityState === 'visible' && isHit(left + INSET) && isHit((left + right) / 2);
}
