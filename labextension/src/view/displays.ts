/** Draws the rich output of tools: figures, tables, text. */
import type { Display, Image } from '../protocol';
import { h, textBox } from './dom';
import { maths } from './maths';
import { reveal } from './reveal';
import { Before, isDataImage, MAX_HTML, sanitize } from './sanitize';

const PIXELS = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Draw a figure or rich output; null if it is empty. */
export function media(shown: Image | Display, before: Before): HTMLElement | null {
  const { label } = shown;
  return shown.type === 'image'
    ? picture(shown.media_type, shown.data, label)
    : richDisplay(shown, before);
}

/** Draw the richest safe form of a display. */
function richDisplay({ data, label }: Display, before: Before): HTMLElement | null {
  const plain = (text: string): HTMLElement => scrollable(textBox(reveal(text)));
  const forms: Record<string, (text: string) => HTMLElement | null> = {
    ...Object.fromEntries(PIXELS.map(type => [type, (data: string) => picture(type, data, label)])),
    'image/svg+xml': svg => drawing(svg, label),
    'text/html': html => table(html, before),
    'text/latex': tex => scrollable(maths(tex, true) ?? textBox(tex)),
    'application/json': plain,
    'text/plain': plain
  };
  for (const [type, draw] of Object.entries(forms)) {
    const drawn = Object.hasOwn(data, type) ? draw(data[type]) : null;
    if (drawn !== null) {
      return drawn;
    }
  }
  return null;
}

function picture(type: string, base64: string, name: string): HTMLElement {
  const url = `data:${type};base64,${base64.trim()}`;
  if (!PIXELS.includes(type) || !isDataImage(url)) {
    return h('p', { class: 'ipyagent-note' }, `[image not shown: ${type}]`);
  }
  return h('img', { class: 'ipyagent-figure', src: url, alt: name });
}

/** Draw an SVG as an image, where it cannot run scripts or fetch anything. */
function drawing(svg: string, name: string): HTMLElement {
  const bytes = Array.from(new TextEncoder().encode(svg), byte => String.fromCharCode(byte));
  const url = `data:image/svg+xml;base64,${btoa(bytes.join(''))}`;
  return h('img', { class: 'ipyagent-figure', src: url, alt: name });
}

function table(html: string, before: Before): HTMLElement | null {
  if (html.length > MAX_HTML) {
    return null;
  }
  const content = sanitize(html, before);
  const isEmpty = content.textContent.trim() === '' && content.querySelector('img') === null;
  return isEmpty ? null : scrollable(content);
}

/** Focusable, so that the keyboard can scroll it. */
function scrollable(content: Node): HTMLElement {
  const attributes = { class: 'ipyagent-display ipyagent-markdown', tabindex: '0', role: 'group' };
  return h('div', { ...attributes, 'aria-label': 'Output' }, content);
}
