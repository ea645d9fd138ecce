/**
 * Spells out hidden characters in labels, titles and fields, which the page makes; all else is made
 * by `ipyagent.ui.reveal`, which also knows floods and look-alikes.
 */
import { count, h } from './dom';

/**
 * Matches controls, format characters (bidi, zero-width, tags), line separators, lone surrogates,
 * unassigned code points, and characters that fonts draw as nothing, but not newline and tab.
 */
const HIDDEN =
  /(?:(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800])+/gu;

/** More in a row are counted. */
const MANY = 16;

/** Return `text` with every hidden character as ⟨U+202E⟩. */
export function reveal(text: string): string {
  return text.replace(HIDDEN, found => {
    const characters = Array.from(found);
    return characters.length > MANY
      ? `⟨${count(characters.length)} invisible characters⟩`
      : characters.map(codeOf).join('');
  });
}

function codeOf(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
  return `⟨U+${code}⟩`;
}

/** Return `reveal` of our own text, in which backticks mark code. */
export function withInlineCode(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  text.split(/`([^`\n]+)`/).forEach((part, at) => {
    const shown = reveal(part);
    fragment.append(at % 2 === 0 ? shown : h('code', { class: 'ipyagent-typed' }, shown));
  });
  return fragment;
}

/** Escape hidden characters in JSON, which keeps its value. */
export function hiddenAsEscapes(json: string): string {
  const escape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return json.replace(HIDDEN, found => found.split('').map(escape).join(''));
}
