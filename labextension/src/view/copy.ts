/** Code blocks with their language and a copy button. */
import { h } from './dom';
import { button } from './form';

/** Milliseconds for which a button confirms. */
const LABEL_MILLISECONDS = 2_000;

/** Return a code block below a line with its language and the button. */
export function listing(name: string, block: HTMLElement): HTMLElement {
  const label = h('span', { class: 'ipyagent-listing-language' }, name);
  const head = h('div', { class: 'ipyagent-listing-head' }, label, copyButton(block));
  return h('div', { class: 'ipyagent-listing' }, head, block);
}

/** Return a button that copies the text of `shown`. */
function copyButton(content: Node): HTMLElement {
  const place = h('span', { 'data-lm-suppress-shortcuts': 'true', role: 'status' });
  const element = button('copy', 'Copy', 'Copy this code', () => {
    void copyText(content).then(isCopied => {
      setLabel(element, isCopied ? 'Copied' : 'Now press Ctrl+C', '');
      window.setTimeout(() => setLabel(element, 'Copy', ' this code'), LABEL_MILLISECONDS);
    });
  });
  place.append(element);
  return place;
}

function setLabel(element: HTMLElement, label: string, more: string): void {
  element.textContent = label;
  element.setAttribute('aria-label', `${label}${more}`);
}

/** Copy text; where the clipboard is not allowed, select it for the user instead. */
async function copyText(content: Node): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(content.textContent ?? '');
    return true;
  } catch {
    getSelection()?.selectAllChildren(content);
    return false;
  }
}
