import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { SavedRun } from '../lab/outputs';
import { savedCard } from '../saved';
import { host, type Lab } from '../view/host';
import { savedOf, labWith } from './story';

const askBelow = vi.fn<Lab['askBelow']>();
const EXPLORER = { model: 'offline/explorer' };

function draw(text = '', changes: Partial<SavedRun> = {}): HTMLElement {
  const card = savedCard(...savedOf(text, [], changes));
  document.body.replaceChildren(card);
  return card;
}

function press(input: HTMLInputElement, text: string): void {
  input.value = text;
  input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
}

const line = (card: HTMLElement) =>
  card.querySelector<HTMLInputElement>('[data-ipyagent=follow-up]');

const asked = () => askBelow.mock.calls.map(([, prompt]) => prompt);

beforeEach(() => {
  askBelow.mockReset().mockReturnValue(null);
  host.lab = labWith({ askBelow });
});

afterEach(() => {
  host.lab = null;
});

describe('the line below a run that is over', () => {
  it('asks on in a cell below, and says why it cannot', () => {
    const input = line(draw());
    if (input === null) {
      throw new Error('no line');
    }
    press(input, '  ');
    press(input, ' And by year? ');
    expect([asked(), input.value]).toEqual([['And by year?'], '']);
    askBelow.mockReturnValue('This notebook is read-only');
    press(input, 'And now?');
    expect(input.value).toBe('And now?');
    expect(input.parentElement?.textContent).toBe('This notebook is read-only');
  });

  it('is there only after the end, and only where there is a notebook', () => {
    const isHidden = (card: HTMLElement) => line(card) === null;
    expect(isHidden(draw())).toBe(false);
    expect(isHidden(draw('', { status: 'running' }))).toBe(true);
    host.lab = null;
    expect(isHidden(draw())).toBe(true);
  });
});

describe('requests that the explorer proposes', () => {
  const text =
    'No.\n\nTry one of these:\n\n- Profile `sales`\n- Plot `x`\n\nNext: “Load a.csv”.\n\n- other';

  it('are asked by a click, once the run is over', () => {
    const card = draw(text, EXPLORER);
    const buttons = card.querySelectorAll<HTMLElement>('[data-ipyagent=request]');
    buttons.forEach(button => button.click());
    expect(asked()).toEqual(['Profile sales', 'Plot x', 'Load a.csv']);
    expect(card.textContent).toContain('other');
  });

  it.each([
    ['of another model', {}],
    ['while it runs', { ...EXPLORER, status: 'running' }]
  ])('are text %s', (_, changes) => {
    expect(draw(text, changes).querySelector('[data-ipyagent=request]')).toBeNull();
  });
});
