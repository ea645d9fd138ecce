import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { SavedRun } from '../lab/outputs';
import { savedCard } from '../saved';
import { host, type Lab } from '../view/host';
import { savedOf, labWith } from './story';

const insertCells = vi.fn<Lab['insertCells']>();

function drawn(text: string, sources: string[] = [], changes: Partial<SavedRun> = {}) {
  const card = savedCard(...savedOf(text, sources, changes));
  document.body.replaceChildren(card);
  return (name: string) => [
    ...card.querySelectorAll<HTMLButtonElement>(`[data-ipyagent="${name}"]`)
  ];
}

beforeEach(() => {
  insertCells.mockReset().mockReturnValue(null);
  host.lab = labWith({ insertCells });
});

afterEach(() => {
  vi.useRealTimers();
  host.lab = null;
});

const inserted = () => insertCells.mock.calls.map(([, sources]) => sources);

describe('code of an answer', () => {
  const text =
    '```python\nx = 1\ny = 2\n```\n\n```bash\nls\n```\n\n```sql\nSELECT 1\n```\n\n```json\n{}\n```\n\n```\nz\n```\n';

  it('becomes a cell where a cell can run it', () => {
    const find = drawn(text);
    expect(find('copy')).toHaveLength(5);
    find('to-cell').forEach(button => button.click());
    expect(inserted()).toEqual([['x = 1\ny = 2'], ['%%bash\nls'], ['z']]);
  });

  it('says that it is there, or why not', async () => {
    vi.useFakeTimers();
    const [button] = drawn(text)('to-cell');
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(button.textContent).toBe('Inserted below');
    await vi.advanceTimersByTimeAsync(2_000);
    expect(button.textContent).toBe('To cell');
    insertCells.mockReturnValue('This notebook is read-only');
    button.click();
    await vi.advanceTimersByTimeAsync(0);
    expect(button.getAttribute('aria-label')).toBe('This notebook is read-only');
  });

  it('has buttons with names that hold their labels, for who speaks to them', () => {
    const find = drawn(text, ['x = 1']);
    const names = ['to-cell', 'copy', 'keep-cells'].map(name => find(name)[0].ariaLabel);
    expect(names).toEqual([
      'To cell: Insert this code as a cell below',
      'Copy this code',
      'Keep as cells: Insert the code that led to the results as plain cells below'
    ]);
  });

  it('has no such button where no notebook can be changed', () => {
    host.lab = null;
    const find = drawn(text, ['x = 1']);
    expect([...find('to-cell'), ...find('keep-cells')]).toEqual([]);
    expect(find('copy')).toHaveLength(5);
  });
});

describe('code that ran', () => {
  it('becomes a cell, and without a kernel a finished run keeps all that succeeded', async () => {
    const find = drawn('', ['a = 1', '', '%%bash\nls', 'b = 2']);
    find('to-cell').forEach(button => button.click());
    find('keep-cells').forEach(button => button.click());
    const all = ['a = 1', '%%bash\nls', 'b = 2'];
    const expected = [...all.map(each => [each]), all];
    await vi.waitFor(() => expect(inserted()).toEqual(expected));
    expect(find('keep-cells')[0].textContent).toBe('Inserted all code below');
  });

  it('is kept as the kernel freezes it, which nobody has tried', async () => {
    const cells = [
      { kind: 'code', source: 'a = 1' },
      { kind: 'markdown', source: 'It is 1.' }
    ] as const;
    host.lab = labWith({ insertCells, ask: vi.fn().mockResolvedValue({ cells }) });
    const [button] = drawn('', ['a = 1', 'a'])('keep-cells');
    button.click();
    await vi.waitFor(() => expect(button.textContent).toBe('Inserted below, unverified'));
    expect(inserted()).toEqual([cells]);
  });

  it('is kept as it ran where the kernel does not know the run', async () => {
    drawn('', ['a = 1'])('keep-cells')[0].click();
    await vi.waitFor(() => expect(inserted()).toEqual([['a = 1']]));
  });

  it('is no cell where the kernel does not say so', () => {
    const find = drawn('', ['', '']);
    expect([...find('to-cell'), ...find('keep-cells')]).toEqual([]);
  });

  it('of a run that an earlier version has saved is not offered', () => {
    const find = drawn('', ['x = 1'], { offers: undefined });
    expect([...find('to-cell'), ...find('keep-cells')]).toEqual([]);
  });

  it('is kept as a whole only when the run is over', () => {
    const find = drawn('', ['x = 1'], { status: 'running' });
    expect(find('to-cell')).toHaveLength(1);
    expect(find('keep-cells')).toEqual([]);
  });

  it('never comes from what is drawn: HTML that fits no run has no buttons', () => {
    const [html, run] = savedOf('', ['x = 1']);
    const forged = html.replace('<details', '<details class="ia-tool"></details><details');
    const card = savedCard(forged, run);
    expect(card.querySelectorAll('[data-ipyagent=to-cell]')).toHaveLength(0);
  });
});
