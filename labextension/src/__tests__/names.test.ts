import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { nameList, promptField } from '../view/form';
import { host, type Lab } from '../view/host';
import { labWith } from './story';

const ask = vi.fn();
const sent = vi.fn();

let field: HTMLTextAreaElement;
let list: HTMLElement;
const names = () => [...list.querySelectorAll('button')].map(each => each.textContent);
const type = async (text: string, shown: string[]): Promise<void> => {
  field.value = text;
  field.dispatchEvent(new Event('input'));
  await vi.waitFor(() => expect(names()).toEqual(shown));
};
const press = (key: string, on: Element = field): boolean => {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true });
  on.dispatchEvent(event);
  return event.defaultPrevented;
};

beforeEach(() => {
  vi.clearAllMocks();
  ask.mockResolvedValue({ names: ['@sales', '@sales.csv'] });
  host.lab = labWith({ ask: ask as Lab['ask'] });
  field = promptField('say', '', 'Say something', sent);
  list = nameList(field);
  document.body.replaceChildren(field, list);
  field.focus();
});

afterEach(() => {
  host.lab = null;
});

describe('names after @', () => {
  it('are listed by the kernel, and Tab takes the first one at the cursor', async () => {
    await type('Plot @sa', ['@sales', '@sales.csv']);
    expect(ask).toHaveBeenCalledWith(field, 'complete', { text: '@sa' });
    expect(press('Tab')).toBe(true);
    expect(field.value).toBe('Plot @sales');
    expect(names()).toEqual([]);
  });

  it('are taken by a press, also in the middle of several lines', async () => {
    field.value = 'Plot @sa\nby region';
    field.setSelectionRange(8, 8);
    field.dispatchEvent(new Event('input'));
    await vi.waitFor(() => expect(names()).toHaveLength(2));
    list.querySelectorAll('button')[1].click();
    expect(field.value).toBe('Plot @sales.csv\nby region');
    expect(document.activeElement).toBe(field);
  });

  it('are reached by the arrow, and left by Escape', async () => {
    await type('@', ['@sales', '@sales.csv']);
    press('ArrowDown');
    expect(document.activeElement?.textContent).toBe('@sales');
    expect(press('Escape', list.firstElementChild ?? list)).toBe(true);
    expect([names(), document.activeElement]).toEqual([[], field]);
    expect(press('Escape')).toBe(false); // the field is left
  });

  it('are not asked for elsewhere: a mail address has none, and Tab leaves the field', async () => {
    await type('me@example.org', []);
    expect(ask).not.toHaveBeenCalled();
    expect(press('Tab')).toBe(false);
  });

  it('are those of the last text, whichever reply comes last', async () => {
    const replies: ((reply: { names: string[] }) => void)[] = [];
    ask.mockImplementation(() => new Promise(reply => replies.push(reply)));
    await type('@s', []);
    await type('@sa', []);
    replies[1]({ names: ['@sales'] });
    replies[0]({ names: ['@sum'] });
    await vi.waitFor(() => expect(names()).toEqual(['@sales']));
  });

  it('do not keep Enter from sending, and Shift Enter from beginning a line', async () => {
    await type('@sales', ['@sales.csv']);
    press('Enter');
    expect(sent).toHaveBeenCalledOnce();
    expect(names()).toEqual([]);
    const event = { key: 'Enter', shiftKey: true, bubbles: true, cancelable: true };
    const line = new KeyboardEvent('keydown', event);
    field.dispatchEvent(line);
    expect([line.defaultPrevented, sent.mock.calls.length]).toEqual([false, 1]);
  });
});
