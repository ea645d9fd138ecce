/** The faces of a question: where they are, and whether they are on screen. */

/** Pixels from an edge to a point inside. */
const INSET = 6;

const CARD = '.ipyagent-tool, .ipyagent-plan, .ipyagent-proposal';

/** A place that asks: a card that shows the call, and the form with its buttons. */
export interface Face {
  readonly card: HTMLElement;
  readonly form: HTMLElement;
}

/** Return the face with this part of its form. */
export function faceOf(form: HTMLElement): Face {
  return { card: form.closest<HTMLElement>(CARD) ?? form, form };
}

/** Scroll to a face. */
export function scrollToFace({ card, form }: Face): void {
  const fits = card.offsetHeight < window.innerHeight / 2;
  card.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  form.scrollIntoView({ block: 'nearest' });
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

/** Return whether both ends of the form are visible. */
export function areAllButtonsInSight({ form }: Face): boolean {
  return isPainted(form, 'top') && isPainted(form, 'bottom');
}

/** Return whether an edge is visible: not scrolled away, not covered, in the foreground page. */
function isPainted(element: Element, edge: 'top' | 'bottom'): boolean {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const y = edge === 'top' ? top + INSET : bottom - INSET;
  const isHit = (x: number): boolean => element.contains(document.elementFromPoint(x, y));
  return document.visibilityState === 'visible' && isHit(left + INSET) && isHit((left + right) / 2);
}
