import { describe, expect, it } from 'vitest';

import { RunView } from '../view/run';
import { maths } from '../view/maths';
import { renderMarkdown } from '../view/markdown';
import { sanitize } from '../view/sanitize';
import { harm } from './harm';
import { NOTHING, withCall, withStep } from './story';

function drawn(markdown: string): HTMLElement {
  const element = document.createElement('div');
  element.append(renderMarkdown(markdown));
  return element;
}

const formulas = (root: Element) => [...root.querySelectorAll('.ipyagent-maths')];
const display = (root: Element) => [...root.querySelectorAll('.ipyagent-maths-display')];

describe('maths in Markdown', () => {
  it.each([
    ['$x^2$', 0],
    ['\\(x^2\\)', 0],
    ['a $$x^2$$ b', 1],
    ['$$x^2$$', 1],
    ['$$\nx^2\n$$', 1],
    ['\\[\n\\begin{aligned}a &= b \\\\\nc &= d\\end{aligned}\n\\]', 1],
    ['\\[x^2\\]', 1],
    ['```math\nx^2\n```', 1],
    ['- one: $x$\n- two', 0],
    ['| a |\n|---|\n| $x$ |', 0],
    ['text\n$$\nx\n$$\nmore', 1],
    ['(about $x$).', 0],
    ['**$x$**', 0],
    ['$\\text{a \\$ sign}$', 0]
  ])('%j is a formula', (markdown, displayed) => {
    const root = drawn(markdown);
    expect(formulas(root)).toHaveLength(1);
    expect(display(root)).toHaveLength(displayed);
    expect(root.querySelector('math')?.namespaceURI).toContain('MathML');
    expect(root.textContent).not.toContain('$$');
  });

  it.each([
    'It costs $5 and $10.',
    'From $5-$10 a month, or $20/month for two ($40/year).',
    'US$5/US$6, 5$ or 6$',
    '$HOME and $PATH',
    '\\$x\\$',
    '`$x$` and `\\(x\\)`',
    '```\n$x$\n$$y$$\n```',
    '    $x$',
    'Between $ 5 and 6 $',
    '$$',
    '$$$$',
    '$x\n\ny$',
    '$$\nx\n\ny\n$$',
    'a \\( b',
    '$a `b$ c`'
  ])('%j is none', markdown => {
    expect(formulas(drawn(markdown))).toEqual([]);
  });

  it.each(['$\\frac{1$', '$$\\nosuchthing{x}$$', '\\(\\left( x\\)', `$${'{'.repeat(2_000)}$`])(
    '%j shows what was written',
    markdown => {
      const root = drawn(markdown);
      expect(formulas(root)).toEqual([]);
      expect(root.querySelector('code')?.textContent.trim()).toBe(markdown);
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
    page.append(sanitize('<math><mi href="javascript:pwned()">x</mi></math><p>$x$</p>'));
    expect(page.querySelector('math, .ipyagent-maths')).toBeNull();
  });
});

it('is drawn in answers and in the LaTeX that tools show', () => {
  const view = new RunView(NOTHING);
  view.update(withStep({ text: 'Euler: $e^{i\\pi} = -1$' }));
  expect(formulas(view.element)).toHaveLength(1);
  const shown = { type: 'display' as const, label: 'Output' };
  const media = [{ ...shown, data: { 'text/latex': '$\\displaystyle x^{2}$' } }];
  view.update(withCall({ result: { output: 'x**2', error: '', tone: 'plain', media } }));
  expect(display(view.element)).toHaveLength(1);
  view.dispose();
});
