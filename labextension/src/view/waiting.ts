/** The line that tells what a step waits for: the model's reply, or the next attempt. */
import type { Waiting } from '../protocol';
import { h, setText } from './dom';

/** One line, with the seconds to a retry counted down. */
export class WaitingView {
  private what = h('span');
  /** Hidden from screen readers, which read the words before it once. */
  private seconds = h('span', { class: 'ipyagent-seconds', 'aria-hidden': 'true' });
  private waiting: Waiting | null = null;
  private until = 0;
  private timer: number | null = null;

  readonly element = h(
    'p',
    { class: 'ipyagent-note ipyagent-asking', 'aria-live': 'polite', hidden: '' },
    this.what,
    this.seconds
  );

  /** Draw what is waited for; null hides the line. */
  update(waiting: Waiting | null): void {
    this.element.hidden = waiting === null;
    setText(this.what, waiting?.text ?? '');
    if (waiting !== this.waiting) {
      this.waiting = waiting;
      this.dispose();
      if (waiting !== null && waiting.seconds !== null) {
        this.until = Date.now() + 1_000 * waiting.seconds;
        this.timer = window.setInterval(() => this.tick(), 250);
      }
      this.tick();
    }
  }

  /** Stop the clock. */
  dispose(): void {
    if (this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
    }
  }

  private tick(): void {
    const left = Math.ceil((this.until - Date.now()) / 1_000);
    const counts = this.waiting !== null && this.waiting.seconds !== null && left > 0;
    setText(this.seconds, counts ? ` in ${left} s` : '');
  }
}
