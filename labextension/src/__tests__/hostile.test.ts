import DOMPurify from 'dompurify';
import MarkdownIt from 'markdown-it';
import { describe, expect, it, vi } from 'vitest';

import type { SavedRun } from '../lab/outputs';
import type { Snapshot } from '../protocol';
import { savedCard } from '../saved';
import { Card } from '../view/card';
import type { Own } from '../view/own';
import { sanitizeCard, sanitizeText } from '../view/sanitize';
import { harm } from './harm';
import { asking, HTML, plan, RUN, withBlock } from './story';
import { strings } from './strings';
import { CANARY, HTML_VECTORS, MARKDOWN_VECTORS } from './vectors';

const ALL = [...HTML_VECTORS, ...MARKDOWN_VECTORS];

const OURS =
  `aria-hidden aria-label aria-live data-ipyagent data-lm-suppress-shortcuts data-open data-state
  data-tool hidden open role tabindex title`.split(/\s+/);

const CONTROLS = ['button', 'input', 'textarea'];

/** Return a run's JSON with this in the place of every text. */
function forge(value: unknown, text: string, name = ''): unknown {
  if (typeof value === 'string') {
    return ['type', 'status', 'kind', 'language'].includes(name) ? value : text;
  }
  if (Array.isArray(value)) {
    return value.map(each => forge(each, text));
  }
  return value === null || typeof value !== 'object'
    ? value
    : Object.fromEntries(Object.entries(value).map(([key, each]) => [key, forge(each, text, key)]));
}

/** All buttons but those that copy code. */
function decisions(root: Element): (string | undefined)[] {
  const buttons = [...root.querySelectorAll('button')];
  return buttons.map(({ dataset }) => dataset.ipyagent).filter(name => name !== 'copy');
}

/** Return a run in which every text is what `make` says, as markup. */
function hostile(run: Snapshot, make: () => string): Snapshot {
  const texts = [{ id: make(), label: make(), text: make() }];
  const unsent = { key: 'r/u', html: make(), own: { type: 'unsent' as const, texts } };
  const { set, ...rest } = withBlock(run, { ...unsent, html: '<div><p>x</p></div>' });
  return {
    ...rest,
    set: set.map(({ key, html, own }) => ({
      key,
      html: html.replace(/>[^<]+</g, () => `>${make()}<`),
      more: make(),
      own: own && forgeOwn(own, make)
    }))
  };
}

/** Forge all texts of a form but the names that choose its buttons. */
function forgeOwn(own: Own, make: () => string): Own {
  const kept = ['type', 'answer', 'started_at', 'decision', 'kind'];
  const forgeAll = (value: unknown, name = ''): unknown =>
    typeof value === 'string'
      ? kept.includes(name)
        ? value
        : make()
      : Array.isArray(value)
        ? value.map(each => forgeAll(each))
        : value === null || typeof value !== 'object'
          ? value
          : Object.fromEntries(
              Object.entries(value).map(([key, each]) => [key, forgeAll(each, key)])
            );
  return forgeAll(own) as Own;
}

/** Attributes of our own elements, and of forms that wait for an approval. */
const LIVE = [...OURS, 'data-approval', 'data-run'];

declare const process: { env: Record<string, string | undefined> };

/** The gate tries a part of them, `make test-all` all. */
const SHARE = process.env.EVERY_VECTOR ? 1 : 4;

describe.each(ALL.filter((_, index) => index % SHARE === 0))('with %j in every field', text => {
  it('a saved run can only be read', () => {
    for (const html of [HTML, HTML.replace(/>[^<]+</g, () => `>${text}<`)]) {
      const card = savedCard(html, forge(RUN, text) as SavedRun);
      expect(harm(card, OURS)).toEqual([]);
      expect(decisions(card)).toEqual([]);
    }
    expect(savedCard(HTML, RUN).querySelectorAll('.ia-footer')).toHaveLength(1);
  });

  it('a live run has the buttons of its one question and no other', () => {
    const view = new Card({ decide: () => undefined, send: () => undefined });
    view.update(hostile(asking('c2'), () => text));
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    // A text that ends the code's block early leaves the pencil no place there: it is in the form.
    const names = decisions(view.element).filter(each => each !== 'edit');
    expect(names).toEqual(['stop', 'approve', 'deny', 'always', 'folder', 'take-back']);
    expect(view.element.querySelectorAll('[data-ipyagent="edit"]')).toHaveLength(1);
    expect(view.element.querySelectorAll('[data-approval]')).toHaveLength(1);
    view.dispose();
  });

  it('a question has the buttons of its choices and no other', () => {
    const view = new Card({ decide: () => undefined, send: () => undefined });
    view.update(hostile(asking('c8'), () => text));
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    const names = decisions(view.element);
    expect(names).toEqual(['stop', 'choice', 'choice', 'send', 'deny', 'take-back']);
    view.dispose();
  });

  it('a plan that waits has its own buttons and no other, also while it is edited', () => {
    const view = new Card({ decide: () => undefined, send: () => undefined });
    view.update(hostile(plan(2), () => text));
    const names = () => decisions(view.element).join(' ');
    expect(names()).toBe('stop approve deny edit take-back');
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    view.element.querySelector<HTMLElement>('[data-ipyagent="edit"]')?.click();
    const steps = 'up down remove '.repeat(3);
    expect(names()).toBe(`stop approve deny edit ${steps}save cancel-edit take-back`);
    const editable = [...LIVE, 'aria-invalid', 'spellcheck', 'rows'];
    expect(harm(view.element, editable, CONTROLS)).toEqual([]);
    view.dispose();
  });
});

/** Return what DOMPurify would still remove, of nodes that are not written as HTML again. */
function removed(fragment: DocumentFragment): unknown[] {
  const options = { ADD_ATTR: ['target'], SAFE_FOR_XML: false, RETURN_DOM: true };
  DOMPurify.sanitize(fragment, options);
  return DOMPurify.removed;
}

describe('with strings that nobody has thought of', () => {
  const many = strings(2_000 / SHARE, 1);
  const part = 50;
  const parts = Array.from({ length: many.length / part }, (_, index) => index * part);

  it('they are many, and not the same', () => {
    expect(new Set(many).size).toBeGreaterThan(1_800 / SHARE);
  });

  it.each(parts)('from %i on', from => {
    const texts = many.slice(from, from + part);
    texts.forEach(text => {
      expect(harm(sanitizeText(text)), text).toEqual([]);
      expect(harm(sanitizeCard(text), OURS), text).toEqual([]);
      expect(
        [sanitizeText, sanitizeCard].flatMap(each => removed(each(text))),
        text
      ).toEqual([]);
    });
    let next = 0;
    const view = new Card({ decide: () => undefined, send: () => undefined });
    view.update(hostile(asking('c2'), () => texts[next++ % part]));
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    view.dispose();
    expect(next).toBeGreaterThan(part);
  });
});

/** Return the harm in `html` when it is set as markup in an inert document. */
function naively(html: string): string[] {
  const page = document.implementation.createHTMLDocument();
  page.body.innerHTML = html;
  const templates = [...page.querySelectorAll('template')].flatMap(({ content }) => harm(content));
  return [...harm(page.body), ...templates];
}

describe('with names that documents have', () => {
  const names = ['createElement', 'createDocumentFragment'] as const;

  it('the gate goes on to build', async () => {
    const { implementation } = document;
    const create = implementation.createHTMLDocument.bind(implementation);
    const spy = vi.spyOn(implementation, 'createHTMLDocument').mockImplementation(() => {
      const page = create();
      names.forEach(name => {
        // As in browsers: https://html.spec.whatwg.org/#dom-document-nameditem
        const get = (own: unknown) => () => page.querySelector(`img[name="${name}"]`) ?? own;
        Object.defineProperty(page, name, { get: get(page[name].bind(page)) });
      });
      return page;
    });
    vi.resetModules();
    const gate = await import('../view/sanitize');
    spy.mockRestore();
    const images = names.map(name => `<img name="${name}">`).join('');
    const [first, second] = [1, 2].map(() => gate.sanitizeText(`${images}<b>x</b>`));
    expect(first.querySelector('b')?.textContent).toBe('x');
    expect(second.querySelectorAll('[name]')).toHaveLength(0);
  });
});

describe('without the defence', () => {
  it.each(HTML_VECTORS)('%j as markup does harm', text => {
    expect(naively(text)).not.toEqual([]);
    expect(harm(sanitizeCard(text), OURS)).toEqual([]);
    expect(removed(sanitizeCard(text))).toEqual([]);
  });

  it.each(MARKDOWN_VECTORS)('%j as Markdown does harm', text => {
    const anything = new MarkdownIt({ html: true });
    anything.validateLink = () => true;
    expect(naively(anything.render(text))).not.toEqual([]);
    expect(harm(sanitizeText(anything.render(text)))).toEqual([]);
  });
});

describe('what is left', () => {
  const markdown = new MarkdownIt({ linkify: true });
  const drawn = (text: string) => {
    const element = document.createElement('div');
    element.append(sanitizeText(markdown.render(text)));
    element.querySelectorAll('.ipyagent-listing-head').forEach(head => {
      head.remove();
    });
    return element;
  };

  it('names the image that was not loaded', () => {
    expect(drawn(`![a chart](${CANARY}/x.png)`).textContent.trim()).toBe(
      `[image not loaded: a chart ${CANARY}/x.png]`
    );
    expect(sanitizeCard(`<img alt="a" src="${CANARY}/x.png">`).textContent).toBe(
      `[image not loaded: a ${CANARY}/x.png]`
    );
  });

  it('shows an image that brings its own pixels', () => {
    const url = 'data:image/png;base64,iVBORw0KGgo=';
    expect(drawn(`![a](${url})`).querySelector('img')?.src).toBe(url);
  });

  it.each([
    ['[method](https://example.org/m)', 'method (example.org)'],
    ['[https://bank.example](https://evil.example/x)', 'https://bank.example (evil.example)'],
    ['[bank.example](https://bank.example@evil.example/)', 'bank.example (evil.example)'],
    ['<https://bank.example@evil.example/>', 'https://bank.example@evil.example/ (evil.example)'],
    ['<https://example.org/m>', 'https://example.org/m'],
    ['https://example.org/m', 'https://example.org/m'],
    ['[example.org](https://example.org/m)', 'example.org'],
    ['[а](https://аpple.example/)', 'а (xn--pple-43d.example)']
  ])('%s tells where it leads', (markdown, text) => {
    const element = drawn(markdown);
    expect(element.textContent.trim()).toBe(text);
    expect(element.querySelector('a')?.target).toBe('_blank');
  });

  it('keeps a table and its spans, and none of its styles', () => {
    const table =
      '<style>td{}</style><table class="dataframe"><tr><th colspan="2">a</th></tr></table>';
    const element = document.createElement('div');
    element.append(sanitizeCard(`<div class="ia-display">${table}</div>`));
    expect(element.querySelector('.ia-display')?.innerHTML).toBe(
      '<table dir="auto"><tbody><tr><th colspan="2">a</th></tr></tbody></table>'
    );
  });

  it('colors cells, and no color hides what stands in them', () => {
    const colors = ['#ffff00', '#023858', 'red;position:fixed', '#ggffff', 'url(//a.example)'];
    const cells = colors.map(each => `<td bgcolor="${each}" style="color: red">a</td>`);
    const element = document.createElement('div');
    const html = `<p bgcolor="#ffff00">b</p><table><tr>${cells.join('')}</tr></table>`;
    element.append(sanitizeCard(`<div class="ia-display">${html}</div>`));
    expect([...element.querySelectorAll('p, td')].map(each => each.getAttribute('style'))).toEqual([
      null,
      'background: rgb(255, 255, 0); color: black;',
      'background: rgb(2, 56, 88); color: white;',
      null,
      null,
      null
    ]);
    expect(element.querySelector('[bgcolor]')).toBeNull();
  });
});
