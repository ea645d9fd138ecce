/** The line on top of a run: who, how far, how much, and how to stop. */
import { LiveRun, RunState, runState } from '../model';
import { stepsBegun } from '../progress';
import type { Run } from '../protocol';
import { Child, h, Slot } from './dom';
import { button } from './form';
import { count, dollars, duration } from './format';
import { reveal } from './reveal';

/** What a person reads for a state. */
export const STATES: Record<RunState, string> = {
  running: 'running',
  waiting: 'waiting for you',
  done: 'done',
  partial: 'partial',
  failed: 'failed',
  cancelled: 'cancelled'
};

export class HeaderView {
  readonly element = h('header', { class: 'ipyagent-header' });

  private title = new Slot(h('span', { class: 'ipyagent-title' }));
  private chip = h('span', { class: 'ipyagent-chip', 'aria-live': 'polite' });
  private facts = new Slot(h('span', { class: 'ipyagent-facts' }));
  private clock = h('span', { class: 'ipyagent-clock' });
  private controls = new Slot(h('span', { 'data-lm-suppress-shortcuts': 'true' }));
  private began: number | null = null;
  private timer: number | null = null;

  /** `stop` is null where there is nothing to stop: in a saved run. */
  constructor(private stop: (() => void) | null) {
    const facts = [this.facts.element, this.clock];
    this.element.append(this.title.element, this.chip, ...facts, this.controls.element);
  }

  update(state: LiveRun): void {
    const { run } = state;
    const word = runState(state);
    const isLive = this.stop !== null && (word === 'running' || word === 'waiting');
    const isCutOff = this.stop === null && word === 'running';
    const isPlan = run?.stop_reason === 'planned' && word === 'done';
    const label = isCutOff ? 'unfinished' : isPlan ? 'planned' : STATES[word];
    if (this.chip.textContent !== label) {
      this.chip.textContent = label;
    }
    this.title.show([run?.model, run?.confirm_mode], () => title(run));
    this.facts.show(run === null ? [] : facts(run), () => (run === null ? [] : spans(facts(run))));
    this.controls.show(isLive, () => (isLive ? [this.stopButton()] : []));
    this.tick(run, isLive);
  }

  /** Let go of the clock. */
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

  private tick(run: Run | null, isLive: boolean): void {
    if (run === null || !isLive) {
      this.dispose();
      this.clock.textContent = run?.duration == null ? '' : duration(run.duration);
      return;
    }
    // A run seen from its beginning is timed here: the kernel's clock may differ from this one's.
    const start = run.steps.length === 0 ? Date.now() : Date.parse(run.started_at);
    this.began ??= Number.isNaN(start) ? Date.now() : start;
    this.timer ??= window.setInterval(() => this.showElapsed(), 1_000);
    this.showElapsed();
  }

  private showElapsed(): void {
    const seconds = Math.max(0, Math.floor((Date.now() - (this.began ?? 0)) / 1_000));
    const text = seconds < 60 ? `${seconds} s` : duration(seconds);
    if (this.clock.textContent !== text) {
      this.clock.textContent = text;
    }
  }
}

function title(run: Run | null): Child[] {
  const asks = run?.confirm_mode !== 'yolo';
  return [
    h('b', {}, 'ipyagent'),
    run === null ? null : h('span', { class: 'ipyagent-model' }, reveal(modelName(run))),
    asks ? null : h('span', { class: 'ipyagent-badge ipyagent-yolo' }, 'yolo: runs unasked')
  ];
}

/** The data explorer says on every card what it is not. */
function modelName({ model }: Run): string {
  return model.startsWith('offline/') ? `${model} (not a language model)` : model;
}

function facts(run: Run): string[] {
  const asked = run.steps.filter(({ closing }) => !closing).length;
  const tokens = run.steps.map(({ usage }) => usage.prompt_tokens + usage.completion_tokens);
  const costs = run.steps.map(({ cost_usd }) => cost_usd).filter(cost => cost !== null);
  const total = sum(tokens);
  const isClosing = run.plan.length === 0 && asked < run.steps.length;
  return [
    run.plan.length > 0
      ? `step ${stepsBegun(run)}/${run.plan.length}`
      : `step ${asked}/${run.max_steps}`,
    ...(isClosing ? ['closing'] : []),
    ...(total > 0 ? [`${count(total)} tok`] : []),
    ...(costs.length > 0 ? [dollars(sum(costs))] : [])
  ];
}

function spans(texts: string[]): HTMLElement[] {
  return texts.map(text => h('span', {}, text));
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
