/** The name of a model as a control: a list of those of the kernel, and a choice. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { host } from '../view/host';
import { RunView } from '../view/run';
import { TRANSCRIPT } from './story';

const MODELS = {
  current: 'openai/gpt',
  models: { 'openai/gpt': 'OPENAI_API_KEY is set', 'ollama/qwen': 'Ollama\u202e on this machine' },
  problem: ''
};
const ask = vi.fn<NonNullable<typeof host.models>>();
const askBelow = vi.fn<NonNullable<typeof host.askBelow>>();
let view: RunView;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent=${name}]`);
const status = () => view.element.querySelector('.ipyagent-models [role=status]')?.textContent;

async function press(element: HTMLElement | null, key?: string): Promise<void> {
  element?.dispatchEvent(
    key === undefined
      ? new MouseEvent('click', { bubbles: true })
      : new KeyboardEvent('keydown', { key })
  );
  await Promise.resolve();
  await Promise.resolve();
}

async function openList(): Promise<HTMLSelectElement> {
  await press(find('model'));
  const list = find('models');
  if (!(list instanceof HTMLSelectElement)) {
    throw new Error('no list');
  }
  return list;
}

beforeEach(() => {
  ask
    .mockReset()
    .mockImplementation((_, chosen) =>
      Promise.resolve({ ...MODELS, current: chosen ?? MODELS.current })
    );
  askBelow.mockReset().mockReturnValue(null);
  Object.assign(host, { models: ask, askBelow });
  view = new RunView(null);
  view.update(TRANSCRIPT);
  document.body.replaceChildren(view.element);
});

afterEach(() => Object.assign(host, { models: null, askBelow: null }));

it('is not there for a run that got no model', () => {
  view.update({ ...TRANSCRIPT, header: { ...TRANSCRIPT.header, model: '' } });
  expect(find('model')).toBeNull();
});

it('asks the kernel only when it is opened, and shows hidden characters', async () => {
  expect(ask).not.toHaveBeenCalled();
  const list = await openList();
  expect(ask.mock.calls.map(([, chosen]) => chosen)).toEqual([null]);
  expect([list.value, document.activeElement]).toEqual(['openai/gpt', list]);
  expect(list.textContent).not.toContain('\u202e');
  expect(find('model')?.getAttribute('aria-expanded')).toBe('true');
});

it('is chosen by keyboard, said to screen readers, and leaves the run as it was', async () => {
  const list = await openList();
  list.value = 'ollama/qwen';
  await press(list, 'ArrowDown');
  expect(ask).toHaveBeenCalledOnce();
  await press(list, 'Enter');
  expect(ask).toHaveBeenLastCalledWith(expect.anything(), 'ollama/qwen');
  expect(status()).toBe('The next prompts go to ollama/qwen');
  expect(find('model')?.textContent).toBe(TRANSCRIPT.header.model);
  expect([find('models'), document.activeElement]).toEqual([null, find('model')]);
});

it('is chosen by a click, after which a follow-up leaves the model of its cell', async () => {
  const followUp = () => {
    const line = find('follow-up');
    Object.assign(line ?? {}, { value: 'And now?' });
    return press(line, 'Enter');
  };
  await followUp();
  const list = await openList();
  await press(list.options[1]);
  await followUp();
  expect(askBelow.mock.calls.map(([, , isModelKept]) => isModelKept)).toEqual([true, false]);
});

it('changes nothing after Escape', async () => {
  await press(await openList(), 'Escape');
  expect([find('models'), ask.mock.calls.length]).toEqual([null, 1]);
});

it('says why there is no list', async () => {
  ask.mockResolvedValue(undefined);
  await press(find('model'));
  expect(status()).toContain('%load_ext ipyagent, then %agent model NAME');
  ask.mockResolvedValue({ ...MODELS, problem: 'settings are damaged' });
  await press(find('model'));
  expect([status(), find('models')]).toEqual(['settings are damaged', null]);
});

it('is plain text where there is no kernel to ask', () => {
  host.models = null;
  view.update(TRANSCRIPT);
  expect(find('model')).toBeNull();
  expect(view.element.querySelector('.ipyagent-model')?.textContent).toBe(TRANSCRIPT.header.model);
});
