/** Tracks which parts of a call were visible, so that a shortcut cannot approve unseen text. */
import { GLANCE } from '../../view/gate';

/** Pixels from an edge to a point inside. */
const INSET = 6;

/** Closed details, which show a line of the call instead of the call. */
const FOLDED = '.ipyagent-tool-details:not([open]), [data-ipyagent="plan-step"] > :not([open])';

/** A card that shows a call, and the form with its buttons. */
export interface CardParts {
  readonly card: HTMLElement;
  readonly form: HTMLElement;
}

/** Records which parts of one approval's card were visible, by repeated checks. */
export class Visibility {
  private since = new WeakMap<Element, number>();
  private seen = new WeakSet<Element>();

  constructor(readonly approvalId: string) {}

  /** Record which parts are on screen now. */
  record({ card, form }: CardParts, now = performance.now()): void {
    this.recordPart(card, folds(card).length === 0 && isPainted(card, 'top'), now);
    scrollers(card).forEach(each =>
      this.recordPart(each, isAtEnd(each) && isPainted(each, 'bottom'), now)
    );
    this.recordPart(form, isPainted(form, 'top') && isPainted(form, 'bottom'), now);
  }

  /** Return the first part that was not visible; the buttons have to be visible now. */
  firstUnseen({ card, form }: CardParts): HTMLElement | null {
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
export function scrollToPart({ card }: CardParts, part: HTMLElement): void {
  folds(card).forEach(each => each.setAttribute('open', ''));
  if (part === card) {
    const fits = card.offsetHeight < window.innerHeight / 2;
    card.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  } else {
    part.scrollTop += 0.9 * part.clientHeight;
    part.scrollIntoView({ block: 'nearest' });
  }
}

/** Return whether an end of the card that contains `face` is visible. */
export function isInSight(face: HTMLElement): boolean {
  const card = face.closest('.ipyagent-tool, .ipyagent-plan, .ipyagent-proposal') ?? face;
  return isPainted(card, 'top') || isPainted(face, 'top') || isPainted(face, 'bottom');
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
