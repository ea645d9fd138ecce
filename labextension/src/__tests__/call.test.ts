import { beforeEach, describe, expect, it, vi } from 'vitest';

import { NOTHING } from '../model';
import type { Display, ToolExecution, ToolResult } from '../protocol';
import { RunView } from '../view/run';
import { RUN, runOf } from './story';

const PLOT = RUN.steps[1].executions[0];
const DIFF = '--- a/p.py\n+++ b/p.py\n@@ -1 +1 @@\n-df = load()\n+df = read()\n';
const RESULT = PLOT.result as unknown as ToolResult;
let view: RunView;

const card = () => {
  const element = view.element.querySelector('[data-ipyagent="tool"]');
  if (element === null) {
    throw new Error('no card');
  }
  return element;
};
const terms = () => [...card().querySelectorAll('dt')].map(each => each.textContent);
const draw = (changes: Partial<ToolExecution>) => {
  const state = runOf({ ...PLOT, concern: null, ...changes });
  view.update({ ...state, approvals: { c2: 'a2' } });
  return card();
};

beforeEach(() => {
  view = new RunView({ decide: vi.fn(), stop: vi.fn() });
});

describe('a question about an edit', () => {
  const preview = { kind: 'diff', text: DIFF, language: 'diff' } as const;
  const ask = (name: string, given: Record<string, unknown>) =>
    draw({
      call: { ...PLOT.call, name, arguments: given },
      preview,
      result: null,
      status: 'awaiting_approval'
    });
  const edit = { path: 'p.py', old_string: 'load()', new_string: 'read()\u202e' };

  it('shows the change once, and what the diff does not show beside it', () => {
    const drawn = ask('edit_file', { ...edit, replace_all: true });
    expect(terms()).toEqual(['path', 'replace_all']);
    expect(drawn.querySelectorAll('.ipyagent-diff')).toHaveLength(1);
  });

  it.each([
    ['write_file', { path: 'p.py', content: 'df = read()\n', mode: 'overwrite' }, ['path', 'mode']],
    ['edit_cell', { cell: 2, source: 'df = read()' }, ['cell']],
    ['delete_file', { path: 'p.py' }, ['path']],
    [
      'a_tool_of_others',
      { old_string: 'a', content: 'b', source: 'c' },
      ['old_string', 'content', 'source']
    ]
  ])('%s leaves out only what its diff shows', (name, given, left) => {
    ask(name, given);
    expect(terms()).toEqual(left);
  });

  it('has exactly what is sent behind a fold', () => {
    const fold = ask('edit_file', edit).querySelector<HTMLDetailsElement>('.ipyagent-exact');
    expect(fold?.open).toBe(false);
    expect(fold?.querySelector('summary')?.textContent).toBe('exactly what is sent');
    const sent = JSON.parse(fold?.querySelector('pre')?.textContent ?? '') as unknown;
    expect(sent).toEqual(edit);
  });
});

describe('a dry run', () => {
  const dry = { dry_run: true, decision: 'auto', decided_by: 'policy', reason: null } as const;

  it('shows the code, and has a mark that is no tick', () => {
    const drawn = draw({ ...dry, status: 'success' });
    expect(drawn.querySelector('.ipyagent-tool-details')?.hasAttribute('open')).toBe(true);
    const glyph = drawn.querySelector('.ipyagent-glyph');
    expect(glyph?.textContent).toBe('○');
    expect(glyph?.getAttribute('aria-label')).toBe('would run');
    expect(drawn.textContent).not.toContain('✓');
  });

  it('that found a mistake has failed', () => {
    const drawn = draw({ ...dry, status: 'failed' });
    expect(drawn.querySelector('.ipyagent-glyph')?.textContent).toBe('✗');
  });
});

describe('what code showed', () => {
  const picture = PLOT.result?.images[0];
  const table = (before: number): Display => ({
    data: { 'text/html': '<table><tr><td>1</td></tr></table>' },
    images_before: before
  });
  const drawnBy = (displays: Display[]) => {
    const images = picture === undefined ? [] : [picture];
    draw({ result: { ...RESULT, images, displays } });
    return [...card().querySelectorAll('.ipyagent-media > *')].map(each => each.localName);
  };

  it.each([
    [[0], ['div', 'img']],
    [[1], ['img', 'div']],
    [
      [0, 1],
      ['div', 'img', 'div']
    ],
    [[9], ['img', 'div']]
  ])('tables after %j images are drawn in that order', (before, drawn) => {
    expect(drawnBy(before.map(table))).toEqual(drawn);
  });
});

describe('words for the model', () => {
  const FOR_MODEL = /do not repeat|ask or find|go on as well|look before you|the person/i;
  const said = 'The person denied this call of run_python; it was not run. Do not repeat it.';
  const result = { ...RESULT, success: false, output: said, error: said };
  const none = { images: [], displays: [], variables: [], truncated: null };
  const denied = { status: 'denied', decision: 'denied', result: { ...result, ...none } } as const;

  it.each([
    [{ decided_by: 'button', reason: 'too broad' }, 'You denied this call: too broad'],
    [{ decided_by: 'prompt', reason: null }, 'You denied this call'],
    [{ decided_by: 'policy', reason: 'a rule forbids it' }, 'denied: a rule forbids it']
  ] as const)('are not shown of a denied call: %j', (by, words) => {
    const text = draw({ ...denied, ...by }).textContent;
    expect(text).toContain(words);
    expect(text).not.toMatch(FOR_MODEL);
  });

  it('are not shown of any other either', () => {
    const failed = { ...result, ...none, output: 'x', error: 'x', advice: 'Do not repeat it.' };
    for (const status of ['failed', 'cancelled', 'unknown'] as const) {
      expect(draw({ status, result: failed }).textContent).not.toMatch(FOR_MODEL);
    }
    view.update({ ...NOTHING, run: RUN });
    expect(view.element.textContent).not.toMatch(FOR_MODEL);
  });
});
