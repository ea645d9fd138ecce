import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { Call, Transcript } from '../protocol';
import { RunView } from '../view/run';
import { EFFECTS, PLOT, withCall } from './story';

const NOT_TRIED = { title: 'Not tried: no isolation', lines: [], shown_title: '', shown: null };

let view: RunView;

const waiting = (effects: Call['effects']): Transcript => {
  const choices = [{ answer: 'approve' as const, label: 'Approve' }];
  const approval = { id: 'a2', question: 'May it run?', choices, covers: '' };
  return withCall({ ...PLOT, result: null, status: 'awaiting_approval', effects, approval });
};
const shown = () => view.element.querySelector<HTMLElement>('[data-ipyagent=effects]');

beforeEach(() => {
  view = new RunView({ decide: vi.fn(), send: vi.fn() });
  document.body.replaceChildren(view.element);
});

describe('a look', () => {
  it('is a line that says so, with the same elements until its result is there', () => {
    const look: Call = { ...PLOT, result: null, facts: [], status: 'pending', verdict: 'looking…' };
    view.update(withCall(look));
    const tool = view.element.querySelector<HTMLElement>('[data-ipyagent=tool]');
    const line = tool?.querySelector('.ipyagent-line');
    expect(line?.textContent).toContain('looking…');
    expect(tool?.querySelector('button')).toBeNull();
    view.update(withCall({ ...look, status: 'success', verdict: 'looked' }));
    expect(view.element.querySelector('.ipyagent-line')).toBe(line);
    expect(line?.textContent).toContain('looked');
  });
});

describe('what a call would change', () => {
  it('fills in above the buttons, which stay as they were', () => {
    view.update(waiting(null));
    expect(shown()).toBeNull();
    const button = view.element.querySelector('[data-ipyagent=approve]');
    view.update(waiting(EFFECTS));
    expect(button).not.toBeNull();
    expect(view.element.querySelector('[data-ipyagent=approve]')).toBe(button);
    const rows = [...(shown()?.querySelectorAll('li') ?? [])].map(row => row.dataset.change);
    expect(rows).toEqual(['changed', 'created', 'other']);
    expect(shown()?.textContent).toContain('changed sales + ratio (float64)');
    expect(shown()?.textContent).toContain('connection⟨U+202E⟩');
  });

  it('has diffs and output behind folds', () => {
    view.update(waiting(EFFECTS));
    const folds = [...(shown()?.querySelectorAll('details') ?? [])];
    expect(folds.map(each => each.open)).toEqual([false, false]);
    expect(folds[0].textContent).toContain('+# Q3');
    expect(folds[1].textContent).toContain('North 84.2');
  });

  it('is a sentence where nothing could be tried', () => {
    view.update(waiting(NOT_TRIED));
    expect(shown()?.textContent).toBe('Not tried: no isolation');
  });
});
