/**
 * Sanitizes HTML: the only way from HTML to the page. No script, style, form, id, class or data
 * attribute passes (so it cannot imitate a card), and no image that has to be fetched.
 */
import DOMPurify from 'dompurify';

import { listing } from './copy';
import { h } from './dom';
import { highlight } from './highlight';
import { maths } from './maths';

/** A sanitizer that runs first: JupyterLab's own, where there is one. */
export type Before = (html: string) => string;

/** Longer HTML is refused, as it could hang the page. */
export const MAX_HTML = 500_000;

const TAGS =
  `a abbr b blockquote br caption code col colgroup data dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i
  img ins kbd li mark ol p pre s samp small span strong sub sup table tbody td tfoot th thead tr u ul
  var`.split(/\s+/);

const ATTRIBUTES = 'align alt bgcolor class colspan href rowspan src start value'.split(' ');

/** The classes of `ipyagent.ui.blocks`. */
const CARD_CLASS = /^(?:ia-[a-z-]+|ipyagent-card|language-[\w+#-]+)$/;

/** The classes of a text's blocks: code, and numbers of an answer. */
const TEXT_CLASS = /^(?:ia-(?:traced|found|derived|not-found)|language-[\w+#-]+)$/;

/** The texts of a saved card. */
const CARD_TEXT = ':is(.ia-step, .ia-answer) > .ia-markdown';

/** Blocks that get the direction of their first letter; plain text has its own rules. */
const OWN_DIRECTION = 'ul, ol, blockquote, table';

const DATA_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=\s]*$/i;

/** A figure of a saved card, where Python puts it; as an image, nothing in it runs. */
const CARD_DRAWING = '.ia-media > p > img[src^="data:image/svg+xml;base64,"]';

const WEB_LINK = /^(https?:|mailto:)/i;

/** Return untrusted HTML as safe nodes. */
export function sanitize(html: string, before: Before = keepHtml): DocumentFragment {
  const fragment = purify(before(html), TAGS, ATTRIBUTES, 'img');
  keepClasses(fragment, /^language-/);
  dress(fragment);
  return fragment;
}

/** Return a block of a text, which the kernel has made of Markdown, as safe nodes. */
export function sanitizeBlock(html: string, before: Before = keepHtml): DocumentFragment {
  const fragment = purify(before(html), TAGS, [...ATTRIBUTES, 'title'], 'img');
  keepClasses(fragment, TEXT_CLASS);
  fragment
    .querySelectorAll('[title]:not(.ia-traced)')
    .forEach(each => each.removeAttribute('title'));
  dressText(fragment);
  return fragment;
}

/** Return the HTML of a saved run as safe nodes: it has folds, and the classes of a card. */
export function sanitizeCard(html: string, before: Before): DocumentFragment {
  const tags = [...TAGS, 'details', 'summary'];
  const images = `img:not(${CARD_DRAWING})`;
  const fragment = purify(before(html), tags, [...ATTRIBUTES, 'open', 'title'], images);
  keepClasses(fragment, CARD_CLASS);
  fragment.querySelectorAll(CARD_TEXT).forEach(dressText);
  fragment
    .querySelectorAll('code[class^="language-"]')
    .forEach(code => code.removeAttribute('class'));
  return fragment;
}

function keepClasses(fragment: DocumentFragment, kept: RegExp): void {
  fragment.querySelectorAll('[class]').forEach(({ classList }) => {
    classList.remove(...[...classList].filter(name => !kept.test(name)));
  });
}

/** Draw a text of the model as a page can. */
function dressText(root: ParentNode): void {
  dress(root);
  root.querySelectorAll('table').forEach(makeScrollable);
  root.querySelectorAll<HTMLElement>('.ia-traced').forEach(number => (number.tabIndex = 0));
}

/** Put a table into a box, which the keyboard can scroll. */
function makeScrollable(table: Element): void {
  const attributes = { role: 'group', 'aria-label': 'Table', tabindex: '0' };
  const box = h('div', { class: 'ipyagent-table', ...attributes });
  table.replaceWith(box);
  box.append(table);
}

/** Draw code, formulas and colored cells as a page can. */
function dress(root: ParentNode): void {
  root.querySelectorAll('code[class^="language-"]').forEach(drawCode);
  root.querySelectorAll('[class=""]').forEach(each => each.removeAttribute('class'));
  root.querySelectorAll('[bgcolor]').forEach(colorCell);
  root.querySelectorAll('pre').forEach(label);
  root.querySelectorAll<HTMLElement>(OWN_DIRECTION).forEach(block => (block.dir = 'auto'));
}

/** Return nodes with nothing but these tags and attributes; of `images`, only data passes. */
function purify(
  html: string,
  tags: string[],
  attributes: string[],
  images: string
): DocumentFragment {
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: tags,
    ALLOWED_ATTR: attributes,
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    RETURN_DOM_FRAGMENT: true
  });
  // Still in DOMPurify's inert document: nothing has been fetched yet.
  fragment.querySelectorAll<HTMLImageElement>(images).forEach(restrictImage);
  fragment.querySelectorAll('[src]:not(img)').forEach(each => each.removeAttribute('src'));
  fragment.querySelectorAll('a').forEach(restrictLink);
  fragment.querySelectorAll('th:empty').forEach(each => each.replaceWith(h('td')));
  return fragment;
}

/** Return HTML unchanged, where no other sanitizer runs. */
export function keepHtml(html: string): string {
  return html;
}

/** Return whether `url` is an image by itself. */
export function isDataImage(url: string): boolean {
  return DATA_IMAGE.test(url);
}

/** Replace an image that would be fetched by text. */
function restrictImage(image: HTMLImageElement): void {
  const [alt, url] = ['alt', 'src'].map(name => image.getAttribute(name) ?? '');
  if (!isDataImage(url)) {
    const words = [alt, url].filter(part => part !== '').join(' ');
    image.replaceWith(`[image not loaded: ${words}]`);
  }
}

/** Color a table's cell, with text that can be read on it: no color hides what stands there. */
function colorCell(element: Element): void {
  const color = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/.exec(
    element.getAttribute('bgcolor') ?? ''
  );
  element.removeAttribute('bgcolor');
  if (color !== null && element instanceof HTMLTableCellElement) {
    const [red, green, blue] = color.slice(1).map(each => parseInt(each, 16));
    const isLight = 0.3 * red + 0.59 * green + 0.11 * blue > 140;
    element.style.background = color[0];
    element.style.color = isLight ? 'black' : 'white';
  }
}

function restrictLink(link: HTMLAnchorElement): void {
  const url = WEB_LINK.test(link.getAttribute('href') ?? '')
    ? parse(link.getAttribute('href'))
    : null;
  if (url === null) {
    link.replaceWith(...link.childNodes);
    return;
  }
  link.href = url.href;
  link.target = '_blank';
  link.rel = 'noopener noreferrer';
  const host = ` (${url.host || url.pathname})`;
  const isNamed = link.nextSibling?.textContent?.startsWith(host) ?? false;
  if (!isNamed && !namesItsTarget(link.textContent.trim(), url)) {
    link.after(h('span', { class: 'ipyagent-link-host' }, host));
  }
}

/** Return whether a link's text already names its target. */
function namesItsTarget(text: string, url: URL): boolean {
  const shown = parse(text) ?? parse(`https://${text}`);
  if (url.protocol === 'mailto:') {
    return text === url.pathname || shown?.href === url.href;
  }
  // A user name in a URL may imitate a host, so the host is always shown.
  return url.username === '' && shown?.host === url.host && !/\s/.test(text);
}

function parse(url: string | null): URL | null {
  try {
    return new URL(url ?? '');
  } catch {
    return null;
  }
}

/** Colour code, or set a formula; its language goes with its class. */
function drawCode(code: Element): void {
  const language = code.className.replace('language-', '');
  code.removeAttribute('class');
  if (language === 'math') {
    typeset(code);
  } else if (code.matches('pre > code')) {
    code.replaceChildren(highlight(code.textContent, language));
    code.setAttribute('data-language', language);
  }
}

/** Replace a formula's source by the formula; an invalid one stays code. */
function typeset(code: Element): void {
  const block = code.matches('pre > code') ? code.parentElement : null;
  const formula = maths(code.textContent, block !== null);
  if (formula !== null) {
    (block ?? code).replaceWith(formula);
  }
}

/** Add the language and a copy button to a code block. */
function label(block: HTMLElement): void {
  const code = block.querySelector<HTMLElement>(':scope > code');
  if (code !== null) {
    const language = code.dataset.language ?? '';
    delete code.dataset.language;
    const place = h('div');
    block.before(place);
    place.replaceWith(listing(language, block));
  }
}
