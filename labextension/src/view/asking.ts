/** The line that tells what is waited for: the model's reply, or the next try. */
import type { RetryScheduled } from '../protocol';
import { h } from './dom';

/** One line that stays where it is while the seconds of a retry are counted down. */
export class AskingView {
  private what = h('span');
  /** Not read out: the words before it are, once. */
  private seconds = h('span', { class: 'ipyagent-seconds', 'aria-hidden': 'true' });
  private retry: RetryScheduled | null = null;
  private until = 0;
  private timer: number | null = null;

  readonly element = h(
    'p',
    { class: 'ipyagent-note ipyagent-asking', 'aria-live': 'polite', hidden: '' },
    this.what,
    this.seconds
  );

  /** `isWaiting` for the model; for the next try where there is one. */
  update(isWaiting: boolean, retry: RetryScheduled | null): void {
    this.element.hidden = !isWaiting;
    const text = retry === null ? 'Asking the model' : `Retry ${retry.attempt}/${retry.of}`;
    if (this.what.textContent !== text) {
      this.what.textContent = text;
    }
    if (retry !== this.retry) {
      this.retry = retry;
      this.dispose();
      if (retry !== null) {
        this.until = Date.now() + 1_000 * retry.delay;
        this.timer = window.setInterval(() => this.tick(), 250);
      }
      this.tick();
    }
  }

  /** Let go of the clock. */
  dispose(): void {
    if (this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
    }
  }

  private tick(): void {
    const left = Math.ceil((this.until - Date.now()) / 1_000);
    const text = this.retry !== null && left > 0 ? ` in ${left} s` : '';
    if (this.seconds.textContent !== text) {
      this.seconds.textContent = text;
    }
  }
}
