import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { Approval, Call, Choice } from '../protocol';
import { changesOf, diffOf } from '../view/diff';
import { ProposalView } from '../view/proposal';
import { CALL, request } from './story';

const choice = (answer: Choice['answer'], label: string): Choice => ({ answer, label });
const APPROVAL: Approval = {
  id: 'a1',
  question: 'May edit_cell run?',
  choices: [choice('approve', 'Approve'), choice('always', 'Always'), choice('deny', 'Deny')],
  covers: ''
};
const call = (name: string, given: object, changes: Partial<Call> = {}): Call => ({
  ...CALL,
  name,
  request: request({ arguments: { ...given } }),
  approval: APPROVAL,
  ...changes
});
const diff = (...lines: string[]): HTMLElement =>
  changesOf(`--- a/cell 2\n+++ b/cell 2\n@@ -1 +1 @@\n${lines.join('\n')}\n`);
const texts = (of: HTMLElement, selector: string) =>
  [...of.querySelectorAll(selector)].map(each => each.textContent);

describe('the diff of a cell', () => {
  it('has the lines and nothing of their file', () => {
    const drawn = diff(' same', '-old', '+new');
    expect(drawn.textContent).toBe(' same\n-old\n+new\n');
    expect(texts(drawn, '.ipyagent-diff-added, .ipyagent-diff-removed')).toEqual([
      '-old\n',
      '+new\n'
    ]);
  });

  it('of several files names each', () => {
    const file = (name: string) => `--- a/${name}\n+++ b/${name}\n@@ -1 +1 @@\n--- old\n+new\n`;
    const drawn = diffOf(file('one') + file('two'));
    expect(texts(drawn, '.ipyagent-diff-file')).toHaveLength(4);
    expect(texts(drawn, '.ipyagent-diff-removed')).toEqual(['--- old\n', '--- old\n']);
  });

  it('keeps a line that looks like the name of a file', () => {
    expect(diff('--- x', '+-- y').textContent).toBe('--- x\n+-- y\n');
  });

  it('says where its parts are if there are several', () => {
    const drawn = diff('-a', '+b', '@@ -9 +9 @@', '-c', '+d');
    expect(drawn.textContent).toContain('@@ -1 +1 @@');
    expect(drawn.textContent).toContain('@@ -9 +9 @@');
  });

  it.each([
    [
      ['-a = 1', '+a = 2'],
      ['1', '2']
    ],
    [['-plot(x)', '+plot(x, grid=True)'], [', grid=True']],
    [['-a', '-b', '+a1', '+b'], []],
    [
      ['-f(a)', '-g(b)', '+f(c)', '+g(d)'],
      ['a', 'b', 'c', 'd']
    ],
    // Nothing in common: the whole line is another one.
    [['-old', '+new'], []],
    // Removed and added lines cannot be paired.
    [['-f(a)', '+f(b)', '+f(c)'], []],
    [
      ['-x = "ä😀"', '+x = "ö😀"'],
      ['ä', 'ö']
    ]
  ])('%j marks the words %j', (lines, marked) => {
    const drawn = diff(...lines);
    expect(texts(drawn, 'mark')).toEqual(marked);
    expect(drawn.textContent).toBe(`${lines.join('\n')}\n`);
  });

  it('tells of the end of the last line only where it differs', () => {
    const end = '\\ No newline at end of file';
    expect(diff('-a', end, '+b', end).textContent).not.toContain(end);
    expect(diff(' a', '-b', '+c', ' d', end).textContent).not.toContain(end);
    expect(diff('-a', '+a', end).textContent).toContain(end);
  });

  it('shows hidden characters, also among marked words', () => {
    expect(diff('-a b', '+a\u202e b').textContent).toContain('a⟨U+202E⟩ b');
  });

  it('of very many lines is drawn without colours', () => {
    const lines = Array.from({ length: 200_000 }, (_, at) => `${at < 100_000 ? '-' : '+'}${at}`);
    const drawn = diff(lines.join('\n'));
    expect(drawn.textContent === `${lines.join('\n')}\n`).toBe(true);
    expect(drawn.querySelectorAll('span')).toHaveLength(0);
  });

  it('of long lines is drawn without a look at their words', () => {
    const long = 'a '.repeat(2_000);
    expect(texts(diff(`-${long}`, `+${long}b`), 'mark')).toEqual([]);
  });
});

describe('a proposal', () => {
  let decide: ReturnType<typeof vi.fn>;
  beforeEach(() => (decide = vi.fn()));

  const edit = (changes: Partial<Call> = {}, before = 'x = 1', asking?: string) => {
    const proposed = call('edit_cell', { cell: 2, source: 'x = 2' }, changes);
    return new ProposalView({ call: proposed, before, asking: asking ?? null }, decide);
  };
  const insert = (given: object) => {
    const proposed = call('insert_cell', given);
    return new ProposalView({ call: proposed, before: null, asking: null }, decide);
  };
  const find = ({ element }: ProposalView, name: string): HTMLInputElement =>
    element.querySelectorAll<HTMLInputElement>(`[data-ipyagent="${name}"]`)[0];

  it.each(['approve', 'always', 'deny'])('says %s, once, with the reason', decision => {
    const view = edit();
    find(view, 'reason').value = ' because ';
    find(view, decision).click();
    find(view, 'approve').click();
    expect(decide.mock.calls).toEqual([[{ decision, reason: 'because' }]]);
    expect(find(view, 'deny').disabled).toBe(true);
  });

  it('can be edited in its place', () => {
    const view = edit();
    find(view, 'edit').click();
    find(view, 'arguments').value = '{"cell": 2, "source": "x = 3"}';
    find(view, 'save').click();
    const changed = { cell: 2, source: 'x = 3' };
    expect(decide.mock.calls).toEqual([[{ decision: 'edit_call', arguments: changed }]]);
  });

  it('names its cell in every label', () => {
    const label = (element: Element) => element.getAttribute('aria-label');
    const view = edit({}, '\nx = 1\ny = 2');
    expect([...view.element.querySelectorAll('button')].map(label)).toEqual([
      'Approve: the change of the cell “x = 1”',
      'Always: the change of the cell “x = 1”',
      'Edit the change of the cell “x = 1”',
      'Deny: the change of the cell “x = 1”'
    ]);
    expect(label(edit({}, '').element)).toBe('the change of the cell without text');
    expect(label(insert({ source: 'plot()' }).element)).toBe('the new code cell “plot()”');
  });

  it('shows the preview of a change, or the source', () => {
    const text = '--- a\n+++ b\n@@ -1 +1 @@\n-x = 1\n+x = 2\n';
    const preview = { kind: 'diff' as const, language: 'diff', text, caption: 'changes' };
    const changed = edit({ request: request({ preview }) });
    expect(texts(changed.element, 'pre')).toEqual(['-x = 1\n+x = 2\n']);
    const added = insert({ source: '# <b>Title</b>\u200b', kind: 'markdown' });
    expect(texts(added.element, 'pre')).toEqual(['# <b>Title</b>⟨U+200B⟩']);
    expect(texts(added.element, 'p')[0]).toBe('The agent proposes a new markdown cell');
    expect(texts(insert({ source: '' }).element, 'p')[1]).toBe('It is empty.');
  });

  it('says why one is asked, and by which notebook if it is another one', () => {
    const view = edit({ concern: '⚠ after reading odd.txt' }, 'x = 1', 'b/other.ipynb');
    expect(texts(view.element, 'p').slice(0, 2)).toEqual([
      'The agent of b/other.ipynb proposes a change of this cell',
      '⚠ after reading odd.txt'
    ]);
  });

  it('says when the cell is no longer what was to be changed', () => {
    const view = edit();
    const note = view.element.querySelector<HTMLElement>('[role="status"]');
    expect(note?.hidden).toBe(true);
    view.update(true);
    expect(note?.hidden).toBe(false);
    view.update(false);
    expect(note?.hidden).toBe(true);
  });
});
