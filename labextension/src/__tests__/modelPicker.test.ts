/** The button by which the model of the next prompts is chosen. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { SavedRun } from '../lab/outputs';
import { savedCard } from '../saved';
import { host, type Lab } from '../view/host';
import { savedOf, labWith } from './story';

const chooseModel = vi.fn<Lab['chooseModel']>();
const askBelow = vi.fn<Lab['askBelow']>();

function draw(changes: Partial<SavedRun> = {}) {
  const card = savedCard(...savedOf('', [], changes));
  return (name: string) => card.querySelector<HTMLElement>(`[data-ipyagent=${name}]`);
}

beforeEach(() => {
  askBelow.mockReset().mockReturnValue(null);
  host.lab = labWith({ chooseModel, askBelow });
});

afterEach(() => (host.lab = null));

it('is not there for a run that got no model, nor where there is no kernel to ask', () => {
  expect(draw({ model: '' })('model')).toBeNull();
  host.lab = null;
  expect(draw()('model')).toBeNull();
});

it('leaves the run as it was; a follow-up leaves the model of its cell once one is chosen', async () => {
  const find = draw();
  for (const isChosen of [false, true]) {
    chooseModel.mockResolvedValue(isChosen);
    find('model')?.click();
    await Promise.resolve();
    await Promise.resolve();
    Object.assign(find('follow-up') ?? {}, { value: 'And now?' });
    find('follow-up')?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
  }
  expect(askBelow.mock.calls.map(([, , isModelKept]) => isModelKept)).toEqual([true, false]);
});
