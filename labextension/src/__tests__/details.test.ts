import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { advance, LiveRun, NOTHING } from '../model';
import type { RetryScheduled, Run, Step } from '../protocol';
import { RunView } from '../view/run';
import { asking, begun, RUN, runOf, runWith, saying } from './story';

const RETRY: RetryScheduled = {
  type: 'retry_scheduled',
  step: 1,
  attempt: 1,
  of: 2,
  delay: 2.5,
  reason: 'Busy.'
};
const USAGE = { ...RUN.steps[0].usage, prompt_tokens: 900, completion_tokens: 40 };

let view: RunView;

const drawn = (state: LiveRun, to = view) => {
  to.update(state);
  return to.element;
};
const saved = (run: Partial<Run>) => drawn({ ...NOTHING, run: { ...RUN, ...run } });
const textOf = (root: Element, selector: string) =>
  root.querySelector<HTMLElement>(selector)?.textContent;

beforeEach(() => {
  view = new RunView({ decide: vi.fn(), stop: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => {
  view.dispose();
  vi.useRealTimers();
});

describe('the footer (P08)', () => {
  it('tells tokens and the trace id, as text that can be selected', () => {
    const footer = saved({}).querySelector('footer');
    expect(footer?.textContent).toBe(
      '3,500 tokens in (512 from cache), 340 out · $0.012 · 41.7 s · trace trace-1'
    );
    expect(footer?.querySelector('a')).toBeNull();
    expect(textOf(view.element, '[data-ipyagent="trace"]')).toBe('trace-1');
  });

  it('is there as soon as the run is', () => {
    expect(textOf(drawn(begun()), 'footer')).toBe('trace trace-1');
  });
});

describe('verbose (A16)', () => {
  const open = () => [...view.element.querySelectorAll('details')].filter(details => details.open);

  it('0: all is folded but dry runs, which are there to be seen', () => {
    saved({ verbose: 0 });
    expect(view.element.querySelectorAll('details').length).toBeGreaterThan(5);
    expect(
      open().map(details => details.parentElement?.classList.contains('ipyagent-dry'))
    ).toEqual([true]);
  });

  it('1: cards and thinking are open, what the model was told is not', () => {
    saved({ verbose: 1 });
    const folded = [...view.element.querySelectorAll('details')].filter(each => !each.open);
    expect(folded.map(each => each.className)).toEqual(['ipyagent-context', 'ipyagent-exact']);
    expect(view.element.textContent).not.toContain('tools 0.01 s');
  });

  it('2: what the model was told, and what each step took', () => {
    const text = saved({ verbose: 2 }).textContent;
    expect(view.element.querySelector('details:not([open], .ipyagent-exact)')).toBeNull();
    expect(text).toContain(
      'step 1 · 900 tokens in (512 from cache), 40 out · $0.003 · thinking 2.60 s · tools 0.01 s'
    );
    expect(text).not.toContain('finish reason');
    expect(text).not.toContain('call c1');
  });

  it.each([3, 4])('%i: ids, reasons, who decided and when', verbose => {
    const text = saved({ verbose }).textContent;
    expect(text).toContain('tools 0.01 s · finish reason tool_calls');
    expect(text).toContain('call c1 · auto by policy · began 09:30:00 UTC');
    expect(text).toContain('call c2 · approved by button');
  });

  it('leaves closed what a person closed', () => {
    saved({ verbose: 1 });
    const details = view.element.querySelector<HTMLDetailsElement>('.ipyagent-tool-details');
    details?.removeAttribute('open');
    saved({ verbose: 1, notes: ['more'] });
    expect(details?.isConnected).toBe(true);
    expect(details?.open).toBe(false);
  });
});

describe('a retry', () => {
  beforeEach(() => vi.useFakeTimers());

  const line = () => textOf(view.element, '.ipyagent-asking');
  const isHidden = () => view.element.querySelector<HTMLElement>('.ipyagent-asking')?.hidden;

  it('is counted down in the line that tells what is waited for', () => {
    drawn(begun());
    const before = view.element.querySelector('.ipyagent-asking');
    expect(line()).toBe('Asking the model');
    drawn(advance(begun(), RETRY));
    expect(line()).toBe('Retry 1/2 in 3 s');
    vi.advanceTimersByTime(1_000);
    expect(line()).toBe('Retry 1/2 in 2 s');
    vi.advanceTimersByTime(10_000);
    expect(line()).toBe('Retry 1/2');
    expect(view.element.querySelector('.ipyagent-asking')).toBe(before);
    expect(before?.getAttribute('aria-live')).toBe('polite');
    expect(before?.querySelector('[aria-hidden]')?.textContent).toBe('');
  });

  it('is over with the next event', () => {
    const waiting = advance(begun(), RETRY);
    drawn(waiting);
    const stopped = { status: 'cancelled', stop_reason: 'interrupted', error: null } as const;
    drawn(advance(waiting, { type: 'run_finished', ...stopped, duration: 1 }));
    expect(isHidden()).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    drawn(advance(waiting, { type: 'message_started', step: 1 }));
    expect(line()).toBe('Asking the model');
    expect(view.element.textContent).toContain('Busy. Retry 1/2 in 2.5 s.');
  });

  it('leaves no clock behind', () => {
    drawn(advance(begun(), RETRY));
    view.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a decision that came too late (P23)', () => {
  it('is told what had been decided, and when', () => {
    const at = '2025-03-01T09:30:00+00:00';
    const late = { c2: { decision: 'approved' as const, at } };
    const hours = new Date(at).toTimeString().slice(0, 5);
    drawn({ ...asking('c2'), late });
    expect(textOf(view.element, '[data-tool="run_python"] .ipyagent-late')).toBe(
      `Too late: already approved at ${hours}.`
    );
    drawn(advance({ ...asking('c2'), late }, { ...STEP, step: 3 }));
    expect(view.element.textContent).not.toContain('Too late');
  });
});

const STEP = { type: 'step_started', step: 2, closing: false, nudge: null } as const;

describe('a call with an unknown outcome', () => {
  it('says so in its line, its glyph and its state', () => {
    drawn(runOf({ status: 'unknown', decision: 'approved', decided_by: 'button', result: null }));
    const card = view.element.querySelector<HTMLElement>('[data-ipyagent="tool"]');
    expect(card?.dataset.state).toBe('unknown');
    expect(card?.querySelector('[aria-label="unknown outcome"]')?.textContent).toBe('!');
    expect(textOf(view.element, '.ipyagent-decision')).toBe('unknown outcome');
    expect(textOf(view.element, '.ipyagent-result')).toBe('approved by you');
  });
});

describe('the steps', () => {
  const step = (changes: Partial<Step>): Step => ({
    ...RUN.steps[0],
    message: null,
    executions: [],
    notes: [],
    ...changes
  });
  const header = () => textOf(view.element, '.ipyagent-facts');

  it('are counted without the closing one, which says why it is', () => {
    saved({ max_steps: 2, steps: [step({}), step({ number: 2 })] });
    expect(header()).toContain('step 2/2');
    expect(header()).not.toContain('closing');
    saved({ max_steps: 2, steps: [step({}), step({}), step({ closing: true })] });
    expect(header()).toContain('step 2/2closing');
    expect(view.element.textContent).toContain('The budget is spent');
  });

  it('say where a cut reply goes on', () => {
    saved({ steps: [step({ finish_reason: 'length' }), step({ number: 2 })] });
    expect(view.element.textContent).toContain('The reply was cut: the model was asked to go on.');
    saved({ steps: [step({ finish_reason: 'stop' }), step({ number: 2 })] });
    expect(view.element.textContent).not.toContain('The reply was cut');
  });

  it('wait for no reply when the reply was empty', () => {
    const isAsking = () =>
      view.element.querySelector<HTMLElement>('.ipyagent-asking')?.hidden === false;
    drawn(begun());
    expect(isAsking()).toBe(true);
    const empty = { message: null, finish_reason: 'stop', cost_usd: null, thinking_seconds: null };
    drawn(advance(begun(), { type: 'message_finished', step: 1, usage: USAGE, ...empty }));
    expect(isAsking()).toBe(false);
  });
});

describe('the end', () => {
  it.each([
    ['timeout', null, 'agent.step_seconds'],
    ['context_overflow', null, '%agent session new'],
    ['max_tokens', 'stop', '--max-tokens'],
    ['max_tokens', 'length', 'the model’s own limit']
  ] as const)('by %s (%s) says what to do', (stop_reason, finish_reason, words) => {
    drawn(runWith({ ...saying('Half an'), finish_reason }, { stop_reason }));
    expect(textOf(view.element, '.ipyagent-content')).toContain(words);
  });

  it('of a kernel that was restarted is a failure with its reason', () => {
    const error = 'The kernel was restarted while this run was on.\nAsk again to go on.';
    const call = { ...RUN.steps[0].executions[0], status: 'unknown' as const, result: null };
    const steps = [{ ...RUN.steps[0], executions: [call] }];
    const root = saved({ status: 'error', stop_reason: 'error', error, steps });
    expect(root.dataset.state).toBe('failed');
    expect(textOf(root, '.ipyagent-error-title')).toContain('The kernel was restarted');
    expect(textOf(root, '.ipyagent-decision')).toBe('unknown outcome');
    expect(root.querySelectorAll('button')).toHaveLength(0);
  });
});
