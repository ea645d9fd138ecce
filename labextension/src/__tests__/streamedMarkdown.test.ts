import MarkdownIt from 'markdown-it';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { MarkdownText } from '../view/streamedMarkdown';
import { renderMarkdown } from '../view/markdown';

const PART = [
  '## Part\n\nText with **bold** words, `code` and $x_1$, for *some* lines.\n\n',
  '1. one\n2. two\n   ```python\n   x = 1\n   ```\n3. three\n\n',
  '| a | b |\n|--|--|\n| 1 | 2 |\n\n',
  '$$\n\\frac{1}{2}\n$$\n\n',
  '````md\n```python\nx = 1\n```\n\n````\n',
  '> quoted\n> twice\n\n'
].join('');
const LIST = '- an item of a list that goes on and on\n';
const FENCE = '```';
const LINE = 'x = [1, 2, 3]  # a line\n\n';
const code = (lines: number) => `${FENCE}text\n${LINE.repeat(lines)}`;

const html = (node: Node) => {
  const place = document.createElement('div');
  place.append(node);
  return place.innerHTML;
};

/** Lets `text` grow by `size` characters at a time. */
function grown(text: string, size: number, watch: (drawn: MarkdownText) => void = () => undefined) {
  const drawn = new MarkdownText();
  for (let end = size; end < text.length + size; end += size) {
    drawn.update(text.slice(0, end), false);
    watch(drawn);
  }
  return drawn;
}

/** Count the characters that are read while `text` grows. */
function read(text: string, size: number): number {
  const parse = vi.spyOn(MarkdownIt.prototype, 'parse');
  grown(text, size);
  const count = parse.mock.calls.reduce((sum, call) => sum + String(call[0]).length, 0);
  parse.mockRestore();
  return count;
}

afterEach(() => vi.restoreAllMocks());

it('has tables in boxes that the keyboard can scroll, and that are named', () => {
  const box = renderMarkdown(PART).querySelector('table')?.parentElement;
  const [role, label] = ['role', 'aria-label'].map(name => box?.getAttribute(name));
  expect([role, label, box?.tabIndex]).toEqual(['group', 'Table', 0]);
});

describe('Markdown that grows', () => {
  it.each([2, 16, 100])(
    'comes to the same in pieces of %i as at once',
    size => {
      const text = PART + LIST.repeat(12) + PART;
      const drawn = grown(text, size);
      drawn.update(text, true);
      drawn.element.lastElementChild?.remove();
      expect(drawn.element.innerHTML).toBe(html(renderMarkdown(text)));
    },
    30_000
  );

  it('shows the open block laid out, and all of the text at any time', () => {
    const words = PART.replace(/[^a-z]/g, '').length;
    const drawn = grown(PART, 5);
    expect(drawn.element.textContent.replace(/[^a-z]/g, '').length).toBeGreaterThan(words / 2);
    drawn.update(`${PART}And **more`, false);
    drawn.update(`${PART}And **more** to`, false);
    expect(drawn.element.querySelector('.ipyagent-open strong')?.textContent).toBe('more');
    expect(drawn.element.textContent).toContain('And more to');
  });

  it('shows open code as code, and seals it when its own fence ends it', () => {
    const drawn = new MarkdownText();
    drawn.update('````md\n```\nx\n```\n', false);
    expect(drawn.element.querySelector('.ipyagent-open pre')?.textContent).toBe('```\nx\n```\n');
    expect(drawn.element.querySelector('.ipyagent-listing-language')?.textContent).toBe('md');
    drawn.update('````md\n```\nx\n```\n````\nand', false);
    expect(drawn.element.querySelector('pre')?.textContent).toBe('```\nx\n```\n');
    expect(drawn.element.querySelector('.ipyagent-open')?.textContent.trim()).toBe('and');
  });

  it('never touches what is sealed', () => {
    const sealed = new Set<Node>();
    grown(PART.repeat(2), 7, ({ element }) => {
      expect([...sealed].every(node => element.contains(node))).toBe(true);
      element.querySelectorAll('.ipyagent-sealed > *').forEach(node => sealed.add(node));
    });
    expect(sealed.size).toBeGreaterThan(10);
  });

  it.each([
    ['prose, tables and formulas', PART.repeat(8), PART.repeat(16)],
    ['one long list', LIST.repeat(100), LIST.repeat(200)],
    ['one long line', 'word '.repeat(1_000), 'word '.repeat(2_000)],
    ['long code', `${code(200)}${FENCE}\nend`, `${code(400)}${FENCE}\nend`],
    ['code that is never closed', code(200), code(400)],
    ['one open formula', `$$\n${'x + y\n'.repeat(400)}`, `$$\n${'x + y\n'.repeat(800)}`]
  ])(
    'costs twice as much for twice the text: %s',
    (_name, once, twice) => {
      const [short, long] = [read(once, 50), read(twice, 50)];
      expect(long).toBeLessThan(2.7 * short);
      // Everything again with each message would be four times as much for twice the text.
      expect(long).toBeLessThan(60 * twice.length);
    },
    30_000
  );
});
