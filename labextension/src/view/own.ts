/** Adds to the blocks of a card what only a page can, by what the kernel says beside its HTML. */
import type { DecideOn, ToRun } from '../channel';
import type { Countdown, Drawn, Progress, Review, Source, Steering, Unsent } from '../protocol';
import { FormPart } from './approval';
import { Clock, h, NO_SHORTCUTS, setText, Slot } from './dom';
import { button, nameList, promptField } from './form';
import { SEEN } from './gate';
import { keep, place } from './morph';
import { reveal } from './reveal';
import { toCell } from './toCell';

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
    this.element = keep(h('span', NO_SHORTCUTS, this.clock.element, stop));
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

/**
 * Leads through the calls of a step that wait together, and approves all once they were seen. Opens
 * one of them at a time; each has its own form, with its own gate.
 */
class ReviewPart implements Part<Review> {
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
    this.element = keep(h('span', NO_SHORTCUTS, this.count, previous, next, this.all));
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

/** A button at each text that waits, which takes it back. */
class UnsentPart implements Part<Unsent> {
  readonly element = null;

  private buttons = new Map<string, HTMLElement>();

  constructor(private send: (message: ToRun) => void) {}

  update({ texts }: Unsent, block: HTMLElement): void {
    const before = this.buttons;
    this.buttons = new Map(
      texts.map(({ id, text }, index) => {
        const back = before.get(id) ?? this.backButton(id, text);
        before.delete(id);
        place(back, block.children[index]);
        return [id, back];
      })
    );
    before.forEach(back => back.remove());
  }

  dispose(): void {
    this.buttons.forEach(back => back.remove());
  }

  private backButton(id: string, text: string): HTMLElement {
    const back = button('take-back', 'Take back', `Take back: ${text}`, () => {
      this.send({ type: 'take_back', text_id: id });
      // The button disappears, and the focus must not go to the page.
      const next = back.closest('.ipyagent-card')?.querySelector('[data-ipyagent="say"]');
      (next as HTMLElement | null)?.focus({ preventScroll: true });
    });
    return keep(h('span', NO_SHORTCUTS, back));
  }
}

/** The field for the next text. */
class SayPart implements Part<Steering> {
  readonly element: HTMLElement;

  private problem = new Slot(h('div'));
  private input = promptField('say', '', 'Say something to the agent', () => this.sendText());
  /** The last text sent, which returns to the field if it is refused. */
  private last = '';
  private known = '';

  constructor(private send: (message: ToRun) => void) {
    const parts = [this.problem.element, this.input, nameList(this.input)];
    this.element = keep(h('div', NO_SHORTCUTS, ...parts));
  }

  update({ placeholder, problem }: Steering, block: HTMLElement): void {
    place(this.element, block);
    this.problem.showIf(problem, text =>
      h('p', { class: 'ipyagent-note ipyagent-error', role: 'alert' }, reveal(text))
    );
    this.input.placeholder = placeholder;
    if (problem !== '' && problem !== this.known && this.input.value === '') {
      this.input.value = this.last;
    }
    this.known = problem;
  }

  private sendText(): void {
    const text = this.input.value.trim();
    if (text !== '') {
      this.last = text;
      this.input.value = '';
      this.send({ type: 'say', text });
    }
  }
}
