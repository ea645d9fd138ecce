/** Draws the rich output of tools: figures, tables, text. */
import type { Display, Image } from '../protocol';
import { h, textBox } from './dom';
import { renderMarkdown } from './markdown';
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
  const all: Partial<Record<string, string>> = data;
  const { 'image/svg+xml': svg, 'text/html': html, 'text/markdown': markdown } = all;
  for (const type of PIXELS) {
    const base64 = all[type];
    if (base64 !== undefined) {
      return picture(type, base64, label);
    }
  }
  if (svg !== undefined) {
    return drawing(svg, label);
  }
  return (
    table(html, before) ??
    prose(markdown, before) ??
    formula(all['text/latex']) ??
    text(all['application/json']) ??
    text(all['text/plain'])
  );
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

function table(html: string | undefined, before: Before): HTMLElement | null {
  if (html === undefined || html.length > MAX_HTML) {
    return null;
  }
  const content = sanitize(html, before);
  const isEmpty = content.textContent.trim() === '' && content.querySelector('img') === null;
  return isEmpty ? null : scrollable(content);
}

function prose(markdown: string | undefined, before: Before): HTMLElement | null {
  return markdown === undefined ? null : scrollable(renderMarkdown(markdown, before));
}

function formula(tex: string | undefined): HTMLElement | null {
  return tex === undefined ? null : scrollable(maths(tex, true) ?? textBox(tex));
}

function text(content: string | undefined): HTMLElement | null {
  return content === undefined ? null : scrollable(textBox(reveal(content)));
}

/** Focusable, so that the keyboard can scroll it. */
function scrollable(content: Node): HTMLElement {
  const attributes = { class: 'ipyagent-display ipyagent-markdown', tabindex: '0', role: 'group' };
  return h('div', { ...attributes, 'aria-label': 'Output' }, content);
}
