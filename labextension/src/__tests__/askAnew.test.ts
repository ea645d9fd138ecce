/** The button on the card of a replayed run, which asks the model in place of the recording. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { savedCard } from '../saved';
import { host } from '../view/host';
import { keepHtml } from '../view/sanitize';
import { savedOf } from './story';

const askAnew = vi.fn<NonNullable<typeof host.askAnew>>();

function drawn(replayed: boolean): HTMLButtonElement | null {
  const card = savedCard(...savedOf('It is 3.', [], replayed ? { replayed: {} } : {}), keepHtml);
  document.body.replaceChildren(card);
  return card.querySelector<HTMLButtonElement>('[data-ipyagent=ask-anew]');
}

beforeEach(() => {
  vi.useFakeTimers();
  askAnew.mockReset().mockResolvedValue('Asking the model');
  host.askAnew = askAnew;
});

afterEach(() => {
  vi.useRealTimers();
  host.askAnew = null;
});

describe('a replayed run', () => {
  it('asks the model in its own cell, and says what came of it', async () => {
    const button = drawn(true);
    expect(button?.textContent).toBe('Ask anew');
    button?.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(askAnew).toHaveBeenCalledOnce();
    expect(document.body.contains(askAnew.mock.calls[0][0] as Node)).toBe(true);
    expect(button?.textContent).toBe('Asking the model');
  });

  it('offers that only where there is a notebook, and no other run does', () => {
    expect(drawn(false)).toBeNull();
    host.askAnew = null;
    expect(drawn(true)).toBeNull();
  });
});
