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

/** A section with a list, which is hidden while it is empty. */
export class ListSection<T> {
  private list = h('ul', { class: 'ipyagent-panel-list' });
  private section: Section;
  private rows: Views<T, { element: HTMLElement; update(item: T): void }>;

  readonly element: HTMLElement;

  constructor(
    name: string,
    heading: string,
    private of: List<T>
  ) {
    this.section = new Section(`${name}s`, heading, this.list);
    this.element = this.section.element;
    const attributes = { class: `ipyagent-panel-row ipyagent-panel-${name}` };
    const make = () => {
      const row = new Slot(h('li', { ...attributes, 'data-ipyagent': `panel-${name}` }));
      const update = (item: T): void => row.show(item, () => of.draw(item, row.element));
      return { element: row.element, update };
    };
    this.rows = new Views(this.list, make, item => of.key(item));
  }

  update(state: PanelState): void {
    const items = this.of.items(state);
    this.section.show(items.length > 0, `${items.length}`);
    this.section.keepFocus(() => this.rows.update(items));
  }
}
