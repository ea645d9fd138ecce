import MarkdownIt from 'markdown-it';
import { describe, expect, it } from 'vitest';

import { MarkdownText } from '../view/streamedMarkdown';
import { renderMarkdown } from '../view/markdown';
import type { SavedRun } from '../lab/outputs';
import { savedCard } from '../saved';
import { RunView } from '../view/run';
import { keepHtml, sanitize } from '../view/sanitize';
import { harm } from './harm';
import { going, hostile, planned } from './hostile';
import { HTML, NOTHING, PLOT, RUN } from './story';
import { strings } from './strings';
import { CANARY, HTML_VECTORS, MARKDOWN_VECTORS } from './vectors';

const ALL = [...HTML_VECTORS, ...MARKDOWN_VECTORS];

const OURS =
  `aria-hidden aria-label aria-live data-change data-ipyagent data-kind data-lm-suppress-shortcuts data-state data-tool
  hidden open role tabindex title`.split(/\s+/);

const CONTROLS = ['button', 'input'];

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

/** Attributes of our own elements, and of forms that wait for an approval. */
const LIVE = [...OURS, 'data-approval'];

declare const process: { env: Record<string, string | undefined> };

/** The gate tries a part of them, `make test-all` all. */
const SHARE = process.env.EVERY_VECTOR ? 1 : 4;

describe.each(ALL.filter((_, index) => index % SHARE === 0))('with %j in every field', text => {
  it('a saved run can only be read', () => {
    for (const html of [HTML, HTML.replace(/>[^<]+</g, () => `>${text}<`)]) {
      const card = savedCard(html, forge(RUN, text) as SavedRun, keepHtml);
      expect(harm(card, OURS)).toEqual([]);
      expect(decisions(card)).toEqual([]);
    }
    expect(savedCard(HTML, RUN, keepHtml).querySelectorAll('.ia-footer')).toHaveLength(1);
  });

  it('a live run has the buttons of its one question and no other', () => {
    const view = new RunView(NOTHING);
    const { steps, ...run } = going(hostile(text));
    view.update({ ...run, steps: steps.map(step => ({ ...step, is_streaming: true })) });
    view.dispose();
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    const names = decisions(view.element);
    expect(names).toEqual(['stop', 'approve', 'always', 'folder', 'edit', 'deny', 'take-back']);
    expect(view.element.querySelectorAll('[data-approval]')).toHaveLength(1);
    expect(view.element.querySelectorAll('[data-ipyagent="tool"]')).toHaveLength(4);
    expect(view.element.querySelectorAll('[data-ipyagent="run"]')).toHaveLength(0);
  });

  it('a question has the buttons of its choices and no other', () => {
    const view = new RunView(NOTHING);
    const run = going(hostile(text));
    const [step] = run.steps;
    const [, { approval }, answered] = step.calls;
    const asked = { ...answered, approval, status: 'awaiting_approval' as const };
    view.update({ ...run, steps: [{ ...step, calls: [asked] }] });
    view.dispose();
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    const names = decisions(view.element);
    expect(names).toEqual(['stop', 'choice', 'choice', 'send', 'deny', 'take-back']);
    expect(view.element.querySelector('.ipyagent-question')?.textContent).not.toBe('');
  });

  it('a plan that waits has its own buttons and no other, also while it is edited', () => {
    const view = new RunView(NOTHING);
    view.update(planned(hostile(text)));
    const names = () => decisions(view.element).join(' ');
    expect(names()).toBe('stop approve edit deny take-back');
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
    view.element.querySelector<HTMLElement>('[data-ipyagent="edit"]')?.click();
    view.dispose();
    expect(names()).toBe(
      'stop approve edit deny up down remove up down remove save cancel-edit take-back'
    );
    const editable = [...LIVE, 'aria-invalid', 'spellcheck', 'rows'];
    expect(harm(view.element, editable, [...CONTROLS, 'textarea'])).toEqual([]);
    expect(view.element.querySelectorAll('[data-ipyagent="plan-step"]')).toHaveLength(2);
  });

  it('streamed text is as safe wherever it is cut', () => {
    const longer = `${text}\n\nand ${text}`;
    for (const size of [2, 7]) {
      const markdown = new MarkdownText();
      for (let end = size; end < longer.length; end += size) {
        markdown.update(longer.slice(0, end), false);
        expect(harm(markdown.element, ['hidden'])).toEqual([]);
      }
      markdown.update(longer, true);
      expect(harm(markdown.element)).toEqual([]);
    }
  });
});

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
      expect(harm(renderMarkdown(text)), text).toEqual([]);
      expect(harm(sanitize(text)), text).toEqual([]);
    });
    let next = 0;
    const transcript = hostile(() => texts[next++ % part]);
    const view = new RunView(NOTHING);
    view.update(transcript);
    view.dispose();
    expect(harm(view.element, LIVE, CONTROLS)).toEqual([]);
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

describe('without the defence', () => {
  it.each(HTML_VECTORS)('%j as markup does harm', text => {
    expect(naively(text)).not.toEqual([]);
    expect(harm(sanitize(text))).toEqual([]);
  });

  it.each(MARKDOWN_VECTORS)('%j as Markdown does harm', text => {
    const anything = new MarkdownIt({ html: true });
    anything.validateLink = () => true;
    expect(naively(anything.render(text))).not.toEqual([]);
    expect(harm(renderMarkdown(text))).toEqual([]);
  });
});

describe('what is left', () => {
  const drawn = (markdown: string) => {
    const element = document.createElement('div');
    element.append(renderMarkdown(markdown));
    element.querySelectorAll('.ipyagent-listing-head').forEach(head => {
      head.remove();
    });
    return element;
  };

  it('names the image that was not loaded', () => {
    expect(drawn(`![a chart](${CANARY}/x.png)`).textContent.trim()).toBe(
      `[image not loaded: a chart ${CANARY}/x.png]`
    );
    expect(sanitize(`<img alt="a" src="${CANARY}/x.png">`).textContent).toBe(
      `[image not loaded: a ${CANARY}/x.png]`
    );
  });

  it('shows an image that brings its own pixels', () => {
    const image = PLOT.result?.media.find(({ type }) => type === 'image');
    const url = `data:image/png;base64,${image?.type === 'image' ? image.data : ''}`;
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
    element.append(sanitize(table));
    expect(element.innerHTML).toBe(
      '<table dir="auto"><tbody><tr><th colspan="2">a</th></tr></tbody></table>'
    );
  });

  it('colors cells, and no color hides what stands in them', () => {
    const colors = ['#ffff00', '#023858', 'red;position:fixed', '#ggffff', 'url(//a.example)'];
    const cells = colors.map(each => `<td bgcolor="${each}" style="color: red">a</td>`);
    const element = document.createElement('div');
    element.append(sanitize(`<p bgcolor="#ffff00">b</p><table><tr>${cells.join('')}</tr></table>`));
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
  ])('such as %j are shown in a call', character => {
    const text = `a${character}b`;
    const view = new RunView(NOTHING);
    view.update(hostile(text));
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    for (const place of [
      '.ipyagent-call',
      '.ipyagent-summary',
      '.ipyagent-tool-name',
      '.ipyagent-question',
      '.ipyagent-choices li',
      '.ipyagent-concern',
      '.ipyagent-goal',
      '.ipyagent-plan-title code',
      '.ipyagent-plan-note',
      '.ipyagent-todo-text'
    ]) {
      expect(view.element.querySelector(place), place).not.toBeNull();
      view.element.querySelectorAll(place).forEach(element => {
        expect(element.textContent).toContain(`a⟨U+${code}⟩b`);
        expect(element.textContent).not.toContain(character);
      });
    }
  });

  it('leave line ends and tabs as they are', () => {
    const view = new RunView(NOTHING);
    view.update(hostile('a\n\tb'));
    expect(view.element.textContent).not.toContain('⟨');
  });
});
