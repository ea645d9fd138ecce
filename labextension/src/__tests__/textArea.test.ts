import { expect, it } from 'vitest';

import { textArea } from '../view/form';

// As JupyterLab's application does with each key that is pressed within a cell.
const cancel = (event: Event) => {
  event.preventDefault();
};
const isKept = (inputType: string) => {
  const field = textArea('arguments', 'Code', 'x = 1');
  field.addEventListener('beforeinput', cancel, { once: true });
  return field.dispatchEvent(new InputEvent('beforeinput', { inputType, cancelable: true }));
};

it('takes line breaks, which JupyterLab cancels within a cell', () => {
  expect(isKept('insertLineBreak')).toBe(true);
  expect(isKept('historyUndo')).toBe(false);
});
