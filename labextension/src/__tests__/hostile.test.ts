import MarkdownIt from 'markdown-it';
import { describe, expect, it } from 'vitest';

import { LiveRun, NOTHING } from '../model';
import type { Run, ToolExecution } from '../protocol';
import { MarkdownText, renderMarkdown } from '../view/markdown';
import { RunView } from '../view/run';
import { sanitize } from '../view/sanitize';
import { RUN } from './story';
import { CANARY, HTML_VECTORS, MARKDOWN_VECTORS } from './vectors';

const ALL = [...HTML_VECTORS, ...MARKDOWN_VECTORS];

const ELEMENTS = new Set(
  `a article b blockquote br code dd del details div dl dt em footer h1 h2 h3 h4 h5 h6 header hr i img li ol
   p pre s section small span strong sub summary sup table tbody td tfoot th thead tr u ul`.split(
    /\s+/
  )
);
const CONTENT = 'align alt class colspan href rel rowspan src start target'.split(' ');
const OURS =
  `aria-hidden aria-label aria-live data-ipyagent data-kind data-lm-suppress-shortcuts data-state data-tool
  hidden open role tabindex title`.split(/\s+/);
const PIXELS = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/;
const DRAWING = /^data:image\/svg\+xml;base64,[A-Za-z0-9+/=]*$/;

/** Everything in `root` that could run, fetch, submit, or pass for something else. */
function harm(root: ParentNode, ours: string[] = [], controls: string[] = []): string[] {
  return [...root.querySelectorAll('*')]
    .filter(element => !controls.includes(element.localName))
    .flatMap(element => [
      ...(ELEMENTS.has(element.localName) ? [] : [`<${element.localName}>`]),
      ...[...element.attributes]
        .filter(attribute => !isHarmless(element, attribute, ours))
        .map(({ name, value }) => `${element.localName}[${name}=${value}]`),
      ...(element.matches('a:not([rel="noopener noreferrer"])') ? ['a without rel'] : [])
    ]);
}

function isHarmless(element: Element, { name, value }: Attr, ours: string[]): boolean {
  switch (name) {
    case 'src':
      return PIXELS.test(value) || (DRAWING.test(value) && element.matches('img.ipyagent-figure'));
    case 'href':
      return /^(https?:\/\/|mailto:)/.test(value);
    case 'class':
      return /^(ipyagent-[\w -]+)?$/.test(value);
    default:
      return CONTENT.includes(name) || ours.includes(name);
  }
}

function call(text: string): ToolExecution {
  const pictures = [
    { type: 'image' as const, media_type: text, data: text, width: null, height: null },
    { type: 'image' as const, media_type: 'image/png', data: text, width: null, height: null }
  ];
  const mimes = [
    'text/html',
    'text/markdown',
    'image/svg+xml',
    'application/json',
    'image/png',
    text
  ];
  return {
    ...RUN.steps[1].executions[0],
    call: {
      type: 'tool_call',
      id: text,
      name: text,
      arguments: { [text]: text, b: [text] },
      parse_error: text,
      item_id: text,
      thought_signature: text
    },
    preview: { kind: 'code', text, language: 'python' },
    concern: text,
    source: text,
    decision: 'denied',
    reason: text,
    result: {
      success: false,
      output: text,
      error: `${text}!`,
      images: pictures,
      displays: mimes.map(mime => ({ data: { [mime]: text } })),
      truncated: {
        tool_name: text,
        original_chars: 1,
        original_lines: 1,
        path: text,
        created_at: text
      }
    }
  };
}

/** A run in which every text that is drawn is `text`. */
function hostile(text: string): Run {
  const diff = { kind: 'diff' as const, text: `-${text}\n+${text}`, language: text };
  const asked = {
    ...call(text),
    status: 'awaiting_approval' as const,
    preview: diff,
    result: null
  };
  const written = { todos: [{ content: text }, { content: text, status: 'completed' }] };
  const listed = { ...asked.call, name: 'todo_write', arguments: written };
  const todos = { ...asked, call: listed, status: 'success' as const, preview: null };
  const question = { text, choices: [text, text] };
  const answered = { ...call(text), question, decision: 'approved' as const };
  const content = [
    {
      type: 'thinking' as const,
      thinking: text,
      signature: text,
      id: text,
      encrypted_content: text,
      summary: []
    },
    { type: 'text' as const, text },
    { type: 'image' as const, media_type: text, data: text, width: null, height: null }
  ];
  const said = { synthetic: false, timestamp: text, usage: null };
  const message = { role: 'assistant' as const, content, ...said };
  const executions = [call(text), asked, answered, todos];
  const step = { ...RUN.steps[0], message, finish_reason: text, notes: [text], executions };
  const texts = {
    prompt: text,
    context: text,
    model: text,
    confirm_mode: text,
    error: text,
    trace_id: text,
    plan_id: text,
    plan: [
      { call: call(text).call, note: text },
      { call: { ...call(text).call, id: 'next' }, note: text }
    ],
    verbose: 3
  };
  return { ...RUN, ...texts, notes: [text], steps: [step] };
}

const CONTROLS = ['button', 'input'];

describe.each(ALL)('with %j in every field', text => {
  it('a saved run can only be read', () => {
    const view = new RunView(null);
    view.update({ ...NOTHING, run: hostile(text) });
    expect(harm(view.element, OURS)).toEqual([]);
    expect(view.element.textContent).toContain(text);
  });

  it('a live run has the buttons of its one question and no other', () => {
    const view = new RunView({ decide: () => undefined, stop: () => undefined });
    const open = { step: 1, text, thinking: text };
    const state: LiveRun = {
      ...NOTHING,
      run: { ...hostile(text), status: 'running' },
      open,
      approvals: Object.fromEntries([[text, 'a']])
    };
    view.update(state);
    view.dispose();
    expect(harm(view.element, OURS, CONTROLS)).toEqual([]);
    const names = [...view.element.querySelectorAll('button')].map(b => b.dataset.ipyagent);
    expect(names).toEqual(['stop', 'approve', 'always', 'folder', 'deny']);
    expect(view.element.querySelectorAll('[data-ipyagent="tool"]')).toHaveLength(4);
    expect(view.element.querySelectorAll('[data-ipyagent="run"]')).toHaveLength(0);
  });

  it('a question has the buttons of its choices and no other', () => {
    const view = new RunView({ decide: () => undefined, stop: () => undefined });
    const run = hostile(text);
    const [step] = run.steps;
    const question = { ...step.executions[2], status: 'awaiting_approval' as const };
    const steps = [{ ...step, executions: [question] }];
    const approvals = Object.fromEntries([[text, 'a']]);
    view.update({ ...NOTHING, run: { ...run, steps, status: 'running' }, approvals });
    view.dispose();
    expect(harm(view.element, OURS, CONTROLS)).toEqual([]);
    const names = [...view.element.querySelectorAll('button')].map(b => b.dataset.ipyagent);
    expect(names).toEqual(['stop', 'choice', 'choice', 'send', 'deny']);
    expect(view.element.querySelector('.ipyagent-question')?.textContent).not.toBe('');
  });

  it('a plan that waits has its own buttons and no other, also while it is edited', () => {
    const view = new RunView({ decide: () => undefined, stop: () => undefined });
    const run = { ...hostile(text), steps: [], status: 'draft' as const };
    view.update({ ...NOTHING, run, planApproval: 'a' });
    const names = () =>
      [...view.element.querySelectorAll('button')].map(b => b.dataset.ipyagent).join(' ');
    expect(names()).toBe('stop approve edit deny');
    expect(harm(view.element, OURS, CONTROLS)).toEqual([]);
    view.element.querySelector<HTMLElement>('[data-ipyagent="edit"]')?.click();
    view.dispose();
    expect(names()).toBe('stop up down remove up down remove save cancel-edit approve edit deny');
    const editable = [...OURS, 'aria-invalid', 'spellcheck', 'rows'];
    expect(harm(view.element, editable, [...CONTROLS, 'textarea'])).toEqual([]);
    expect(view.element.querySelectorAll('[data-ipyagent="plan-step"]')).toHaveLength(2);
  });

  it('streamed text is as safe wherever it is cut', () => {
    const longer = `${text}\n\nand ${text}`;
    for (const size of [1, 2, 3, 5, 8]) {
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

/** What setting `html` as markup makes, in a document that runs nothing. */
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
    const [image] = RUN.steps[1].executions[0].result?.images ?? [];
    const url = `data:image/png;base64,${image.data}`;
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
    expect(element.innerHTML).toBe('<table><tbody><tr><th colspan="2">a</th></tr></tbody></table>');
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
    const view = new RunView(null);
    view.update({ ...NOTHING, run: hostile(text) });
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    for (const place of [
      '.ipyagent-call',
      '.ipyagent-summary',
      '.ipyagent-tool-name',
      '.ipyagent-question',
      '.ipyagent-choices li',
      '.ipyagent-concern',
      '.ipyagent-goal',
      '.ipyagent-plan-heading code',
      '.ipyagent-plan-note',
      '.ipyagent-todo-text'
    ]) {
      // The line of a call that writes the checklist counts tasks, in our own words.
      view.element.querySelectorAll('[data-tool="todo_write"]').forEach(each => each.remove());
      expect(view.element.querySelector(place), place).not.toBeNull();
      view.element.querySelectorAll(place).forEach(element => {
        expect(element.textContent).toContain(`a⟨U+${code}⟩b`);
        expect(element.textContent).not.toContain(character);
      });
    }
  });

  it('leave line ends and tabs as they are', () => {
    const view = new RunView(null);
    view.update({ ...NOTHING, run: hostile('a\n\tb') });
    expect(view.element.textContent).not.toContain('⟨');
  });
});
