/** Numbers of an answer lead to the calls whose results they come from, by their titles. */

const PLACE = /, step (\d+)(?:, call (\d+))?, line \d+/;

/** Make a number a link, if it comes from a call. */
export function linkNumber(number: HTMLElement): void {
  number.tabIndex = 0;
  if (PLACE.test(number.title)) {
    number.role = 'link';
    number.dataset.lmSuppressShortcuts = 'true';
  }
}

/** Serve the numbers in a card: a click or Enter goes to the call, and opens it. */
export function serveNumbers(root: HTMLElement): void {
  root.addEventListener('click', ({ target }) => {
    if (getSelection()?.isCollapsed !== false) {
      follow(target as Element);
    }
  });
  root.addEventListener('keydown', event => {
    if (event.key === 'Enter' && follow(event.target as Element)) {
      event.preventDefault(); // the line that has the focus now would be pressed by it
    }
  });
}

/** Go to the call of a number; return whether there is one. */
function follow(target: Element): boolean {
  const number = target.closest<HTMLElement>('.ia-traced[role=link]');
  const [, step, nth = '1'] = PLACE.exec(number?.title ?? '') ?? [];
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
