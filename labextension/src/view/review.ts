/** Leads through the calls of a step that wait together, and approves all once they were seen. */
import type { Review } from '../protocol';
import { h, setText } from './dom';
import { button } from './form';
import { SEEN } from './gate';
import { keep, place } from './morph';
import type { Part } from './own';

/** Opens one of them at a time; each has its own form, with its own gate. */
export class ReviewPart implements Part<Review> {
  readonly element: HTMLElement;

  private approvals: readonly string[] = [];
  private step: Element | null = null;
  private current = '';
  private count = h('span', { role: 'status' });
  private all = button('approve-all', 'Approve all', 'Approve all of these changes', () =>
    this.approveAll()
  );

  constructor() {
    const previous = button('previous', '‹', 'Previous change', () => this.show(-1));
    const next = button('next', '›', 'Next change', () => this.show(1));
    const suppressed = { 'data-lm-suppress-shortcuts': 'true' };
    this.element = keep(h('span', suppressed, this.count, previous, next, this.all));
    document.addEventListener(SEEN, this.draw);
  }

  update({ approvals }: Review, block: HTMLElement): void {
    place(this.element, block);
    this.step = block.parentElement;
    const rest = this.approvals.slice(Math.max(0, this.approvals.indexOf(this.current)));
    const next = [...rest, ...approvals].find(id => approvals.includes(id)) ?? '';
    this.approvals = approvals;
    // The forms are drawn after this.
    queueMicrotask(() => this.open(next));
  }

  dispose(): void {
    document.removeEventListener(SEEN, this.draw);
  }

  /** The forms that are drawn, in the order of the calls. */
  private get forms(): HTMLElement[] {
    const forms = this.step?.querySelectorAll<HTMLElement>('[data-approval]') ?? [];
    return [...forms].filter(form => this.approvals.includes(idOf(form)));
  }

  private show(by: number): void {
    const { length } = this.approvals;
    this.open(this.approvals[(this.approvals.indexOf(this.current) + by + length) % length]);
  }

  /** Open one of the calls, and close the others. */
  private open(approval: string): void {
    if (approval !== this.current) {
      this.current = approval;
      this.forms.forEach(form =>
        form.closest('details')?.toggleAttribute('open', idOf(form) === approval)
      );
    }
    this.draw();
  }

  private draw = (): void => {
    const { approvals, forms } = this;
    setText(this.count, `${approvals.indexOf(this.current) + 1} of ${approvals.length}`);
    const isReady = forms.length === approvals.length && forms.every(isReadyForm);
    this.all.setAttribute('aria-disabled', `${!isReady}`);
  };

  /** Press the button of each, which guards itself; else show the first that is not ready. */
  private approveAll(): void {
    const { forms } = this;
    const unready = forms.find(form => !isReadyForm(form));
    if (unready !== undefined) {
      this.open(idOf(unready));
    }
    const pressed = unready === undefined ? forms : [unready].filter(form => !isEdited(form));
    pressed.forEach(form => approveOf(form)?.click());
  }
}

function idOf({ dataset }: HTMLElement): string {
  return dataset.approval ?? '';
}

function isReadyForm(form: HTMLElement): boolean {
  const approve = approveOf(form);
  const isActive = approve?.disabled === true || approve?.getAttribute('aria-disabled') === 'false';
  return isActive && !isEdited(form);
}

function isEdited(form: HTMLElement): boolean {
  return form.querySelector('.ipyagent-editor') !== null;
}

function approveOf(form: HTMLElement): HTMLButtonElement | null {
  return form.querySelector('[data-ipyagent="approve"]');
}
