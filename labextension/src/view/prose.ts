/**
 * Spells out hidden characters in a model's prose, except those that its script needs; as
 * `plaintext.py` does.
 */
import { reveal } from './reveal';

const FLAG =
  '\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f}';
const HIDDEN = new RegExp(
  `${FLAG}|(?![\\n\\t])[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]`,
  'gu'
);
const RTL = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]$/;
const JOINING = /(?![\0-\u058f])[\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{So}\p{Sk}]$/u;
const SELECTABLE = /(?:[#*0-9]|(?![\0-\u00a8])[\p{S}\p{P}\p{L}])$/u;
const NEAR = 40;

/** Spell out hidden characters, except those that the script needs. */
export function revealProse(text: string): string {
  return text.replace(HIDDEN, (found: string, at: number) =>
    isNeeded(found, text, at) ? found : reveal(found).textContent
  );
}

function isNeeded(found: string, text: string, at: number): boolean {
  const before = text.slice(Math.max(0, at - 2), at);
  if (found.startsWith('\u{1f3f4}')) {
    return true;
  }
  if ('\u200e\u200f\u061c'.includes(found)) {
    return RTL.test(text.slice(Math.max(0, at - NEAR), at + NEAR));
  }
  if (found === '\u200b') {
    return UNSPACED.test(before);
  }
  if (found === '\u200c' || found === '\u200d') {
    return JOINING.test(before);
  }
  const isSelector = /[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u.test(found);
  return isSelector && SELECTABLE.test(before);
}
