/**
 * Sanitizes HTML: the only way from HTML to the page. No script, style, form, control, id and no
 * image that has to be fetched passes; within texts and outputs, nothing that a card is made of.
 */
import DOMPurify from 'dompurify';

import { h } from './dom';
import { dress, dressText, isName } from './dress';

/** A sanitizer that runs first: JupyterLab's own, where there is one. */
type Before = (html: string) => string;

const TAGS =
  `a abbr b blockquote br caption code col colgroup data dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i
  img ins kbd li mark ol p pre s samp small span strong sub sup table tbody td tfoot th thead tr u ul
  var`.split(/\s+/);

const ATTRIBUTES = 'align alt bgcolor class colspan href rowspan src start title value'.split(' ');

/** The classes of `ipyagent.ui.blocks`. */
const CARD_CLASS = /^(?:ia-[a-z_-]+|ipyagent-card|language-[\w+#-]+)$/;

/** The classes of a text's blocks: code, formulas, and numbers of an answer. */
const TEXT_CLASS = /^(?:ia-(?:formula|traced|found|derived|not-found)|language-[\w+#-]+)$/;

/** Texts of a model, and outputs of tools. */
const TEXT = ':is(.ia-markdown, .ia-display)';

const DATA_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=\s]*$/i;

/** A figure, where Python puts it; as an image, nothing in it runs. */
const CARD_DRAWING = '.ia-media > p > img[src^="data:image/svg+xml;base64,"]';

const WEB_LINK = /^(https?:|mailto:)/i;

/** Return a part of a card as safe nodes; its first step has that number. */
export function sanitizeCard(
  html: string,
  number = 1,
  before: Before = keepHtml
): DocumentFragment {
  const tags = [...TAGS, 'details', 'summary'];
  const attributes = [...ATTRIBUTES, 'open', 'data-ipyagent', 'data-state', 'data-tool'];
  const fragment = purify(before(html), tags, attributes, `img:not(${CARD_DRAWING})`);
  keepClasses(fragment, '[class]', CARD_CLASS);
  keepClasses(fragment, `${TEXT} [class]`, TEXT_CLASS);
  fragment
    .querySelectorAll<HTMLElement>('[data-ipyagent], [data-state], [data-tool]')
    .forEach(keepNames);
  dress(fragment, number);
  return fragment;
}

/** Return a block of a text as safe nodes. */
export function sanitizeText(html: string): DocumentFragment {
  const fragment = purify(html, TAGS, ATTRIBUTES, 'img');
  keepClasses(fragment, '[class]', TEXT_CLASS);
  fragment
    .querySelectorAll('[title]:not(.ia-traced)')
    .forEach(each => each.removeAttribute('title'));
  dressText(fragment);
  return fragment;
}

/** Drop what imitates a part of a card, or of the page. */
function keepNames({ dataset, parentElement }: HTMLElement): void {
  if (parentElement?.closest(TEXT)) {
    delete dataset.state;
    delete dataset.tool;
  }
  if (parentElement?.closest(TEXT) ?? !isName(dataset.ipyagent)) {
    delete dataset.ipyagent;
  }
}

function keepClasses(fragment: DocumentFragment, selector: string, kept: RegExp): void {
  fragment.querySelectorAll(selector).forEach(each => {
    each.classList.remove(...[...each.classList].filter(name => !kept.test(name)));
    if (each.className === '') {
      each.removeAttribute('class');
    }
  });
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
function isDataImage(url: string): boolean {
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
