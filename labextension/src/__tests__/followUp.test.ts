import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Transcript } from '../protocol';
import { host } from '../view/host';
import { RunView } from '../view/run';
import { TRANSCRIPT, withStep } from './story';

const askBelow = vi.fn<NonNullable<typeof host.askBelow>>();
const EXPLORER = { ...TRANSCRIPT.header, model: 'offline/explorer (not a language model)' };

function draw(transcript: Transcript): RunView {
  const view = new RunView(null);
  view.update(transcript);
  document.body.replaceChildren(view.element);
  return view;
}

function press(input: HTMLInputElement, text: string): void {
  input.value = text;
  input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
}

const line = (view: RunView) =>
  view.element.querySelector<HTMLInputElement>('[data-ipyagent=follow-up]');

const asked = () => askBelow.mock.calls.map(([, prompt]) => prompt);

beforeEach(() => {
  askBelow.mockReset().mockReturnValue(null);
  host.askBelow = askBelow;
});

afterEach(() => {
  host.askBelow = null;
});

describe('the line below a run that is over', () => {
  it('asks on in a cell below, and says why it cannot', () => {
    const input = line(draw(TRANSCRIPT));
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
    const isHidden = (view: RunView) => line(view) === null;
    expect(isHidden(draw(TRANSCRIPT))).toBe(false);
    const running = { ...TRANSCRIPT.header, state: 'running' as const };
    expect(isHidden(draw({ ...TRANSCRIPT, header: running }))).toBe(true);
    host.askBelow = null;
    expect(isHidden(draw(TRANSCRIPT))).toBe(true);
  });
});

describe('requests that the explorer proposes', () => {
  const text =
    'No.\n\nTry one of these:\n\n- Profile `sales`\n- Plot `x`\n\nNext: “Load a.csv”.\n\n- other';

  it('are asked by a click, once the run is over', () => {
    const view = draw(withStep({ text, is_answer: true }, { header: EXPLORER }));
    view.update(withStep({ text, is_answer: true }, { header: EXPLORER }));
    const buttons = view.element.querySelectorAll<HTMLElement>('[data-ipyagent=request]');
    buttons.forEach(button => button.click());
    expect(asked()).toEqual(['Profile sales', 'Plot x', 'Load a.csv']);
    expect(view.element.textContent).toContain('other');
  });

  it.each([
    ['of another model', { header: TRANSCRIPT.header }],
    ['while it runs', { header: { ...EXPLORER, state: 'running' as const } }]
  ])('are text %s', (_, changes) => {
    const view = draw(withStep({ text, is_answer: true }, changes));
    expect(view.element.querySelector('[data-ipyagent=request]')).toBeNull();
  });
});
