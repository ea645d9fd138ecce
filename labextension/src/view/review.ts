/** Leads through the calls of a step that wait together, and approves all once they were seen. */
import type { Review } from '../protocol';
import { h, setText } from './dom';
import { button } from './form';
import { SEEN } from './gate';
import { keep, place } from './morph';
import type { Part } from './own';

/** Opens one of them at a time; each has its own form, with its own gate. */
export class ReviewPart implements Part<Review> {
  private approvals: readonly string[] = [];
  private step: Element | null = null;
  private current = '';
  private count = h('span', { role: 'status' });
  private all = button('approve-all', 'Approve all', 'Approve all of these changes', () =>
    this.approveAll()
  );
  private element = keep(
    h(
      'span',
      { 'data-lm-suppress-shortcuts': 'true' },
      this.count,
      button('previous', '‹', 'Previous change', () => this.show(-1)),
      button('next', '›', 'Next change', () => this.show(1)),
      this.all
    )
  );

  constructor() {
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
    this.element.remove();
  }

  private show(by: number): void {
    const { length } = this.approvals;
    const at = (this.approvals.indexOf(this.current) + by + length) % length;
    this.open(this.approvals[at]);
  }

  /** Open one of the calls, and close the others. */
  private open(approval: string): void {
    if (approval !== this.current) {
      this.current = approval;
      this.approvals.forEach(id =>
        this.formOf(id)
          ?.closest('details')
          ?.toggleAttribute('open', id === approval)
      );
    }
    this.draw();
  }

  private draw = (): void => {
    const at = this.approvals.indexOf(this.current) + 1;
    setText(this.count, `${at} of ${this.approvals.length}`);
    this.all.ariaDisabled = `${this.approvals.some(id => !this.isReady(id))}`;
  };

  /** Press the button of each; the first one that is not ready is shown, and says why. */
  private approveAll(): void {
    const unready = this.approvals.find(id => !this.isReady(id));
    if (unready === undefined) {
      this.approvals.forEach(id => this.approveOf(id)?.click());
      return;
    }
    this.open(unready);
    if (!this.isEdited(unready)) {
      this.approveOf(unready)?.click();
    }
  }

  private isReady(approval: string): boolean {
    const approve = this.approveOf(approval);
    const isOpen = approve?.disabled === true || approve?.ariaDisabled === 'false';
    return isOpen && !this.isEdited(approval);
  }

  private isEdited(approval: string): boolean {
    return this.formOf(approval)?.querySelector('.ipyagent-editor') != null;
  }

  private approveOf(approval: string): HTMLButtonElement | null {
    return this.formOf(approval)?.querySelector('[data-ipyagent="approve"]') ?? null;
  }

  private formOf(approval: string): HTMLElement | null {
    return this.step?.querySelector(`[data-approval="${CSS.escape(approval)}"]`) ?? null;
  }
}
