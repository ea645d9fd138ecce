/** The card of a form that asks a question: finds it, goes there, and checks if it is on screen. */

/** Pixels from an edge to a point inside. */
const INSET = 6;

const CARD = '.ia-tool, .ia-plan, .ipyagent-proposal';

/** Return the card that shows what a form, or a part of one, asks about. */
export function cardOf(form: HTMLElement): HTMLElement {
  return form.closest<HTMLElement>(CARD) ?? form;
}

/** Scroll to a question's card. */
export function scrollToCard(form: HTMLElement): void {
  const card = cardOf(form);
  card.setAttribute('open', '');
  const fits = card.offsetHeight < window.innerHeight / 2;
  card.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  form.scrollIntoView({ block: 'nearest' });
}

/** Focus a question's card: shortcuts do nothing in its form. */
export function focusCard(form: HTMLElement): void {
  const card = cardOf(form);
  card.tabIndex = -1;
  card.addEventListener('blur', () => card.removeAttribute('tabindex'), { once: true });
  card.focus({ preventScroll: true });
}

/** Return whether an end of the card is visible. */
export function isInSight(form: HTMLElement): boolean {
  return isPainted(cardOf(form), 'top') || areButtonsInSight(form);
}

/** Return whether an end of the form is visible. */
export function areButtonsInSight(form: HTMLElement): boolean {
  return isPainted(form, 'top') || isPainted(form, 'bottom');
}

/** Return whether both ends of the form are visible. */
export function areAllButtonsInSight(form: HTMLElement): boolean {
  return isPainted(form, 'top') && isPainted(form, 'bottom');
}

/** Return whether an edge is visible: not scrolled away, not covered, in the foreground page. */
function isPainted(element: Element, edge: 'top' | 'bottom'): boolean {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const y = edge === 'top' ? top + INSET : bottom - INSET;
  const isHit = (x: number): boolean => element.contains(document.elementFromPoint(x, y));
  return document.visibilityState === 'visible' && isHit(left + INSET) && isHit((left + right) / 2);
}
