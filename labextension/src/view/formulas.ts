/**
 * Has the page's typesetter set formulas, which the kernel has checked. Without one they stay code,
 * and a formula that is set is not set again while its source is the same.
 */
import { host } from './host';

const FORMULA = '.ia-formula';

/** The sources of formulas that are set. */
const sources = new WeakMap<Node, string | null>();

/** Set the formulas in `root`. */
export function typeset(root: Element): void {
  root.querySelectorAll<HTMLElement>(FORMULA).forEach(formula => {
    if (host.typeset !== null && !sources.has(formula)) {
      sources.set(formula, formula.textContent);
      formula.classList.add('mathjax_process'); // also in code
      host.typeset(formula);
    }
  });
}

/** Return whether a formula stays as it is set, as `next` has the same source. */
export function staysSet(node: Node, next: Node): boolean {
  const isSame = sources.get(node) === next.textContent;
  if (!isSame) {
    sources.delete(node);
  }
  return isSame;
}

/** Take formulas that are set from `before`, instead of those with the same source in `after`. */
export function reuse(before: Element, after: Element): void {
  const set = [...before.querySelectorAll(FORMULA)];
  after.querySelectorAll(FORMULA).forEach(formula => {
    const same = set.findIndex(each => sources.get(each) === formula.textContent);
    if (same >= 0) {
      formula.replaceWith(...set.splice(same, 1));
    }
  });
}
