import { describe, expect, it } from 'vitest';

import { maths } from '../view/maths';
import { sanitizeCard, sanitizeText } from '../view/sanitize';
import { harm } from './harm';

function block(html: string): HTMLElement {
  const element = document.createElement('div');
  element.append(sanitizeText(html));
  return element;
}

function drawn(source: string): HTMLElement {
  return block(`<p><code class="language-math">${source}</code></p>`);
}

const formulas = (root: Element) => [...root.querySelectorAll('.ipyagent-maths')];
const display = (root: Element) => [...root.querySelectorAll('.ipyagent-maths-display')];

describe('the source of a formula', () => {
  it.each([
    ['<p><code class="language-math">$x^2$</code></p>', 0],
    ['<p>a <code class="language-math">$$x^2$$</code> b</p>', 1],
    ['<pre><code class="language-math">\\[x^2\\]</code></pre>', 1],
    ['<pre><code class="language-math">x^2\n</code></pre>', 1]
  ])('is drawn: %s', (html, displayed) => {
    const root = block(html);
    expect(formulas(root)).toHaveLength(1);
    expect(display(root)).toHaveLength(displayed);
    expect(root.querySelector('math')?.namespaceURI).toContain('MathML');
    expect(root.textContent).not.toContain('$$');
  });

  it.each(['$\\frac{1$', '$$\\nosuchthing{x}$$', '\\(\\left( x\\)', `$${'{'.repeat(2_000)}$`])(
    'is shown where it is invalid: %j',
    source => {
      const root = drawn(source);
      expect(formulas(root)).toEqual([]);
      expect(root.querySelector('code')?.textContent.trim()).toBe(source);
    }
  );
});

describe('a formula', () => {
  it.each([
    '\\href{javascript:pwned()}{x}',
    '\\url{https://evil.example}',
    '\\includegraphics{https://evil.example/x.png}',
    '\\class{ipyagent-error-card}{x}',
    '\\id{kernel}{x}',
    '\\style{position: fixed}{x}',
    '\\data{ipyagent=approve}{x}',
    '\\htmlData{ipyagent=approve}{x}'
  ])('does nothing that %s would do', tex => {
    expect(maths(tex, false)).toBeNull();
    expect(harm(drawn(`$${tex}$`))).toEqual([]);
  });

  it.each([
    '\\def\\x{\\x\\x}\\x',
    '\\newcommand{\\x}{y}\\x',
    '\\gdef\\x{y}',
    '\\let\\x=y',
    `${'{'.repeat(500)}x${'}'.repeat(500)}`,
    `${'\\sqrt{'.repeat(300)}x${'}'.repeat(300)}`,
    'x'.repeat(6_000)
  ])('cannot be endless: %j', tex => {
    const root = drawn(`$${tex}$`);
    expect(harm(root)).toEqual([]);
    expect(root.querySelectorAll('*').length).toBeLessThan(3_000);
  });

  it('carries no id, and no name that a formula made', () => {
    const formula = maths('\\begin{equation}x \\label{kernel} \\tag{body}\\end{equation}', true);
    expect(formula?.querySelectorAll('[id], [name], [href]') ?? []).toHaveLength(0);
  });

  it('keeps what formulas are drawn with', () => {
    const tex = '\\color{red}\\begin{pmatrix}1 & 2\\\\ 3 & 4\\end{pmatrix}\\cancel{x}\\sum_{i=0}^n';
    expect(maths(tex, true)).not.toBeNull();
  });

  it('in HTML that tools show is text: nothing but ours makes MathML', () => {
    const page = document.createElement('div');
    page.append(
      sanitizeCard(
        '<div class="ia-display"><math><mi href="javascript:pwned()">x</mi></math><p>$x$</p></div>'
      )
    );
    expect(page.querySelector('math, .ipyagent-maths')).toBeNull();
  });
});

it('is drawn in answers and in the LaTeX that tools show', () => {
  const page = document.createElement('div');
  page.append(sanitizeText('<p><code class="language-math">$e^{i\\pi} = -1$</code></p>'));
  expect(formulas(page)).toHaveLength(1);
  const latex = '$\\displaystyle x^{2}$';
  const html = `<div class="ia-media"><div class="ia-latex" title="${latex}"><pre>x**2</pre></div></div>`;
  page.replaceChildren(sanitizeCard(html));
  expect(display(page)).toHaveLength(1);
});
