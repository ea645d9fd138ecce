/** Draws a call or a plan outside of its run, with the form that decides on it. */
import type { DecideOn } from '../channel';
import type { Asked } from '../protocol';
import { ApprovalView } from './approval';
import { h } from './dom';
import { keep, morph, place } from './morph';
import { sanitizeCard } from './sanitize';

export class AskedView {
  readonly element = h('div', { class: 'ipyagent-card' });

  private form: ApprovalView;
  private html = '';

  constructor(decide: DecideOn) {
    this.form = new ApprovalView(decide);
    keep(this.form.element);
  }

  /** Draw it; what the user opened stays open. */
  update(html: string, asked: Asked): void {
    if (html !== this.html) {
      this.html = html;
      const next = h('div', { class: 'ipyagent-card' }, sanitizeCard(html));
      morph(this.element.id === '' ? keep(this.element) : this.element, next);
    }
    const body = this.element.querySelector('details');
    const head = body?.querySelector('summary');
    if (body && head) {
      place(this.form.element, body);
      this.form.update(asked, { head, body });
    }
  }

  /** Stop observing the page. */
  dispose(): void {
    this.form.dispose();
  }
}
