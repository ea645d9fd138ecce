/** The description of a variable, which its name opens: at a call, at an effect, in the panel. */
import { h } from './dom';
import { host } from './host';
import { keep } from './morph';
import { sanitizeCard } from './sanitize';

const CLASS = 'ipyagent-head';

/** Shows the description of a variable as it is now. */
export class Head {
  readonly element = keep(h('div', { class: CLASS, role: 'status' }));

  private asked = 0;

  /** Show it; a late reply does not replace that of a newer question. */
  async show(name: string): Promise<void> {
    this.element.dataset.name = name;
    const number = ++this.asked;
    const html = (await host.lab?.describe(this.element, name)) ?? '';
    if (number === this.asked) {
      this.element.replaceChildren(sanitizeCard(html));
    }
  }
}

/** Open a variable whose name was pressed, or close it; return whether it was a name. */
export function openVariable(target: Element): boolean {
  const name = target.closest<HTMLElement>('.ia-name[title]');
  const line = name?.closest('summary, li, div') ?? null;
  if (host.lab === null || name === null || line === null) {
    return false;
  }
  const fold = line.parentElement instanceof HTMLDetailsElement ? line.parentElement : null;
  const known = [line, fold].flatMap(each => each?.nextElementSibling ?? []);
  const shown = [...known, ...line.children].find(each => each.classList.contains(CLASS));
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
