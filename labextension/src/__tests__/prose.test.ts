import { describe, expect, it } from 'vitest';

import { revealProse } from '../view/prose';

const HIDING: readonly [string, string][] = [
  ['report\u202efdp.exe', 'report⟨U+202E⟩fdp.exe'],
  ['a\u2066b\u2069', 'a⟨U+2066⟩b⟨U+2069⟩'],
  ['pay\u200bpal', 'pay⟨U+200B⟩pal'],
  ['pay\u200dpal', 'pay⟨U+200D⟩pal'],
  ['a\ufe0fb', 'a⟨U+FE0F⟩b'],
  ['a\u200fb', 'a⟨U+200F⟩b'],
  ['a\u{e0041}b', 'a⟨U+E0041⟩b']
];

const HONEST = [
  '👩\u200d💻 1\ufe0f\u20e3 ⚠\ufe0f 🏳\ufe0f\u200d🌈 🤷🏽\u200d♀\ufe0f ©\ufe0f',
  '\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
  'می\u200cخواهم',
  'क्\u200dष',
  'שלום\u200f (abc)!',
  'ไทย\u200bไทย'
];

describe('prose', () => {
  it.each(HIDING)('spells out what hides: %j', (text, shown) => {
    expect(revealProse(text)).toBe(shown);
  });

  it.each(HONEST)('leaves what a script needs: %j', text => {
    expect(revealProse(text)).toBe(text);
  });
});
