import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Transcript } from '../protocol';
import { RunView } from '../view/run';
import {
  asking,
  begun,
  inCall,
  inStep,
  NOTHING,
  TRANSCRIPT,
  upTo,
  withCall,
  withHeader
} from './story';

const RETRY = { text: 'Retry 1/2', seconds: 2.5 };

let view: RunView;

const drawn = (transcript: Transcript, to = view) => {
  to.update(transcript);
  return to.element;
};
const textOf = (root: Element, selector: string) =>
  root.querySelector<HTMLElement>(selector)?.textContent;

beforeEach(() => {
  view = new RunView({ decide: vi.fn(), send: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => {
  view.dispose();
  vi.useRealTimers();
});

describe('the footer (P08)', () => {
  it('tells what the run took, and behind that the trace id, as text that can be selected', () => {
    const footer = drawn(TRANSCRIPT).querySelector('footer');
    expect(footer?.querySelector('summary')?.textContent).toBe('41.7 s · details');
    expect(footer?.querySelector('details')?.open).toBe(false);
    expect(footer?.querySelector('p')?.textContent).toBe(
      '3,500 tokens in (512 from cache), 340 out · $0.012 · trace trace-1'
    );
    expect(footer?.querySelector('a')).toBeNull();
    expect(textOf(view.element, '[data-ipyagent="trace"]')).toBe('trace-1');
  });

  it('has as many facts as there are, and no trace where there is none', () => {
    const footer = { duration: '', folds: [], facts: ['one', 'two', 'three'], trace_id: '' };
    expect(textOf(drawn({ ...TRANSCRIPT, footer }), 'footer p')).toBe('one · two · three');
    expect(view.element.querySelector('[data-ipyagent="trace"]')).toBeNull();
  });

  it('is there as soon as the run is', () => {
    expect(textOf(drawn(begun()), 'footer p')).toBe('trace trace-1');
    expect(textOf(view.element, 'footer > details > summary')).toBe('details');
  });
});

describe('what is unfolded (A16)', () => {
  it('is what the transcript says', () => {
    const context = { title: 'Sent with your prompt', text: 'x', is_open: true };
    const thinking = { title: 'Thinking (3 s)', text: 'hm', is_open: true };
    const open = inStep(withCall({ is_open: true }), { thinking });
    const footer = { ...open.footer, folds: [context] };
    drawn({ ...open, footer });
    const OUTSIDE_A_PLAN = 'details:not(.ipyagent-plan *)';
    const folds = [...view.element.querySelectorAll<HTMLDetailsElement>(OUTSIDE_A_PLAN)];
    expect(folds.map(({ className }) => className)).toEqual([
      'ipyagent-thinking',
      'ipyagent-tool-details',
      '',
      'ipyagent-context'
    ]);
    expect(folds.every(each => each.open)).toBe(true);
    const closed = new RunView(NOTHING);
    const shut = inStep(withCall({}), { thinking: { ...thinking, is_open: false } });
    drawn({ ...shut, footer: { ...footer, folds: [{ ...context, is_open: false }] } }, closed);
    const shutFolds = [...closed.element.querySelectorAll<HTMLDetailsElement>(OUTSIDE_A_PLAN)];
    expect(shutFolds.some(each => each.open)).toBe(false);
  });

  it('has the facts of a step below it', () => {
    const step = drawn(inStep(withCall({}), { facts: 'step 1 · tools 0.01 s' })).querySelector(
      '.ipyagent-step'
    );
    expect(step?.lastElementChild?.textContent).toBe('step 1 · tools 0.01 s');
  });

  it('stays closed where a user closed it', () => {
    const open = withCall({ is_open: true });
    drawn(open);
    const details = view.element.querySelector<HTMLDetailsElement>('.ipyagent-tool-details');
    details?.removeAttribute('open');
    drawn({ ...withCall({ is_open: true, verdict: 'approved by you' }), notes: ['more'] });
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
    drawn(inStep(begun(), { waiting: RETRY }));
    expect(line()).toBe('Retry 1/2 in 3 s');
    vi.advanceTimersByTime(1_000);
    expect(line()).toBe('Retry 1/2 in 2 s');
    vi.advanceTimersByTime(10_000);
    expect(line()).toBe('Retry 1/2');
    expect(view.element.querySelector('.ipyagent-asking')).toBe(before);
    expect(before?.getAttribute('aria-live')).toBe('polite');
    expect(before?.querySelector('[aria-hidden]')?.textContent).toBe('');
  });

  it('goes on being counted while other things change', () => {
    const waiting = inStep(begun(), { waiting: RETRY });
    drawn(waiting);
    vi.advanceTimersByTime(1_000);
    drawn({ ...waiting, notes: ['meanwhile'] });
    expect(line()).toBe('Retry 1/2 in 2 s');
  });

  it('is over when the transcript says so', () => {
    drawn(inStep(begun(), { waiting: RETRY }));
    drawn(inStep(begun(), { waiting: null }));
    expect(isHidden()).toBe(true);
    expect(vi.getTimerCount()).toBe(1); // the clock of the run
    drawn(withHeader(begun(), TRANSCRIPT.header));
    expect(vi.getTimerCount()).toBe(0);
  });

  it('leaves no clock behind', () => {
    drawn(inStep(begun(), { waiting: RETRY }));
    view.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a decision that came too late (P23)', () => {
  it('is told what had been decided, and when', () => {
    const at = '2025-03-01T09:30:00+00:00';
    const hours = new Date(at).toTimeString().slice(0, 5);
    drawn(inCall(asking('c2'), 'c2', { late: { decision: 'approved', at } }));
    expect(textOf(view.element, '[data-tool="run_python"] .ipyagent-late')).toBe(
      `Too late: already approved at ${hours}.`
    );
    drawn(inCall(asking('c2'), 'c2', { late: null }));
    expect(view.element.textContent).not.toContain('Too late');
  });
});

describe('the line on top', () => {
  beforeEach(() => vi.useFakeTimers());

  const clock = () => textOf(view.element, '.ipyagent-clock');

  it('counts the seconds while the run goes on', () => {
    drawn(withHeader(begun(), { facts: [] }));
    expect(clock()).toBe('0 s');
    vi.advanceTimersByTime(125_000);
    expect(clock()).toBe('2 min 5 s');
    drawn(withHeader(begun(), TRANSCRIPT.header));
    expect(clock()).toBe('');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('has the state in words, and each fact by itself', () => {
    drawn(withHeader(TRANSCRIPT, { state_text: 'so so', facts: ['a', 'b'] }));
    expect(textOf(view.element, '.ipyagent-chip')).toBe('so so');
    const facts = [...view.element.querySelectorAll('.ipyagent-facts > span')];
    expect(facts.map(each => each.textContent)).toEqual(['a', 'b']);
  });
});

describe('the steps', () => {
  it('say why the model was asked, and what happened on the way', () => {
    drawn(inStep(begun(), { notes: ['The reply was cut.', 'Busy.'] }));
    const notes = [...view.element.querySelectorAll('.ipyagent-step .ipyagent-note:not([hidden])')];
    expect(notes.map(each => each.textContent).slice(0, 2)).toEqual([
      'The reply was cut.',
      'Busy.'
    ]);
  });

  it('wait for no reply when it has come', () => {
    const isAsking = () =>
      view.element.querySelector<HTMLElement>('.ipyagent-asking')?.hidden === false;
    drawn(begun());
    expect(isAsking()).toBe(true);
    drawn(upTo(({ type }) => type === 'message_finished'));
    expect(isAsking()).toBe(false);
  });
});
