import { describe, expect, it } from 'vitest';

import { hiddenAsEscapes, reveal, withInlineCode } from '../view/reveal';

describe('hidden characters', () => {
  it.each([
    '\u202e',
    '\u2066',
    '\u200b',
    '\u{e0041}',
    '\u0000',
    '\u001b',
    '\r',
    '\u00ad',
    '\u2028',
    '\ufeff',
    '\u3164',
    '\ud800'
  ])('such as %j are spelled out', character => {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    expect(reveal(`a${character}b`)).toBe(`a⟨U+${code}⟩b`);
    expect(reveal(`a${character.repeat(3_000)}b`)).toBe('a⟨3,000 invisible characters⟩b');
    const json = JSON.stringify(`a${character}b`);
    expect(JSON.parse(hiddenAsEscapes(json))).toBe(`a${character}b`);
    expect(hiddenAsEscapes(json)).not.toContain(character);
  });

  it('are not line ends and tabs', () => {
    expect(reveal('a\n\tb')).toBe('a\n\tb');
  });

  it('are spelled out in code of our own texts too', () => {
    const place = document.createElement('p');
    place.append(withInlineCode('Run `%agent model x` for <b>another</b>, `a\u202e`, one ` alone'));
    expect(place.innerHTML).toBe(
      'Run <code class="ipyagent-typed">%agent model x</code> for &lt;b&gt;another&lt;/b&gt;, ' +
        '<code class="ipyagent-typed">a⟨U+202E⟩</code>, one ` alone'
    );
  });
});
