import { beforeEach, describe, expect, it, vi } from 'vitest';

import { savedCard } from '../saved';

const call = (name: string): string =>
  `<details class="ia-tool"><summary class="ia-line">${name}</summary></details>`;
const number = (kinds: string, title: string): string =>
  `<span class="ia-traced ${kinds}" title="${title}">7</span>`;

const HTML = `<div class="ipyagent-card ia-done">
<details class="ia-steps"><summary class="ia-line">Looked 3 times</summary>
<div class="ia-step">${call('one')}${call('two')}</div><div class="ia-step">${call('three')}</div>
</details>
<div class="ia-answer"><div class="ia-markdown"><p>
${number('ia-found ia-at-1-2', 'run_python, step 1, call 2, line 3: it is 7')}
${number('ia-derived ia-at-2-1', '= 9 - 2 (run_python, step 2, line 1)')}
${number('ia-not-found', 'in no result, step 1, line 1')}
${number('ia-found', 'in a prompt, or in what was sent with it')}
</p></div></div></div>`;

const scrolled = vi.fn();

describe('a number of an answer', () => {
  let card: HTMLElement;
  const numbers = () => [...card.querySelectorAll<HTMLElement>('.ia-traced')];
  const isOpen = (name: string) => {
    const calls = [...card.querySelectorAll<HTMLDetailsElement>('.ia-tool')];
    return calls.find(each => each.textContent === name)?.open;
  };

  beforeEach(() => {
    Element.prototype.scrollIntoView = scrolled as () => void;
    scrolled.mockClear();
    card = savedCard(HTML, null);
    document.body.replaceChildren(card);
  });

  it('leads to its call, which is opened and has the focus', () => {
    numbers()[0].click();
    expect(card.querySelector<HTMLDetailsElement>('.ia-steps')?.open).toBe(true);
    expect(['one', 'two', 'three'].map(isOpen)).toEqual([false, true, false]);
    expect(document.activeElement?.textContent).toBe('two');
    expect(scrolled).toHaveBeenCalledOnce();
  });

  it('leads there by Enter too, also if it is derived', () => {
    numbers()[1].focus();
    const event = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true });
    document.activeElement?.dispatchEvent(event);
    expect(event.defaultPrevented).toBe(true);
    expect(document.activeElement?.textContent).toBe('three');
  });

  it('is a link only if it comes from a call', () => {
    expect(numbers().map(({ role }) => role)).toEqual(['link', 'link', null, null]);
    numbers()
      .slice(2)
      .forEach(each => each.click());
    expect(['one', 'two', 'three'].map(isOpen)).toEqual([false, false, false]);
  });

  it('stays where it is while its text is selected', () => {
    getSelection()?.selectAllChildren(numbers()[0]);
    numbers()[0].click();
    expect(isOpen('two')).toBe(false);
  });
});
