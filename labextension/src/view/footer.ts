/** The last line of a run: how long it took, with what is folded behind that. */
import type { Fold, Footer } from '../protocol';
import { Child, h, setText, Slot, textBox } from './dom';
import { reveal } from './reveal';

export class FooterView {
  private title = h('summary');
  private folds = new Slot(h('div'));
  private facts = new Slot(h('p'));
  private details = h('details', {}, this.title, this.folds.element, this.facts.element);
  private isNew = true;

  readonly element = h('footer', { class: 'ipyagent-footer' }, this.details);

  /** Draw it; what the user opened stays open. */
  update(footer: Footer): void {
    const { duration, numbers, folds } = footer;
    if (this.isNew) {
      this.isNew = false;
      this.details.open = folds.some(fold => fold.is_open);
    }
    const title = [duration, numbers, 'details'].filter(part => part !== '');
    setText(this.title, title.join(' · '));
    this.folds.show(folds, () => folds.map(fold => foldOf(fold)));
    this.facts.show([footer.facts, footer.trace_id], () => factsOf(footer));
  }
}

/** Draw a text behind its title. */
export function foldOf({ title, text, is_open }: Fold, name = 'context', more = ''): HTMLElement {
  const body = textBox(reveal(text), more);
  const details = h('details', { class: `ipyagent-${name}` }, h('summary', {}, title), body);
  details.open = is_open;
  return details;
}

function factsOf({ facts, trace_id }: Footer): Child[] {
  const trace = h('span', { class: 'ipyagent-trace', 'data-ipyagent': 'trace' }, reveal(trace_id));
  const parts: Child[][] = [...facts.map(fact => [fact]), ...(trace_id ? [['trace ', trace]] : [])];
  return parts.flatMap((part, index) => (index > 0 ? [' · ', ...part] : part));
}
