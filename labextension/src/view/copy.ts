/** Code that can be taken along: its language, and a button that copies it. */
import { h } from './dom';
import { button } from './form';

/** How long a button tells that it has copied. */
const SHOWN = 2_000;

/** A block of code under a line with its name and the button. */
export function listing(name: string, block: HTMLElement): HTMLElement {
  const label = h('span', { class: 'ipyagent-listing-language' }, name);
  const head = h('div', { class: 'ipyagent-listing-head' }, label, copyButton(block));
  return h('div', { class: 'ipyagent-listing' }, head, block);
}

/** Copies the text of `shown`. */
export function copyButton(shown: Node): HTMLElement {
  const place = h('span', { 'data-lm-suppress-shortcuts': 'true', role: 'status' });
  const element = button('copy', 'Copy', 'Copy this code', () => {
    void copied(shown).then(isCopied => {
      say(element, isCopied ? 'Copied' : 'Now press Ctrl+C', '');
      window.setTimeout(() => say(element, 'Copy', ' this code'), SHOWN);
    });
  });
  place.append(element);
  return place;
}

function say(element: HTMLElement, label: string, more: string): void {
  element.textContent = label;
  element.setAttribute('aria-label', `${label}${more}`);
}

/** Where the page may not write to the clipboard, the text is selected for the person to copy. */
async function copied(shown: Node): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(shown.textContent ?? '');
    return true;
  } catch {
    getSelection()?.selectAllChildren(shown);
    return false;
  }
}
