/** A card that asks a question: finds it, goes there, and checks whether it is on screen. */

/** Pixels from an edge to a point inside. */
const INSET = 6;

const CARD = '.ia-tool, .ia-plan, .ipyagent-proposal';

/** A card that asks a question: it shows the call, and has a form with the buttons. */
export interface QuestionCard {
  readonly card: HTMLElement;
  readonly form: HTMLElement;
}

/** Return the card of a form, or of a part of one. */
export function questionCardOf(form: HTMLElement): QuestionCard {
  return { card: form.closest<HTMLElement>(CARD) ?? form, form };
}

/** Scroll to a question's card. */
export function scrollToCard({ card, form }: QuestionCard): void {
  card.setAttribute('open', '');
  const fits = card.offsetHeight < window.innerHeight / 2;
  card.scrollIntoView({ block: fits ? 'nearest' : 'start' });
  form.scrollIntoView({ block: 'nearest' });
}

/** Focus a question's card: shortcuts do nothing in its form. */
export function focusCard({ card }: QuestionCard): void {
  card.tabIndex = -1;
  card.addEventListener('blur', () => card.removeAttribute('tabindex'), { once: true });
  card.focus({ preventScroll: true });
}

/** Return whether an end of the card is visible. */
export function isInSight({ card, form }: QuestionCard): boolean {
  return isPainted(card, 'top') || areButtonsInSight({ card, form });
}

/** Return whether an end of the form is visible. */
export function areButtonsInSight({ form }: QuestionCard): boolean {
  return isPainted(form, 'top') || isPainted(form, 'bottom');
}

/** Return whether both ends of the form are visible. */
export function areAllButtonsInSight({ form }: QuestionCard): boolean {
  return isPainted(form, 'top') && isPainted(form, 'bottom');
}

/** Return whether an edge is visible: not scrolled away, not covered, in the foreground page. */
function isPainted(element: Element, edge: 'top' | 'bottom'): boolean {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  const y = edge === 'top' ? top + INSET : bottom - INSET;
  const isHit = (x: number): boolean => element.contains(document.elementFromPoint(x, y));
  return document.visibilityState === 'visible' && isHit(left + INSET) && isHit((left + right) / 2);
}
