/** Steps behind one line, drawn on demand: the first of a long run, and those that only read. */
import type { Step, StepsFold } from '../protocol';
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

/** Return the parts of a run: the first `folded` steps in one, then its folds and other steps. */
export function partsOf(
  items: readonly Step[],
  folded: number,
  folds: readonly StepsFold[]
): Part[] {
  const earlier = { first: 0, count: folded, title: plural(folded, 'earlier step') };
  const all = folded > 0 ? [earlier, ...folds.filter(fold => fold.first >= folded)] : folds;
  const parts: Part[] = [];
  for (let at = 0; at < items.length; at += parts.at(-1)?.items.length ?? 1) {
    const fold = all.find(({ first }) => first === at);
    // Saved counts may be forged: each part has a step.
    const end = at + Math.max(1, fold?.count ?? 1);
    parts.push({ at, title: fold?.title ?? null, items: items.slice(at, end) });
  }
  return parts;
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
