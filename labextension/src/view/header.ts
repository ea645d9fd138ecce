/** The header of a run: model, state, facts, and the stop button. */
import type { Header } from '../protocol';
import { Child, h, setText, Slot } from './dom';
import { button } from './form';
import { host } from './host';
import { ModelPicker } from './modelPicker';
import { reveal } from './reveal';

export class HeaderView {
  readonly element = h('header', { class: 'ipyagent-header' });

  private title = new Slot(h('span', { class: 'ipyagent-title' }));
  private chip = h('span', { class: 'ipyagent-chip', 'aria-live': 'polite' });
  private facts = new Slot(h('span', { class: 'ipyagent-facts' }));
  private clock = h('span', { class: 'ipyagent-clock' });
  private controls = new Slot(h('span', { 'data-lm-suppress-shortcuts': 'true' }));
  private start: number | null = null;
  private timer: number | null = null;
  private picker: ModelPicker;

  /** `stop` is null in a saved run; `chooseModel` is called once the user has chosen a model. */
  constructor(
    private stop: (() => void) | null,
    chooseModel: () => void = () => undefined
  ) {
    this.picker = new ModelPicker(
      chosen => host.models?.(this.element, chosen) ?? Promise.resolve(undefined),
      chooseModel
    );
    const facts = [this.facts.element, this.clock];
    this.element.append(this.title.element, this.chip, ...facts, this.controls.element);
    this.element.append(this.picker.drawer);
  }

  /** Draw a run; null before its first snapshot. */
  update(header: Header | null, isOver: boolean): void {
    const isLive = this.stop !== null && !isOver;
    setText(this.chip, header?.state_text ?? 'running');
    const picker = host.models === null || !header?.model ? null : this.picker;
    const key = [header?.model, header?.badge, picker === null];
    this.title.show(key, () => title(header, picker));
    this.facts.show(header?.facts, () => (header?.facts ?? []).map(fact => h('span', {}, fact)));
    this.controls.show(isLive, () => (isLive ? [this.stopButton()] : []));
    this.tick(header, isLive);
  }

  /** Stop the clock. */
  dispose(): void {
    if (this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
    }
  }

  private stopButton(): HTMLElement {
    const element = button('stop', '■ Stop', 'Stop this run', () => {
      element.disabled = true;
      element.textContent = 'Stopping…';
      element.setAttribute('aria-label', 'Stopping…');
      this.stop?.();
    });
    return element;
  }

  private tick(header: Header | null, isLive: boolean): void {
    if (header === null || !isLive) {
      this.dispose();
      this.clock.textContent = '';
      return;
    }
    // A new run is timed by the page's clock, which may differ from the kernel's.
    const start = header.facts.length === 0 ? Date.now() : Date.parse(header.started_at);
    this.start ??= Number.isNaN(start) ? Date.now() : start;
    this.timer ??= window.setInterval(() => this.showElapsed(), 1_000);
    this.showElapsed();
  }

  private showElapsed(): void {
    setText(this.clock, formatElapsed((Date.now() - (this.start ?? 0)) / 1_000));
  }
}

function title(header: Header | null, picker: ModelPicker | null): Child[] {
  if (header === null) {
    return [h('b', {}, 'ipyagent')];
  }
  picker?.update(header.model);
  return [
    h('b', {}, 'ipyagent'),
    picker?.element ?? h('span', { class: 'ipyagent-model' }, reveal(header.model)),
    header.badge === '' ? null : h('span', { class: 'ipyagent-badge ipyagent-yolo' }, header.badge)
  ];
}

/** Format whole seconds: 5 s, 2 min 5 s. */
function formatElapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
