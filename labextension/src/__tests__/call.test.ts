import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { Call, CallRequest, Display, Image } from '../protocol';
import { RunView } from '../view/run';
import { PLOT, request, withCall } from './story';

const DIFF = '--- a/p.py\n+++ b/p.py\n@@ -1 +1 @@\n-df = load()\n+df = read()\n';
let view: RunView;

const card = () => {
  const element = view.element.querySelector('[data-ipyagent="tool"]');
  if (element === null) {
    throw new Error('no card');
  }
  return element;
};
const terms = () => [...card().querySelectorAll('dt')].map(each => each.textContent);
const draw = (changes: Partial<Call>) => {
  view.update(withCall({ ...PLOT, ...changes }));
  return card();
};

beforeEach(() => {
  view = new RunView({ decide: vi.fn(), send: vi.fn() });
});

describe('a question about an edit', () => {
  const preview = { kind: 'diff', text: DIFF, language: 'diff', caption: 'changes' } as const;
  const ask = (changes: Partial<CallRequest>) =>
    draw({ request: request({ preview, ...changes }), status: 'awaiting_approval' });
  const edit = { path: 'p.py', old_string: 'load()', new_string: 'read()\u202e' };

  it('shows the change once, and what the diff does not show beside it', () => {
    const shown = [
      { name: 'path', value: 'p.py' },
      { name: 'replace_all', value: 'true' }
    ];
    const drawn = ask({ arguments: { ...edit, replace_all: true }, shown });
    expect(terms()).toEqual(['path', 'replace_all']);
    expect(drawn.querySelectorAll('.ipyagent-diff')).toHaveLength(1);
    expect(drawn.querySelector('.ipyagent-caption')?.textContent).toBe('changes');
  });

  it('has exactly what is sent behind a fold, where a diff says it in other words', () => {
    const drawn = ask({ arguments: edit, is_exact_folded: true });
    const fold = drawn.querySelector<HTMLDetailsElement>('.ipyagent-exact');
    expect(fold?.open).toBe(false);
    expect(fold?.querySelector('summary')?.textContent).toBe('exactly what is sent');
    const sent = JSON.parse(fold?.querySelector('pre')?.textContent ?? '') as unknown;
    expect(sent).toEqual(edit);
    expect(ask({ arguments: edit }).querySelector('.ipyagent-exact')).toBeNull();
  });

  it('says what is wrong with arguments that could not be read', () => {
    const drawn = ask({ parse_error: 'no JSON' });
    expect(drawn.querySelector('.ipyagent-call .ipyagent-error')?.textContent).toBe('no JSON');
  });
});

describe('a dry run', () => {
  it('begins unfolded, and has a mark that is no tick', () => {
    const dry = { is_dry: true, is_open: true, badge: 'dry run' } as const;
    const drawn = draw({ ...dry, glyph: '○', status_text: 'would run', status: 'success' });
    expect(drawn.querySelector('.ipyagent-tool-details')?.hasAttribute('open')).toBe(true);
    const glyph = drawn.querySelector('.ipyagent-glyph');
    expect(glyph?.textContent).toBe('○');
    expect(glyph?.getAttribute('aria-label')).toBe('would run');
    expect(drawn.querySelector('.ipyagent-badge')?.textContent).toBe('dry run');
    expect(drawn.classList.contains('ipyagent-dry')).toBe(true);
  });
});

describe('what code showed', () => {
  const picture = PLOT.result?.media.find((each): each is Image => each.type === 'image');
  const table: Display = {
    type: 'display',
    data: { 'text/html': '<table><tr><td>1</td></tr></table>' },
    label: 'Figure from run_python'
  };

  it('is drawn in the order in which it comes', () => {
    const media = [table, ...(picture === undefined ? [] : [picture]), table];
    draw({ result: { output: '', error: '', tone: 'plain', media } });
    const drawn = [...card().querySelectorAll('.ipyagent-media > *')];
    expect(drawn.map(each => each.localName)).toEqual(['div', 'img', 'div']);
    expect(drawn[1].getAttribute('alt')).toBe('Figure from run_python');
  });

  it.each([
    [{ 'text/plain': 'a\u202eb' }, 'a⟨U+202E⟩b'],
    [{ 'application/json': '{"a": 1}' }, '{"a": 1}'],
    [{ 'text/plain': 'no', 'text/html': '<b>yes</b>' }, 'yes'],
    [{ 'text/x-unknown': 'no' }, null]
  ])('as %j is %s', (data, words) => {
    const media = [{ ...table, data }] as Display[];
    draw({ result: { output: '', error: '', tone: 'plain', media } });
    const drawn = card().querySelector('.ipyagent-media')?.firstElementChild;
    expect(drawn?.textContent.trim() ?? null).toBe(words);
  });
});
