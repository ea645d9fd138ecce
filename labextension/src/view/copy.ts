/** Code blocks with their language, and buttons that copy them or make them cells. */
import { h } from './dom';
import { cellSource, confirmingButton, confirmResult, insert, toCell } from './toCell';

const BUTTON = '.ipyagent-listing-head button';

/** Return a code block below a line with its language and buttons, which `serveListings` serves. */
export function listing(language: string, block: HTMLElement): HTMLElement {
  const label = h('span', { class: 'ipyagent-listing-language' }, language);
  const copy = confirmingButton('copy', 'Copy', 'Copy this code');
  const insert = cellSource('', language) === null ? null : toCell();
  const head = h('div', { class: 'ipyagent-listing-head' }, label, insert, copy);
  // Focusable, so that keys can scroll it.
  block.tabIndex = 0;
  return h('div', { class: 'ipyagent-listing' }, head, block);
}

/** Serve the buttons of all code blocks in a card. */
export function serveListings(card: HTMLElement): void {
  card.addEventListener('click', ({ target }) => {
    const button = (target as Element).closest<HTMLElement>(BUTTON);
    const block = button?.closest('.ipyagent-listing')?.querySelector('pre');
    if (button && block) {
      const isCopy = button.dataset.ipyagent === 'copy';
      void confirmResult(button, isCopy ? copyText(block) : insertCell(button, block));
    }
  });
}

function insertCell(button: HTMLElement, block: HTMLElement): Promise<string> {
  const language = block.querySelector<HTMLElement>('[data-language]')?.dataset.language ?? '';
  return insert(button, [cellSource(block.textContent, language) ?? '']);
}

/** Copy text; where the clipboard is not allowed, select it for the user instead. */
async function copyText(block: HTMLElement): Promise<string> {
  try {
    await navigator.clipboard.writeText(block.textContent);
    return 'Copied';
  } catch {
    getSelection()?.selectAllChildren(block);
    return 'Now press Ctrl+C';
  }
}
