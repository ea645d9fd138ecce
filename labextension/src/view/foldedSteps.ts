/** The folded first steps of a long run, drawn on demand, so that a notebook opens fast. */
import { h, plural, Views } from './dom';
import type { Before } from './sanitize';
import { StepItem, StepView } from './step';

/** Runs with more steps than MANY fold all but the NEWEST. */
const MANY = 60;
const NEWEST = 40;

/** Return the number of folded steps out of `count`. */
export function foldedOf(count: number): number {
  return count > MANY ? count - NEWEST : 0;
}

/** Steps behind one line, drawn when it is opened first. */
export class FoldedStepsView {
  private title = h('summary', {});
  private list = h('div', { class: 'ipyagent-steps' });
  private steps: Views<StepItem, StepView>;
  private items: readonly StepItem[] = [];

  readonly element = h('div');

  private details = h('details', { class: 'ipyagent-earlier' }, this.title, this.list);

  constructor(before: Before) {
    this.steps = new Views(this.list, () => new StepView(before));
    this.details.addEventListener('toggle', () => this.draw());
  }

  /** Show `items`; none for another run, which begins folded. */
  update(items: readonly StepItem[]): void {
    this.items = items;
    this.title.textContent = plural(items.length, 'earlier step');
    if (items.length === 0) {
      this.details.open = false;
      this.details.remove();
      this.steps.update([]);
    } else if (this.details.parentNode === null) {
      this.element.append(this.details);
    }
    this.draw();
  }

  dispose(): void {
    this.steps.dispose();
  }

  private draw(): void {
    if (this.details.open) {
      this.steps.update(this.items);
    }
  }
}
