/** The header of a run: model, state, facts, and the stop button. */
import type { Header } from '../protocol';
import { Child, Clock, h, setText, Slot } from './dom';
import { button } from './form';
import { reveal } from './reveal';

export class HeaderView {
  readonly element = h('header', { class: 'ipyagent-header' });

  private title = new Slot(h('span', { class: 'ipyagent-title' }));
  private chip = h('span', { class: 'ipyagent-chip', 'aria-live': 'polite' });
  private facts = new Slot(h('span', { class: 'ipyagent-facts' }));
  private clock = new Clock(h('span', { class: 'ipyagent-clock' }));
  private controls = new Slot(h('span', { 'data-lm-suppress-shortcuts': 'true' }));
  private start: number | null = null;

  constructor(private stop: () => void) {
    const facts = [this.facts.element, this.clock.element];
    this.element.append(this.title.element, this.chip, ...facts, this.controls.element);
  }

  /** Draw a run; null before its first snapshot. */
  update(header: Header | null, isOver: boolean): void {
    setText(this.chip, header?.state_text ?? 'running');
    this.title.show([header?.model, header?.badge], () => titleOf(header));
    this.facts.show(header?.facts, () => (header?.facts ?? []).map(fact => h('span', {}, fact)));
    this.controls.show(isOver, () => (isOver ? [] : [this.stopButton()]));
    this.tick(header, isOver);
  }

  /** Stop the clock. */
  dispose(): void {
    this.clock.dispose();
  }

  private stopButton(): HTMLElement {
    const element = button('stop', '■ Stop', 'Stop this run', () => {
      element.disabled = true;
      element.textContent = 'Stopping…';
      element.setAttribute('aria-label', 'Stopping…');
      this.stop();
    });
    return element;
  }

  private tick(header: Header | null, isOver: boolean): void {
    if (header === null || isOver) {
      this.clock.run(null);
      return;
    }
    // A new run is timed by the page's clock, which may differ from the kernel's.
    const now = header.facts.length === 0 ? NaN : Date.parse(header.started_at);
    const start = (this.start ??= Number.isNaN(now) ? Date.now() : now);
    this.clock.run(() => formatElapsed((Date.now() - start) / 1_000));
  }
}

function titleOf(header: Header | null): Child[] {
  const { model, badge } = header ?? { model: '', badge: '' };
  return [
    h('b', {}, 'ipyagent'),
    h('span', { class: 'ipyagent-model' }, reveal(model)),
    badge === '' ? null : h('span', { class: 'ipyagent-badge ipyagent-yolo' }, badge)
  ];
}

/** Return a button with the name of a model, which lets the user choose the next one. */
export function modelButton(model: string, choose: () => void): HTMLElement {
  const hint = `${model}: Choose the model of the next prompts`;
  const element = button('model', reveal(model), hint, choose);
  element.classList.add('ipyagent-model');
  element.setAttribute('aria-haspopup', 'dialog');
  return element;
}

/** Format whole seconds: 5 s, 2 min 5 s. */
function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
