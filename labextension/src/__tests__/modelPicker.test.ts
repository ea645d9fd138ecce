/** The name of a model as a control, by which the next one is chosen. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { host } from '../view/host';
import { RunView } from '../view/run';
import { TRANSCRIPT } from './story';

const chooseModel = vi.fn<NonNullable<typeof host.chooseModel>>();
const askBelow = vi.fn<NonNullable<typeof host.askBelow>>();
let view: RunView;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent=${name}]`);

beforeEach(() => {
  askBelow.mockReset().mockReturnValue(null);
  Object.assign(host, { chooseModel, askBelow });
  view = new RunView(null);
  view.update(TRANSCRIPT);
});

afterEach(() => Object.assign(host, { chooseModel: null, askBelow: null }));

it('is not there for a run that got no model', () => {
  view.update({ ...TRANSCRIPT, header: { ...TRANSCRIPT.header, model: '' } });
  expect(find('model')).toBeNull();
});

it('leaves the run as it was; a follow-up leaves the model of its cell once one is chosen', async () => {
  for (const isChosen of [false, true]) {
    chooseModel.mockResolvedValue(isChosen);
    find('model')?.click();
    await Promise.resolve();
    await Promise.resolve();
    Object.assign(find('follow-up') ?? {}, { value: 'And now?' });
    find('follow-up')?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
  }
  expect(askBelow.mock.calls.map(([, , isModelKept]) => isModelKept)).toEqual([true, false]);
  expect(find('model')?.textContent).toBe(TRANSCRIPT.header.model);
});

it('is plain text where there is no kernel to ask, with hidden characters spelled out', () => {
  host.chooseModel = null;
  view.update({ ...TRANSCRIPT, header: { ...TRANSCRIPT.header, model: 'a\u202eb' } });
  expect(find('model')).toBeNull();
  expect(view.element.querySelector('.ipyagent-model')?.textContent).toBe('a⟨U+202E⟩b');
});
