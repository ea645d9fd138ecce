/**
 * Draws TeX as MathML. From Temml's tree only known elements and attributes are built, so that no
 * formula can link, fetch, carry an id, or be drawn outside its own box.
 */
import type { Options } from 'temml';
import temml from 'temml/temml.js';

import { h } from './dom';

/** Longer or deeper formulas are shown as text. */
const MAX_TEX = 5_000;
const MAX_DEPTH = 100;

const LIMITS: Options = { trust: false, maxExpand: 500, maxSize: [30, 400] };

/** Definitions can make a short formula endless. */
const DEFINITION = /\\(?:[gex]?def|let|futurelet|global|long|(?:re)?newcommand|providecommand)\b/;

/** Matches a formula in delimiters, of its own line or in one. */
const DELIMITED = /^(?:\$\$(.+)\$\$|\\\[(.+)\\\]|\\\((.+)\\\)|\$(.+)\$)$/s;

const MATHML = 'http://www.w3.org/1998/Math/MathML';

const ELEMENTS = new Set(
  `math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow
  mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none`.split(/\s+/)
);

const ATTRIBUTES = new Set(
  `accent accentunder columnalign columnspan depth display displaystyle fence form height
  largeop linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize
  movablelimits notation rowspacing rspace scriptlevel separator stretchy symmetric voffset
  width`.split(/\s+/)
);

/** Matches Temml's style values, which contain no `url(…)`. */
const STYLE = /^[\w\s.,#%'"-]*$/;

/** The part of Temml's tree that is read: an element, a text, or a list of both. */
interface Tree {
  readonly type?: string;
  readonly text?: string;
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly classes?: readonly string[];
  readonly style?: Readonly<Record<string, unknown>>;
  readonly children?: readonly Tree[];
}

/** Return the formula in `source`, with or without delimiters; null if it is invalid. */
export function maths(source: string, isDisplay: boolean): HTMLElement | null {
  const found: (string | undefined)[] = DELIMITED.exec(source.trim()) ?? [];
  const displayed = found[1] ?? found[2];
  const tex = (displayed ?? found[3] ?? found[4] ?? source).trim();
  const displayMode = displayed !== undefined || isDisplay;
  if (tex === '' || tex.length > MAX_TEX || DEFINITION.test(tex)) {
    return null;
  }
  const name = displayMode ? 'ipyagent-maths ipyagent-maths-display' : 'ipyagent-maths';
  const options = { ...LIMITS, displayMode, throwOnError: true };
  try {
    return h(
      'span',
      { class: name },
      buildNode(temml.__renderToMathMLTree(tex, options) as Tree, 0)
    );
  } catch {
    // The formula is invalid, or has elements that are not built.
    return null;
  }
}

function buildNode({ type, text, children = [], ...rest }: Tree, depth: number): Node {
  if (text !== undefined) {
    return document.createTextNode(text);
  }
  const node = type === undefined ? document.createDocumentFragment() : buildElement(type, rest);
  if (depth > MAX_DEPTH) {
    throw new RangeError('too deep');
  }
  node.append(...children.map(child => buildNode(child, depth + 1)));
  return node;
}

function buildElement(type: string, { attributes = {}, classes = [], style = {} }: Tree): Element {
  if (!ELEMENTS.has(type)) {
    throw new TypeError(`<${type}> is not built`);
  }
  const made = document.createElementNS(MATHML, type);
  // The style sheet places the formula as a whole.
  const own = type === 'math' ? [] : Object.entries(style);
  const drawn = own.filter(([, value]) => STYLE.test(String(value)));
  const known = Object.entries(attributes).filter(([name]) => ATTRIBUTES.has(name));
  const rules = drawn.map(([name, value]) => `${toKebabCase(name)}: ${String(value)}`);
  const names = classes.filter(name => name !== '').map(name => `ipyagent-${name}`);
  for (const [name, value] of [...known, ['class', names.join(' ')], ['style', rules.join('; ')]]) {
    if (value !== '') {
      made.setAttribute(name, String(value));
    }
  }
  return made;
}

/** Convert `mathDepth` to `math-depth`. */
function toKebabCase(name: string): string {
  return name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`);
}
