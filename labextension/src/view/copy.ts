/** Code blocks with their language, and buttons that copy them or make them cells. */
import { h } from './dom';
import { blockToCell, confirmingButton } from './toCell';

/** Return a code block below a line with its language and the buttons. */
export function listing(name: string, block: HTMLElement): HTMLElement {
  const label = h('span', { class: 'ipyagent-listing-language' }, name);
  // As it was written: in what is drawn, hidden characters are spelled out later.
  const text = block.textContent;
  const copy = confirmingButton('copy', 'Copy', 'Copy this code', async () =>
    (await copyText(text, block)) ? 'Copied' : 'Now press Ctrl+C'
  );
  const head = h('div', { class: 'ipyagent-listing-head' }, label, blockToCell(text, name), copy);
  // Focusable, so that keys can scroll it.
  block.tabIndex = 0;
  return h('div', { class: 'ipyagent-listing' }, head, block);
}

/** Copy text; where the clipboard is not allowed, select it for the user instead. */
async function copyText(text: string, content: Node): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(content);
    return false;
  }
}
