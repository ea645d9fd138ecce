import { expect, it, vi } from 'vitest';

import { codeField, promptField } from '../view/form';
import { host, type TextEditor } from '../view/host';
import { labWith } from './story';

// As JupyterLab's application does with each key that is pressed within a cell.
const cancel = (event: Event) => {
  event.preventDefault();
};
const area = (code: string) =>
  codeField('arguments', 'Code', code, 'text/x-python').content as HTMLTextAreaElement;
const isKept = (inputType: string) => {
  const field = area('x = 1');
  field.addEventListener('beforeinput', cancel, { once: true });
  return field.dispatchEvent(new InputEvent('beforeinput', { inputType, cancelable: true }));
};

it('takes line breaks, which JupyterLab cancels within a cell', () => {
  expect(isKept('insertLineBreak')).toBe(true);
  expect(isKept('historyUndo')).toBe(false);
});

it('indents by Tab, and leaves the field by Shift Tab', () => {
  const field = area('if x:\ny');
  field.setSelectionRange(6, 6);
  const press = (shiftKey: boolean) =>
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', shiftKey, cancelable: true }));
  expect([press(false), field.value]).toEqual([false, 'if x:\n    y']);
  expect([press(true), field.value]).toEqual([true, 'if x:\n    y']);
});

it('is JupyterLab’s editor for code, where there is one', () => {
  const content = document.createElement('div');
  const editor = { element: content, content, read: () => 'x = 2', dispose: vi.fn() };
  const edit = vi.fn((): TextEditor | null => editor);
  host.lab = labWith({ edit });
  expect(codeField('arguments', 'Code', 'x = 1', 'text/x-python')).toBe(editor);
  expect(edit).toHaveBeenCalledWith('x = 1', 'text/x-python');
  expect([content.dataset.ipyagent, content.ariaLabel]).toEqual(['arguments', 'Code']);
  edit.mockReturnValue(null);
  expect(area('x = 1').localName).toBe('textarea');
  host.lab = null;
});

it('asks by Enter, and begins a line by Shift Enter', () => {
  const ask = vi.fn();
  const field = promptField('follow-up', 'Ask', 'Ask a follow-up', ask);
  const press = (shiftKey: boolean, isComposing = false) =>
    field.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'Enter', shiftKey, isComposing, cancelable: true })
    );
  expect([press(true), press(false, true), ask.mock.calls.length]).toEqual([true, true, 0]);
  expect([press(false), ask.mock.calls.length]).toEqual([false, 1]);
  field.value = 'one\ntwo\nthree';
  field.dispatchEvent(new InputEvent('input'));
  expect(field.rows).toBe(3);
});
