import { afterEach, beforeEach, expect, it } from 'vitest';

import { Card } from '../view/card';
import { host } from '../view/host';
import { begun, withBlock } from './story';

const TEXT = 'r/s1/x';
const formula = (tex: string): string => `<code class="ia-formula mathjax_process">$${tex}$</code>`;
const streamed = (html: string) =>
  withBlock(
    withBlock(begun(), { key: TEXT, html: '<div class="ia-markdown"></div>' }, 'r/s1'),
    { key: `${TEXT}/0`, html },
    TEXT
  );
const media = (html: string) =>
  withBlock(begun(), { key: 'r/s1/i', html: `<div class="ia-media">${html}</div>` }, 'r/s1');

let card: Card;
let set: string[];

const drawn = (): Element[] => [...card.element.querySelectorAll('.ia-formula')];
const texts = (): (string | null)[] => drawn().map(each => each.textContent);

/** Sets formulas as a page does: their source goes. */
beforeEach(() => {
  card = new Card({ decide: () => undefined, send: () => undefined });
  document.body.replaceChildren(card.element);
  set = [];
  host.typeset = element => {
    set.push(element.textContent);
    const made = document.createElement('mjx-container');
    made.textContent = `set ${element.textContent}`;
    element.replaceChildren(made);
  };
});

afterEach(() => (host.typeset = null));

it.each([
  ['text', (html: string) => streamed(`<p>${html}</p>`)],
  ['an output', media]
])('a formula in %s stays set while its source is the same', (_, state) => {
  card.update(state(`a ${formula('x')}`));
  const [first] = drawn();
  card.update(state(`a b ${formula('x')} and ${formula('y')}`));
  expect(drawn()[0]).toBe(first);
  expect(texts()).toEqual(['set $x$', 'set $y$']);
  expect(set).toEqual(['$x$', '$y$']);
  card.update(state(`a b ${formula('z')} and ${formula('y')}`));
  expect(texts()).toEqual(['set $z$', 'set $y$']);
  card.update(state('a b'));
  expect(drawn()).toEqual([]);
});

it('two formulas with the same source are two', () => {
  card.update(streamed(`<p>${formula('x')} ${formula('x')}</p>`));
  card.update(streamed(`<p>${formula('x')} ${formula('x')} ${formula('x')}</p>`));
  expect(set).toEqual(['$x$', '$x$', '$x$']);
});

it('a formula stays code where the page sets none', () => {
  host.typeset = null;
  card.update(streamed(`<p>${formula('x < y')} costs $5 to $6</p>`));
  expect(card.element.querySelector('.ia-markdown')?.textContent).toBe('$x < y$ costs $5 to $6');
  expect(drawn()[0].localName).toBe('code');
});

it('nothing but a formula is set', () => {
  card.update(streamed('<p>$5 to $6</p><code class="mathjax_process">$x$</code>'));
  expect(set).toEqual([]);
});
