import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { CellPlace, Choice, Proposal } from '../protocol';
import { ProposalView } from '../view/approval';
import { APPROVAL, askAbout } from './story';

const choice = (answer: Choice['answer'], label: string): Choice => ({ answer, label });
const choices = [choice('approve', 'Approve'), choice('always', 'Always'), choice('deny', 'Deny')];
const propose = (name: string, given: object, proposal: Proposal, change = '') => {
  const asked = askAbout(name, given, { approval: { ...APPROVAL, choices } });
  const about = { approval_id: 'a2', run_id: 'r1', cell_id: null, about: name };
  return [{ ...about, asked, change, proposal }, proposal] as const;
};
const proposal = (side: CellPlace['side'], title: string, about: string): Proposal => ({
  place: { cell_id: 'c2', side, kind: 'code', path: null },
  title,
  about
});
const texts = (of: HTMLElement, selector: string) =>
  [...of.querySelectorAll(selector)].map(each => each.textContent);

describe('a proposal', () => {
  let decide: ReturnType<typeof vi.fn>;
  beforeEach(() => (decide = vi.fn()));

  const edit = (change = '', asking: string | null = null) => {
    const changed = proposal('changed', 'a change of this cell', 'the change of cell [3]');
    const proposed = propose('edit_cell', { cell: 2, source: 'x = 2' }, changed, change);
    return new ProposalView(...proposed, asking, decide, null);
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
    expect(decide.mock.calls).toEqual([
      [{ decision: 'edit', calls: [{ id: 'c1', name: 'edit_cell', note: '', arguments: changed }] }]
    ]);
  });

  it('names its cell in every label', () => {
    const label = (element: Element) => element.getAttribute('aria-label');
    const { element } = edit();
    expect([element, ...element.querySelectorAll('button')].map(label)).toEqual([
      'the change of cell [3]',
      'Approve: the change of cell [3]',
      'Deny: the change of cell [3]',
      'Edit the change of cell [3]',
      'Always: the change of cell [3]'
    ]);
  });

  it('shows the change as the kernel draws it, and nothing else that it says', () => {
    const change = '<pre><code>-x = 1\n+x = 2\n</code></pre><button id="x">y</button>';
    const { element } = edit(`${change}<p class="ia-concern">⚠ after reading odd.txt</p>`);
    expect(texts(element, 'pre')).toEqual(['-x = 1\n+x = 2\n']);
    expect(texts(element, '.ia-concern')[0]).toBe('⚠ after reading odd.txt');
    expect(element.querySelector('#x')).toBeNull();
  });

  it('says what is proposed, and by which notebook if it is another one', () => {
    const title = ({ element }: ProposalView) => texts(element, 'p')[0];
    expect(title(edit('', 'b/other.ipynb'))).toBe(
      'The agent of b/other.ipynb proposes a change of this cell'
    );
    const made = proposal('after', 'a new markdown cell', 'the new markdown cell, …');
    const given = propose('insert_cell', { source: '# Title', kind: 'markdown' }, made);
    expect(title(new ProposalView(...given, null, decide, null))).toBe(
      'The agent proposes a new markdown cell'
    );
  });

  it('says when the cell is no longer what was to be changed', () => {
    const view = edit();
    const note = view.element.querySelector<HTMLElement>('.ia-concern[role=status]');
    expect(note?.hidden).toBe(true);
    view.update(true);
    expect(note?.hidden).toBe(false);
    view.update(false);
    expect(note?.hidden).toBe(true);
  });
});
