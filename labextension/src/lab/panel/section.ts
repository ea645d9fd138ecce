/** Sections of the panel, which can be folded. */
import { Child, h, setText, Slot, Views } from '../../view/dom';
import type { PanelState } from './controller';

export class Section {
  readonly body: HTMLElement;
  readonly element: HTMLElement;

  private details = h('details', { open: '' });
  private title = h('summary');
  private badge = h('span', { class: 'ipyagent-panel-badge', 'aria-live': 'polite' });

  /** `name` identifies it for scripts and tests. */
  constructor(name: string, heading: string, ...children: Child[]) {
    this.body = h('div', { class: 'ipyagent-panel-body' }, ...children);
    this.title.append(h('h3', {}, heading), this.badge);
    this.details.append(this.title, this.body);
    const attributes = { class: 'ipyagent-panel-section', 'data-ipyagent': `panel-${name}` };
    this.element = h('section', { ...attributes, 'aria-label': heading }, this.details);
  }

  /** Show or hide it, with a number or a few words beside its heading. */
  show(isShown: boolean, badge = ''): void {
    this.element.hidden = !isShown;
    setText(this.badge, badge);
  }

  /** Apply a change; if that removes the focused element, focus the heading. */
  keepFocus(change: () => void): void {
    const hadFocus = this.body.contains(document.activeElement);
    change();
    if (hadFocus && !this.body.contains(document.activeElement)) {
      this.title.focus();
    }
  }
}

/** A list of things of one kind. */
export interface List<T> {
  items(state: PanelState): readonly T[];
  /** Identifies an item, whose row stays. */
  key(item: T): string;
  /** Draws a row anew when its item has changed. */
  draw(item: T, row: HTMLElement): Child[];
}

/** A part of the panel. */
export interface Part {
  readonly element: HTMLElement;
  update(state: PanelState): void;
}

/** Return a section with a list, which is hidden while it is empty. */
export function listSection<T>(name: string, heading: string, of: List<T>): Part {
  const list = h('ul', { class: 'ipyagent-panel-list' });
  const section = new Section(`${name}s`, heading, list);
  const make = () => {
    const attributes = { class: `ipyagent-panel-row ipyagent-panel-${name}` };
    const row = new Slot(h('li', { ...attributes, 'data-ipyagent': `panel-${name}` }));
    const update = (item: T): void => row.show(item, () => of.draw(item, row.element));
    return { element: row.element, update };
  };
  const rows = new Views(list, make, (item: T) => of.key(item));
  return {
    element: section.element,
    update(state) {
      const items = of.items(state);
      section.show(items.length > 0, `${items.length}`);
      section.keepFocus(() => rows.update(items));
    }
  };
}
