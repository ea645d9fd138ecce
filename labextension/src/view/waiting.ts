/** The line that says what a step waits for: the model's reply, or the next attempt. */
import type { Waiting } from '../protocol';
import { Clock, h, setText } from './dom';

/** One line, with the seconds to a retry counted down. */
export class WaitingView {
  private what = h('span');
  /** Hidden from screen readers, which read the words before it once. */
  private clock = new Clock(h('span', { class: 'ipyagent-seconds', 'aria-hidden': 'true' }));
  private waiting: Waiting | null = null;

  readonly element = h(
    'p',
    { class: 'ipyagent-note ipyagent-asking', 'aria-live': 'polite', hidden: '' },
    this.what,
    this.clock.element
  );

  /** Draw what is waited for; null hides the line. */
  update(waiting: Waiting | null): void {
    this.element.hidden = waiting === null;
    setText(this.what, waiting?.text ?? '');
    if (waiting !== this.waiting) {
      this.waiting = waiting;
      const until = Date.now() + 1_000 * (waiting?.seconds ?? 0);
      const read = (): string => {
        const left = Math.ceil((until - Date.now()) / 1_000);
        return left > 0 ? ` in ${left} s` : '';
      };
      this.clock.run(waiting?.seconds == null ? null : read);
    }
  }

  /** Stop the clock. */
  dispose(): void {
    this.clock.dispose();
  }
}
