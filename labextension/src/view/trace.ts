/** Numbers of an answer lead to the calls whose results they come from, by their classes. */
import { PLACE } from './dress';
import { openVariable } from './head';

/** Serve numbers and names in a card: a click or Enter opens the call, or the variable. */
export function serveLinks(root: HTMLElement): void {
  const press = (event: Event): void => {
    const target = event.target as Element;
    if (follow(target) || openVariable(target)) {
      event.preventDefault(); // the line around it, or that has the focus now, would be pressed
    }
  };
  root.addEventListener('click', event => {
    if (getSelection()?.isCollapsed !== false) {
      press(event);
    }
  });
  root.addEventListener('keydown', event => {
    if (event.key === 'Enter') {
      press(event);
    }
  });
}

/** Go to the call of a number; return whether there is one. */
function follow(target: Element): boolean {
  const number = target.closest<HTMLElement>('.ia-traced[role=link]');
  const [, step, nth] = PLACE.exec(number?.className ?? '') ?? [];
  const calls = number
    ?.closest('.ipyagent-card')
    ?.querySelectorAll<HTMLElement>(`.ia-step[aria-label="Step ${step}"] .ia-tool`);
  const call = calls?.[Number(nth) - 1];
  for (let fold = call; fold; fold = fold.parentElement?.closest('details') ?? undefined) {
    fold.setAttribute('open', '');
  }
  call?.querySelector('summary')?.focus({ preventScroll: true });
  call?.scrollIntoView({ block: 'nearest' });
  return call !== undefined;
}
