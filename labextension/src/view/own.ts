/** Adds to the blocks of a card what only a page can, by what the kernel says beside its HTML. */
import type { DecideOn, ToRun } from '../channel';
import type { Countdown, Drawn, Progress, Source } from '../protocol';
import { FormPart } from './approval';
import { Clock, h } from './dom';
import { button } from './form';
import { keep, place } from './morph';
import { ReviewPart } from './review';
import { toCell } from './toCell';
import { SayPart, UnsentPart } from './userTexts';

/** The connection of a live run, as far as a card needs it. */
export interface Connection {
  readonly decide: DecideOn;
  readonly send: (message: ToRun) => void;
}

export type Own = NonNullable<Drawn['own']>;

/** Buttons, fields or clocks in a block. */
export interface Part<T> {
  /** It is removed with the part. */
  readonly element: Element | null;
  /** Draw them in their block, which may have been morphed. */
  update(own: T, block: HTMLElement): void;
  /** Stop clocks and observers. */
  dispose?(): void;
}

/** Make the part that draws what is added to a block; it is updated with nothing of another type. */
export type Makers = Record<string, (key: string) => Part<Own>>;

/** Return what a run adds to its blocks. */
export function makersFor({ decide, send }: Connection): Makers {
  return {
    asked: () => new FormPart(decide),
    review: () => new ReviewPart(),
    progress: () => new ProgressPart(send),
    countdown: () => new CountdownPart(),
    source: () => new SourcePart(),
    unsent: () => new UnsentPart(send),
    say: () => new SayPart(send)
  };
}

/** The clock of a run, and the button that stops it. */
class ProgressPart implements Part<Progress> {
  readonly element: HTMLElement;

  private clock = new Clock(h('span', { class: 'ipyagent-clock' }));
  private start: number | null = null;

  constructor(send: (message: ToRun) => void) {
    const stop = button('stop', '■ Stop', 'Stop this run', () => {
      stop.disabled = true;
      stop.textContent = stop.ariaLabel = 'Stopping…';
      send({ type: 'stop' });
    });
    const suppressed = { 'data-lm-suppress-shortcuts': 'true' };
    this.element = keep(h('span', suppressed, this.clock.element, stop));
  }

  update({ started_at, is_new }: Progress, block: HTMLElement): void {
    place(this.element, block);
    // A new run is timed by the page's clock, which may differ from the kernel's.
    const began = is_new ? NaN : Date.parse(started_at);
    const start = (this.start ??= Number.isNaN(began) ? Date.now() : began);
    this.clock.run(() => formatElapsed((Date.now() - start) / 1_000));
  }

  dispose(): void {
    this.clock.dispose();
  }
}

/** Format whole seconds: 5 s, 2 min 5 s. */
function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** The seconds to a retry, hidden from screen readers, which read the words before once. */
class CountdownPart implements Part<Countdown> {
  readonly element = keep(h('span', { 'aria-hidden': 'true' }));

  private clock = new Clock(this.element);
  private known: Countdown | null = null;

  update(own: Countdown, block: HTMLElement): void {
    place(this.element, block);
    if (own !== this.known) {
      this.known = own;
      const until = Date.now() + 1_000 * own.seconds;
      this.clock.run(() => {
        const left = Math.ceil((until - Date.now()) / 1_000);
        return left > 0 ? ` in ${left} s` : '';
      });
    }
  }

  dispose(): void {
    this.clock.dispose();
  }
}

/** The button at the caption of a call that makes its code a cell. */
class SourcePart implements Part<Source> {
  readonly element: Element | null;

  private source = '';

  constructor() {
    const made = toCell(() => this.source);
    this.element = made && keep(made);
  }

  update({ text }: Source, block: HTMLElement): void {
    this.source = text;
    const caption = block.querySelector('.ia-caption');
    if (this.element !== null && caption !== null) {
      place(this.element, caption);
    }
  }
}
