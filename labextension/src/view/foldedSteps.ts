/** The first steps of a long run behind one line, drawn on demand. */
import type { Step } from '../protocol';
import type { Drawing } from './approval';
import { h, plural, Views } from './dom';
import { StepView } from './step';

/** Runs with more steps than MANY fold all but the NEWEST. */
const MANY = 60;
const NEWEST = 40;

/** A step, or several behind a line with a title; `at` is the index of the first. */
export interface Part {
  readonly at: number;
  readonly title: string | null;
  readonly items: readonly Step[];
}

/** Return the number of folded steps out of `count`. */
export function foldedOf(count: number): number {
  return count > MANY ? count - NEWEST : 0;
}

/** Return the parts of a run: the first `folded` steps in one, then each other step. */
export function partsOf(items: readonly Step[], folded: number): Part[] {
  const title = plural(folded, 'earlier step');
  const earlier = folded > 0 ? [{ at: 0, title, items: items.slice(0, folded) }] : [];
  const rest = items.slice(folded);
  return [...earlier, ...rest.map((step, at) => ({ at: folded + at, title: null, items: [step] }))];
}

/** Draws a part of a run. */
export class PartView {
  readonly element = h('div', { class: 'ipyagent-part' });

  private title = h('summary', {});
  private list = h('div', { class: 'ipyagent-steps' });
  private details = h('details', { class: 'ipyagent-earlier' }, this.title);
  private steps: Views<Step, StepView>;
  private items: readonly Step[] = [];

  constructor(drawing: Drawing) {
    this.steps = new Views(this.list, () => new StepView(drawing));
    this.details.addEventListener('toggle', () => this.draw());
  }

  /** Draw a step, or the line of several. */
  update({ title, items }: Part): void {
    this.items = items;
    this.title.textContent = title;
    const place = title === null ? this.element : this.details;
    if (this.list.parentNode !== place) {
      this.steps.update([]);
      this.element.replaceChildren(...(title === null ? [] : [this.details]));
      place.append(this.list);
    }
    this.draw();
  }

  dispose(): void {
    this.steps.dispose();
  }

  private draw(): void {
    if (this.details.open || this.list.parentNode === this.element) {
      this.steps.update(this.items);
    }
  }
}
