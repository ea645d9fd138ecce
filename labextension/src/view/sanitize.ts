/**
 * Sanitizes HTML: the only way from HTML to the page. What is not listed here is not built: no
 * script, style, form, control, id and no image that has to be fetched; within texts and outputs,
 * nothing that a card is made of. The result is never written as HTML again, which could change it.
 */
import { h } from './dom';
import { dress, dressText, isName } from './dress';

/** The elements, attributes and classes that are built of HTML. */
interface Allowed {
  readonly tags: Set<string>;
  readonly attributes: Set<string>;
  readonly classes: RegExp;
}

const TAGS =
  `a abbr b blockquote br caption code col colgroup data dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i
  img ins kbd li mark ol p pre s samp small span strong sub sup table tbody td tfoot th thead tr u ul
  var`.split(/\s+/);

const ATTRIBUTES = 'align alt bgcolor colspan href rowspan src start title value'.split(' ');

/** The parts of a card: the classes are those of `ipyagent.ui.blocks`. */
const CARD: Allowed = {
  tags: new Set([...TAGS, 'details', 'summary']),
  attributes: new Set([...ATTRIBUTES, 'open', 'data-ipyagent', 'data-state', 'data-tool']),
  classes: /^(?:ia-[a-z_-]+|ipyagent-card|language-[\w+#-]+)$/
};

/** Texts of a model, and outputs of tools: with classes of code, formulas, and numbers. */
const TEXT: Allowed = {
  tags: new Set(TAGS),
  attributes: new Set(ATTRIBUTES),
  classes: /^(?:ia-(?:formula|traced|found|derived|not-found|at-\d+-\d+)|language-[\w+#-]+)$/
};

/** The parts of a card that hold texts. */
const HOLDERS = '.ia-markdown, .ia-display';

const DATA_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=\s]*$/i;

/** A figure, where Python puts it; as an image, nothing in it runs. */
const DRAWING = 'data:image/svg+xml;base64,';
const AROUND_DRAWING = '.ia-media > p';

const WEB_LINK = /^(https?:|mailto:)/i;

/**
 * Documents without a window, where nothing runs and nothing is fetched: one that builds, and one
 * that parses, whose properties HTML may take by names, such as that of an image.
 */
const inert = document.implementation.createHTMLDocument();
const parser = document.implementation.createHTMLDocument().body;

/** Return a part of a card as safe nodes; its first step has that number. */
export function sanitizeCard(html: string, number = 1): DocumentFragment {
  const fragment = nodesOf(html, CARD);
  dress(fragment, number);
  return fragment;
}

/** Return a block of a text as safe nodes. */
export function sanitizeText(html: string): DocumentFragment {
  const fragment = nodesOf(html, TEXT);
  dressText(fragment);
  return fragment;
}

/** Return what is allowed of HTML as nodes. */
function nodesOf(html: string, allowed: Allowed): DocumentFragment {
  const fragment = inert.createDocumentFragment();
  // eslint-disable-next-line no-restricted-properties -- the way in
  parser.innerHTML = html;
  build(parser, fragment, allowed);
  parser.replaceChildren();
  fragment.querySelectorAll('a').forEach(restrictLink);
  return fragment;
}

/** Build what is allowed of the nodes in `from`; what else is in there is left out as a whole. */
function build(from: Element, into: Element | DocumentFragment, allowed: Allowed): void {
  from.childNodes.forEach(node => {
    if (node instanceof Text) {
      into.append(node.data);
    } else if (node instanceof HTMLElement && allowed.tags.has(node.localName)) {
      buildElement(node, into, allowed);
    }
  });
}

/** Build an element; of an image that would be fetched, its text. */
function buildElement(from: HTMLElement, into: Element | DocumentFragment, allowed: Allowed): void {
  if (from.localName === 'img' && !isDrawn(from, into)) {
    const [alt, url] = ['alt', 'src'].map(name => from.getAttribute(name) ?? '');
    into.append(`[image not loaded: ${[alt, url].filter(part => part !== '').join(' ')}]`);
    return;
  }
  const isBlank = from.localName === 'th' && from.firstChild === null;
  const made = inert.createElement(isBlank ? 'td' : from.localName);
  made.classList.add(...[...from.classList].filter(name => allowed.classes.test(name)));
  const kept = [...from.attributes].filter(each => isKept(each, from, allowed));
  kept.forEach(({ name, value }) => made.setAttribute(name, value));
  into.append(made);
  build(from, made, made.matches(HOLDERS) ? TEXT : allowed);
}

/** Return whether an attribute is kept. */
function isKept({ name, value }: Attr, from: HTMLElement, allowed: Allowed): boolean {
  switch (allowed.attributes.has(name) ? name : '') {
    case '':
      return false;
    case 'data-ipyagent':
      return isName(value);
    case 'src':
      return from.localName === 'img';
    case 'title':
      return allowed === CARD || from.classList.contains('ia-traced');
    default:
      return true;
  }
}

/** Return whether an image brings its own pixels, or is a figure where Python puts it. */
function isDrawn(image: HTMLElement, into: Element | DocumentFragment): boolean {
  const url = image.getAttribute('src') ?? '';
  const isFigure =
    url.startsWith(DRAWING) && into instanceof Element && into.matches(AROUND_DRAWING);
  return DATA_IMAGE.test(url) || isFigure;
}

function restrictLink(link: HTMLAnchorElement): void {
  const given = link.getAttribute('href') ?? '';
  const url = WEB_LINK.test(given) ? URL.parse(given) : null;
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
  const shown = URL.parse(text) ?? URL.parse(`https://${text}`);
  if (url.protocol === 'mailto:') {
    return text === url.pathname || shown?.href === url.href;
  }
  // A user name in a URL may imitate a host, so the host is always shown.
  return url.username === '' && shown?.host === url.host && !/\s/.test(text);
}
