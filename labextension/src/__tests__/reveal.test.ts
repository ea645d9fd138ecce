import { describe, expect, it } from 'vitest';

import table from '../../../tests/ui/reveal_cases.json';
import { diffOf } from '../view/diff';
import { h } from '../view/dom';
import { highlight } from '../view/highlight';
import { reveal, revealWithin, revealText } from '../view/reveal';

interface Case {
  name: string;
  /** A pair is a string and how often it is repeated. */
  text: string | (string | [string, number])[];
  shown: string;
  diff?: boolean;
}

const CASES = table as Case[];

const textOf = ({ text }: Case) =>
  typeof text === 'string'
    ? text
    : text.map(part => (typeof part === 'string' ? part : part[0].repeat(part[1]))).join('');
const elements = (text: string) => {
  const place = h('div', {}, reveal(text));
  return [...place.querySelectorAll('.ipyagent-hidden-character')].map(each => each.textContent);
};

describe('the table that the text views share', () => {
  it.each(CASES)('$name', given => {
    const draw = given.diff === true ? (text: string) => diffOf(text).textContent : revealText;
    expect(draw(textOf(given))).toBe(given.shown);
    expect(draw(given.shown)).toBe(given.shown);
  });
});

describe('a mark', () => {
  it('is set off from the text around it', () => {
    expect(elements(`a${' '.repeat(50)}b\u202ec`)).toEqual(['⟨50 blanks⟩', '⟨U+202E⟩']);
  });

  it('is one also where colours cut what it stands for into pieces', () => {
    const code = `# a comment\n${'\n'.repeat(100)}x = "${' '.repeat(100)}" # ${'\u200b'.repeat(9)}`;
    const place = revealWithin(h('code', {}, highlight(code, 'python')));
    expect(place.textContent).toBe(
      '# a comment\n⟨100 empty lines⟩\nx = "⟨100 blanks⟩" # ⟨9 × U+200B⟩'
    );
    const cut = h('code', {}, 'a\u200b', h('b', {}, '\u200b\u200b'), '\u200b b\u202ec');
    expect(revealWithin(cut).innerHTML).toBe(
      'a<span class="ipyagent-hidden-character">⟨4 × U+200B⟩</span><b></b>' +
        ' b<span class="ipyagent-hidden-character">⟨U+202E⟩</span>c'
    );
  });

  it('is text where there are many, since a page holds only so many elements', () => {
    const text = 'x\u200by'.repeat(5_000);
    expect(elements(text)).toHaveLength(2_000);
    expect(revealText(text)).toBe('x⟨U+200B⟩y'.repeat(5_000));
  });

  it('is in a diff where changed words are marked too', () => {
    const drawn = diffOf('-oc.system(1)\n+\u043e\u0441.system(2)\n');
    expect(drawn.textContent).toBe('-oc.system(1)\n+⟨U+043E⟩⟨U+0441⟩.system(2)\n');
    expect(drawn.querySelectorAll('mark')).toHaveLength(2);
  });
});
