import { describe, expect, it } from 'vitest';

import { sanitizeBlock } from '../view/sanitize';
import { TextView } from '../view/text';

const CODE = '<pre><code class="language-python">x = 1\n</code></pre>';
const TABLE = '<table><tbody><tr><td>1</td></tr></tbody></table>';

function drawn(html: string): HTMLElement {
  const element = document.createElement('div');
  element.append(sanitizeBlock(html));
  return element;
}

describe('a text in blocks', () => {
  it('keeps the nodes of blocks that have not changed', () => {
    const text = new TextView();
    text.update(['<p>one</p>\n', '<p>two</p>\n'], '');
    const [one, two] = text.element.children;
    text.update(['<p>one</p>\n', '<p>two <em>b</em></p>\n', '<p>three</p>\n'], '');
    expect(text.element.firstElementChild).toBe(one);
    expect(text.element.contains(two)).toBe(false);
    expect(text.element.textContent).toBe('one\ntwo b\nthree\n');
    text.update(['<p>one</p>\n'], '');
    expect(text.element.textContent).toBe('one\n');
  });

  it.each([
    ['<p>one</p>', 'p'],
    ['<ul><li>a</li><li>b</li></ul>', 'li:last-child'],
    [CODE, 'code'],
    [`<p>a</p>${TABLE}`, 'td'],
    ['<p>one</p><hr>', 'p']
  ])('goes on in the last element of %j', (html, where) => {
    const text = new TextView();
    text.update([html], ' more');
    text.update([html], ' more and <b>more</b>');
    expect(text.element.querySelector(where)?.textContent).toContain('more and <b>more</b>');
    text.update([html, '<p>new</p>'], '');
    expect(text.element.textContent).not.toContain('more');
    text.update([html, '<p>new</p>'], 'er');
    expect(text.element.lastElementChild?.textContent).toBe('newer');
  });

  it('begins without a block, and is hidden while there is nothing', () => {
    const text = new TextView();
    text.update([], '');
    expect(text.element.hidden).toBe(true);
    text.update([], 'Hel');
    expect([text.element.hidden, text.element.textContent]).toEqual([false, 'Hel']);
  });

  it('has tables in boxes that the keyboard can scroll, and that are named', () => {
    const text = new TextView();
    text.update([TABLE], '');
    const box = text.element.querySelector('table')?.parentElement;
    const [role, label] = ['role', 'aria-label'].map(name => box?.getAttribute(name));
    expect([role, label, box?.tabIndex]).toEqual(['group', 'Table', 0]);
  });

  it('has code with its language', () => {
    const language = drawn(CODE).querySelector('.ipyagent-listing-language');
    expect(language?.textContent).toBe('python');
  });
});

describe('a number of an answer', () => {
  it('says where it comes from, to the keyboard as well', () => {
    const html = '<p>About <span class="ia-traced ia-found" title="from sales">777</span></p>';
    const number = drawn(html).querySelector<HTMLElement>('.ia-traced.ia-found');
    expect([number?.title, number?.tabIndex]).toEqual(['from sales', 0]);
  });

  it.each(['ipyagent-approval', 'ia-tool', 'ia-traced-not'])('is not %s', name => {
    expect(drawn(`<p class="${name}">x</p>`).querySelector(`.${name}`)).toBeNull();
  });
});
