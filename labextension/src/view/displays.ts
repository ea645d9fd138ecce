/** What tools show to the person: figures, tables and other rich output. */
import type { Display, ImageContent, ToolExecution, ToolResult } from '../protocol';
import { h, present } from './dom';
import { renderMarkdown } from './markdown';
import { maths } from './maths';
import { Before, isDataImage, MAX_HTML, sanitize } from './sanitize';

const PIXELS = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** All figures and rich outputs of a call, in the order in which they were made. */
export function media({ call, result }: ToolExecution, before: Before): HTMLElement[] {
  if (result === null) {
    return [];
  }
  const name = `Figure from ${call.name}`;
  const displays = result.displays.filter(display => !isRepeated(display, result));
  const images = result.images.map(content => picture(content.media_type, content.data, name));
  let drawn = 0;
  const ordered = displays.flatMap(display => {
    const earlier = images.slice(drawn, display.images_before);
    drawn += earlier.length;
    return [...earlier, richDisplay(display, name, before)];
  });
  return present([...ordered, ...images.slice(drawn)]) as HTMLElement[];
}

/** An image of a message or a result; one that is not pixels is named instead. */
export function image({ media_type, data }: ImageContent, name: string): HTMLElement {
  return picture(media_type, data, name);
}

/** The richest form of a display that is safe; plain text alone is already in the output. */
function richDisplay({ data }: Display, name: string, before: Before): HTMLElement | null {
  const { 'image/svg+xml': svg, 'text/html': html, 'text/markdown': markdown } = data;
  for (const type of PIXELS) {
    const base64 = data[type];
    if (base64 !== undefined) {
      return picture(type, base64, name);
    }
  }
  if (svg !== undefined) {
    return drawing(svg, name);
  }
  return (
    table(html, before) ??
    prose(markdown, before) ??
    formula(data['text/latex']) ??
    json(data['application/json'])
  );
}

function picture(type: string, base64: string, name: string): HTMLElement {
  const url = `data:${type};base64,${base64.trim()}`;
  if (!PIXELS.includes(type) || !isDataImage(url)) {
    return h('p', { class: 'ipyagent-note' }, `[image not shown: ${type}]`);
  }
  return h('img', { class: 'ipyagent-figure', src: url, alt: name });
}

/** An SVG as an image: as such it cannot run or fetch anything, nor reach into the page. */
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
  return tex === undefined
    ? null
    : scrollable(maths(tex, true) ?? h('pre', { class: 'ipyagent-pre' }, tex));
}

function json(text: string | undefined): HTMLElement | null {
  return text === undefined ? null : scrollable(h('pre', { class: 'ipyagent-pre' }, text));
}

/** Focusable, so that the keyboard can scroll it. */
function scrollable(content: Node): HTMLElement {
  const attributes = { class: 'ipyagent-display ipyagent-markdown', tabindex: '0', role: 'region' };
  return h('div', { ...attributes, 'aria-label': 'Output' }, content);
}

/** A figure that is among the images as well is drawn once. */
function isRepeated({ data }: Display, { images }: ToolResult): boolean {
  return images.some(content => data[content.media_type]?.trim() === content.data.trim());
}
