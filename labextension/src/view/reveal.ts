/** Characters that cannot be seen, or that reorder what can be seen, made visible. */
import { h } from './dom';

/**
 * Controls, format characters (bidi, zero-width, tags), line separators, lone surrogates, and what
 * fonts draw as nothing. A newline and a tab are what they look like.
 */
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** After so many marks the rest is one text: each mark is an element, and a page holds only so many. */
const MARKS = 2_000;

/** `text` with every hidden character as ⟨U+202E⟩, set off from the text around it. */
export function reveal(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  let end = 0;
  let marks = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (++marks > MARKS) {
      break;
    }
    fragment.append(text.slice(end, match.index), mark(match[0]));
    end = match.index + match[0].length;
  }
  fragment.append(text.slice(end).replace(HIDDEN, named));
  return fragment;
}

/** The same for all text below `root`, in place. */
export function revealWithin<T extends Node>(root: T): T {
  const texts: Text[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    texts.push(walker.currentNode as Text);
  }
  texts
    .filter(text => text.data.search(HIDDEN) >= 0)
    .forEach(text => text.replaceWith(reveal(text.data)));
  return root;
}

/** `reveal` of our own words, in which backticks are around what can be typed. */
export function worded(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  text.split(/`([^`\n]+)`/).forEach((part, at) => {
    const shown = reveal(part);
    fragment.append(at % 2 === 0 ? shown : h('code', { class: 'ipyagent-typed' }, shown));
  });
  return fragment;
}

/** JSON with hidden characters as escapes: the same value, and all of it can be seen. */
export function hiddenAsEscapes(json: string): string {
  const escaped = (unit: string): string =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return json.replace(HIDDEN, character => character.split('').map(escaped).join(''));
}

function mark(character: string): HTMLElement {
  return h('span', { class: 'ipyagent-hidden-character' }, named(character));
}

function named(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return `⟨U+${code}⟩`;
}
