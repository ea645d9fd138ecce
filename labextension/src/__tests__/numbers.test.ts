/** Numbers of an answer are marked where they stand, and say where they come from. */
import { describe, expect, it } from 'vitest';

import type { AnswerNumber } from '../protocol';
import { savedCard } from '../saved';
import { renderMarkdown } from '../view/markdown';
import { keepHtml } from '../view/sanitize';
import { MarkdownText } from '../view/streamedMarkdown';
import { savedOf } from './story';

/** Mark the first of each text; its place is counted in characters, as by Python. */
function numbersIn(answer: string, ...texts: string[]): AnswerNumber[] {
  const trace = 'found';
  return texts.map(text => {
    const start = Array.from(answer.slice(0, answer.indexOf(text))).length;
    return { start, text, trace, title: `from "${text}" <b>` };
  });
}

function marked(answer: string, ...texts: string[]): HTMLElement[] {
  const drawn = renderMarkdown(answer, undefined, numbersIn(answer, ...texts));
  return [...drawn.querySelectorAll<HTMLElement>('.ia-traced')];
}

describe('a number of an answer', () => {
  it.each([
    '# About 777 of them',
    '> - one\n>   with 777\n',
    '| a | b |\n|---|---|\n| `6` | **777** |',
    '👩‍💻 é 777',
    'first\r\nsecond 777'.replace('\r', ''),
    '[777 rows](https://x.example)',
    'a *b\n    c 777*',
    'it is $x$ and 777'
  ])('is marked, with its source: %j', answer => {
    const [number, ...others] = marked(answer, '777');
    expect(number.textContent).toBe('777');
    expect(number.title).toBe('from "777" <b>');
    expect(number.tabIndex).toBe(0);
    expect(others).toEqual([]);
  });

  it.each([
    '`777`',
    '```\n777\n```',
    '    777',
    '$x = 777$',
    '$$\n777\n$$',
    '&#777;',
    '![777](data:image/png;base64,AAAA)',
    '[x](https://x.example/777)',
    'https://x.example/777',
    '| a |\n|---|\n| x \\| 777 |'
  ])('is left where it is not drawn as it was written: %j', answer => {
    expect(marked(answer, '777')).toEqual([]);
    expect(renderMarkdown(answer).querySelector('data')).toBeNull();
  });

  it('may be a price, and stands out if it is in no result', () => {
    const answer = 'It costs $8 or 9,999.';
    const numbers = numbersIn(answer, '$8', '9,999');
    numbers[1] = { ...numbers[1], trace: 'not found', title: 'in no result' };
    const drawn = renderMarkdown(answer, undefined, numbers);
    expect(drawn.querySelector('span')?.textContent).toBe('$8');
    expect(drawn.querySelector('u.ia-not-found')?.textContent).toBe('9,999');
  });

  it('cannot be written by the model', () => {
    const answer = '<data value="0">1</data> 777';
    expect(marked(answer, '777').map(each => each.textContent)).toEqual(['777']);
    const forged = { start: 0, text: '<b>', trace: 'found' as const, title: '' };
    expect(renderMarkdown('<b>x', undefined, [forged]).querySelector('b')).toBeNull();
    const empty = { start: 0, text: '', trace: 'found' as const, title: '' };
    expect(renderMarkdown('x', undefined, [empty]).textContent.trim()).toBe('x');
  });

  it('is marked once the run is over, in a text that has streamed in', () => {
    const answer = 'First 777.\n\nThen *more*.\n';
    const drawn = new MarkdownText();
    for (let end = 3; end < answer.length; end += 3) {
      drawn.update(answer.slice(0, end), false);
    }
    drawn.update(answer, true);
    expect(drawn.element.querySelector('.ia-traced')).toBeNull();
    const before = drawn.element.innerHTML;
    drawn.update(answer, true, numbersIn(answer, '777'));
    const number = drawn.element.querySelector('.ia-traced');
    expect(number?.textContent).toBe('777');
    number?.replaceWith('777');
    expect(drawn.element.innerHTML).toBe(before);
  });
});

describe('a saved answer', () => {
  it('has its numbers marked again, each with what its HTML says of it', () => {
    const text = 'Of 777 rows, `12` are new and 34 old.';
    const [html, run] = savedOf(text, [], { numbers: numbersIn(text, '777', '34') });
    const drawn = ['777', '34']
      .map(number => `<span class="ia-traced" title="line of ${number}">${number}</span>`)
      .join('');
    const marked = html.replace('"ia-markdown">', `"ia-markdown">${drawn}`);
    const card = savedCard(marked, run, keepHtml);
    const titles = [...card.querySelectorAll<HTMLElement>('.ia-traced')].map(({ title }) => title);
    expect(titles).toEqual(['line of 777', 'line of 34']);
  });
});
