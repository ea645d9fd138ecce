/** Opens what a number or a name stands for: the call that it comes from, or the variable. */
import { h } from './dom';
import { PLACE } from './dress';
import { host } from './host';
import { keep } from './morph';
import { sanitizeCard } from './sanitize';

/** The class of a description. */
const HEAD = 'ipyagent-head';

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

/** Shows the description of a variable as it is now: at a call, at an effect, in the panel. */
export class Head {
  readonly element = keep(h('div', { class: HEAD, role: 'status' }));

  private asked = 0;

  /** Show it; a late reply does not replace that of a newer question. */
  async show(name: string): Promise<void> {
    this.element.dataset.name = name;
    const number = ++this.asked;
    const reply = await host.lab?.ask(this.element, 'variable', { text: name });
    const { html, problem = 'No connection to ipyagent in a kernel.' } = reply ?? {};
    if (number === this.asked) {
      this.element.replaceChildren(sanitizeCard(html ?? problem));
    }
  }
}

/** Open a variable whose name was pressed, or close it; return whether it was a name. */
function openVariable(target: Element): boolean {
  const name = target.closest<HTMLElement>('.ia-name[title]');
  const line = name?.closest('summary, li, div') ?? null;
  if (host.lab === null || name === null || line === null) {
    return false;
  }
  const fold = line.parentElement instanceof HTMLDetailsElement ? line.parentElement : null;
  const known = [line, fold].flatMap(each => each?.nextElementSibling ?? []);
  const shown = [...known, ...line.children].find(each => each.classList.contains(HEAD));
  shown?.remove();
  if ((shown as HTMLElement | undefined)?.dataset.name !== name.textContent) {
    const head = new Head();
    // Below the line, whether what stands behind it is open or not.
    if (fold === null) {
      line.append(head.element);
    } else {
      (fold.open ? line : fold).after(head.element);
    }
    void head.show(name.textContent);
  }
  return true;
}
