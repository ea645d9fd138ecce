import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { Ask } from '../protocol';
import { savedCard } from '../saved';
import { host, type Lab } from '../view/host';
import { labWith } from './story';

const name = (of: string): string => `<span class="ia-name">${of}</span>`;
const HTML = `<div class="ipyagent-card ia-done"><div class="ia-step">
<details class="ia-tool"><summary class="ia-line"><span class="ia-summary">changes sales</span>
<code class="ia-chip">${name('sales')} +1 column</code>
<code class="ia-chip">${name('prices')} created</code></summary>
<blockquote class="ia-body"><div class="ia-effects"><ul><li>${name('sales')} 3 rows</li></ul></div>
</blockquote></details></div></div>`;

const ask = vi.fn();

describe('the name of a variable', () => {
  let card: HTMLElement;
  const names = () => [...card.querySelectorAll<HTMLElement>('.ia-name')];
  const heads = () => [...card.querySelectorAll('.ipyagent-head')];
  const call = () => card.querySelector<HTMLDetailsElement>('.ia-tool');

  beforeEach(() => {
    host.lab = labWith({ ask: ask as Lab['ask'] });
    ask
      .mockReset()
      .mockImplementation((_, __, { text }: Partial<Ask>) =>
        Promise.resolve({ html: `<p>${text}!</p>` })
      );
    card = savedCard(HTML, null);
    document.body.replaceChildren(card);
  });

  it('opens its description below the line, which stays as it is', async () => {
    names()[0].click();
    expect(ask).toHaveBeenCalledWith(heads()[0], 'variable', { text: 'sales' });
    await vi.waitFor(() => expect(heads().map(each => each.textContent)).toEqual(['sales!']));
    expect(call()?.nextElementSibling).toBe(heads()[0]);
    expect(call()?.open).toBe(false);
  });

  it('closes it again, and another one takes its place, also once the line is open', () => {
    names()[0].click();
    call()?.setAttribute('open', '');
    names()[1].click();
    expect(heads().map(each => (each as HTMLElement).dataset.name)).toEqual(['prices']);
    expect(call()?.querySelector('summary')?.nextElementSibling).toBe(heads()[0]);
    names()[1].click();
    expect(heads()).toHaveLength(0);
  });

  it('opens it by Enter too, at an effect in its place; a line is a button itself', () => {
    expect(names().map(({ tabIndex, role }) => [tabIndex, role])).toEqual([
      [-1, null],
      [-1, null],
      [0, 'button']
    ]);
    const key = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true });
    names()[2].dispatchEvent(key);
    expect(key.defaultPrevented).toBe(true);
    expect(heads()[0].parentElement?.localName).toBe('li');
  });

  it('shows nothing of a reply that runs', async () => {
    ask.mockResolvedValue({ html: '<b onclick="alert(1)">3</b>' });
    names()[0].click();
    await vi.waitFor(() => expect(heads()[0].textContent).toBe('3'));
    expect(heads()[0].querySelector('[onclick]')).toBeNull();
  });

  it('is plain text where no kernel can describe it', () => {
    host.lab = null;
    card = savedCard(HTML, null);
    names()[0].click();
    expect(names()[0].title).toBe('');
    expect(ask).not.toHaveBeenCalled();
  });
});
