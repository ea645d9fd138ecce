/**
 * The only door from HTML to the page. What comes out can be read, and nothing else: no script, no
 * style, no form, no id, no class, no data attribute (so it cannot pass for a card of ours), no
 * image that has to be fetched.
 */
import DOMPurify from 'dompurify';

import { listing } from './copy';
import { h } from './dom';
import { highlight } from './highlight';
import { maths } from './maths';

/** What HTML passes before it comes here: JupyterLab's own sanitizer, where there is one. */
export type Before = (html: string) => string;

/** HTML longer than this is refused: a page that hangs protects nobody. */
export const MAX_HTML = 500_000;

const TAGS =
  `a abbr b blockquote br caption code col colgroup dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i
  img ins kbd li mark ol p pre s samp small span strong sub sup table tbody td tfoot th thead tr u ul
  var`.split(/\s+/);

// `class` only reaches `consumeClass`, which reads a code block's language from it.
const ATTRIBUTES = ['align', 'alt', 'class', 'colspan', 'href', 'rowspan', 'src', 'start'];

/** What is laid out from right to left where its first letter is; text in it sees to itself. */
const OWN_DIRECTION = 'ul, ol, blockquote, table';

const DATA_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=\s]*$/i;

const WEB_LINK = /^(https?:|mailto:)/i;

/** Untrusted HTML as nodes that are safe to put into the page. */
export function sanitize(html: string, before: Before = asItIs): DocumentFragment {
  const fragment = DOMPurify.sanitize(before(html), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    RETURN_DOM_FRAGMENT: true
  });
  // Still in DOMPurify's inert document: nothing has been fetched yet.
  fragment.querySelectorAll('img').forEach(restrictImage);
  fragment.querySelectorAll('[src]:not(img)').forEach(each => each.removeAttribute('src'));
  fragment.querySelectorAll('[class]').forEach(consumeClass);
  fragment.querySelectorAll('a').forEach(restrictLink);
  fragment.querySelectorAll('pre').forEach(label);
  fragment.querySelectorAll<HTMLElement>(OWN_DIRECTION).forEach(block => (block.dir = 'auto'));
  return fragment;
}

/** Nothing comes before. */
export function asItIs(html: string): string {
  return html;
}

/** What stands where an image would have been fetched. */
export function imageNotLoaded(alt: string, url: string): string {
  return `[image not loaded: ${[alt, url].filter(part => part !== '').join(' ')}]`;
}

/** Whether `url` carries the pixels of an image itself. */
export function isDataImage(url: string): boolean {
  return DATA_IMAGE.test(url);
}

function restrictImage(image: HTMLImageElement): void {
  const source = image.getAttribute('src') ?? '';
  if (!isDataImage(source)) {
    image.replaceWith(imageNotLoaded(image.getAttribute('alt') ?? '', source));
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
  if (!namesItsTarget(link.textContent.trim(), url)) {
    link.after(h('span', { class: 'ipyagent-link-host' }, ` (${url.host || url.pathname})`));
  }
}

/** Whether a link's own text already tells where it leads. */
function namesItsTarget(text: string, url: URL): boolean {
  const shown = parse(text) ?? parse(`https://${text}`);
  if (url.protocol === 'mailto:') {
    return text === url.pathname || shown?.href === url.href;
  }
  // A name before an @ reads like a host, so such a link always gets its true one.
  return url.username === '' && shown?.host === url.host && !/\s/.test(text);
}

function parse(url: string | null): URL | null {
  try {
    return new URL(url ?? '');
  } catch {
    return null;
  }
}

function consumeClass(element: Element): void {
  const language = /^language-([\w+-]+)/.exec(element.className)?.[1];
  element.removeAttribute('class');
  if (language === 'math' && element.matches('code')) {
    typeset(element);
  } else if (language !== undefined && element.matches('pre > code')) {
    element.replaceChildren(highlight(element.textContent, language));
    element.setAttribute('data-language', language);
  }
}

/** A formula in the place of its source; what is no formula stays code. */
function typeset(code: Element): void {
  const block = code.matches('pre > code') ? code.parentElement : null;
  const formula = maths(code.textContent, block !== null);
  if (formula !== null) {
    (block ?? code).replaceWith(formula);
  }
}

/** Every block of code gets its language and a button. */
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
