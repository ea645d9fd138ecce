/** Buttons that go on: after a recording with the model, after a limit, after a failure. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { SavedRun } from '../lab/outputs';
import type { Offers } from '../protocol';
import { savedCard } from '../saved';
import { host, type Lab } from '../view/host';
import { OFFERS, savedOf, labWith } from './story';

const runAgain = vi.fn<Lab['runAgain']>();

function draw(changes: Partial<SavedRun>): HTMLElement {
  const card = savedCard(...savedOf('It is 3.', [], changes));
  document.body.replaceChildren(card);
  return card;
}

function find(card: HTMLElement, name: string): HTMLButtonElement | null {
  return card.querySelector<HTMLButtonElement>(`[data-ipyagent=${name}]`);
}

function drawn(replayed: boolean): HTMLButtonElement | null {
  return find(draw(replayed ? { replayed: {} } : {}), 'ask-anew');
}

beforeEach(() => {
  vi.useFakeTimers();
  runAgain.mockReset().mockResolvedValue('Asking the model');
  host.lab = labWith({ runAgain });
});

afterEach(() => {
  vi.useRealTimers();
  host.lab = null;
});

describe('a replayed run', () => {
  it('asks the model in its own cell, and says what came of it', async () => {
    const button = drawn(true);
    expect(button?.textContent).toBe('Ask anew');
    button?.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(runAgain).toHaveBeenCalledOnce();
    expect(document.body.contains(runAgain.mock.calls[0][0] as Node)).toBe(true);
    expect(button?.textContent).toBe('Asking the model');
  });

  it('offers that only where there is a notebook, and no other run does', () => {
    expect(drawn(false)).toBeNull();
    host.lab = null;
    expect(drawn(true)).toBeNull();
  });
});

const going = (go_on: Offers['go_on']): Partial<SavedRun> => ({ offers: { ...OFFERS, go_on } });

/** The names of the buttons that go on, on the card of such a run. */
function ways(changes: Partial<SavedRun>): string[] {
  const card = draw(changes);
  return ['continue', 'try-again'].filter(name => find(card, name) !== null);
}

describe('a run that was not all', () => {
  const askBelow = vi.fn<Lab['askBelow']>();

  beforeEach(() => {
    askBelow.mockReset().mockReturnValue(null);
    host.lab = labWith({ askBelow, runAgain });
  });

  afterEach(() => {
    host.lab = null;
  });

  it.each(['continue', 'try-again'] as const)('offers to %s where the kernel says so', way => {
    expect(ways(going(way))).toEqual([way]);
    expect(ways(going(null))).toEqual([]);
  });

  it('goes on in a cell below, once', () => {
    const button = find(draw(going('continue')), 'continue');
    button?.click();
    button?.click();
    expect(askBelow.mock.calls.map(([, prompt]) => prompt)).toEqual(['Continue']);
    expect(button?.disabled).toBe(true);
  });

  it('can be continued once what prevented it is gone', () => {
    const button = find(draw(going('continue')), 'continue');
    askBelow.mockReturnValueOnce('This notebook is read-only');
    button?.click();
    expect(document.body.textContent).toContain('This notebook is read-only');
    button?.click();
    expect(askBelow).toHaveBeenCalledTimes(2);
  });

  it('runs its own cell again, whatever is recorded', async () => {
    find(draw(going('try-again')), 'try-again')?.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(runAgain.mock.calls.map(([, isFresh]) => isFresh)).toEqual([false]);
  });

  it('is a plan: nothing is asked on below its calls, but below its own card', () => {
    const row = (changes: Partial<SavedRun>) => draw(changes).querySelector('.ipyagent-own');
    expect(row({ stop_reason: 'planned' })).toBeNull();
    expect(row({ stop_reason: 'finished' })).not.toBeNull();
  });

  it('has no such button where there is no notebook', () => {
    host.lab = null;
    expect(ways(going('continue'))).toEqual([]);
    expect(ways(going('try-again'))).toEqual([]);
  });
});
