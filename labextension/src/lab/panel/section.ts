/** A part of the panel that can be folded. */
import { Child, h } from '../../view/dom';

export class Section {
  readonly body: HTMLElement;
  readonly element: HTMLElement;

  private details = h('details', { open: '' });
  private title = h('summary');
  private badge = h('span', { class: 'ipyagent-panel-badge', 'aria-live': 'polite' });

  /** `name` is what scripts and tests find it by. */
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
    if (this.badge.textContent !== badge) {
      this.badge.textContent = badge;
    }
  }

  /** Do what may remove the element that has the focus; then the heading has it. */
  keepFocus(change: () => void): void {
    const hadFocus = this.body.contains(document.activeElement);
    change();
    if (hadFocus && !this.body.contains(document.activeElement)) {
      this.title.focus();
    }
  }
}
