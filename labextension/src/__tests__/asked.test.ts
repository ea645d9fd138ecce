import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { LiveRun, NOTHING } from '../model';
import type { ToolExecution } from '../protocol';
import { RunView } from '../view/run';
import { asking, RUN, runOf, runWith, saying } from './story';

let decide: ReturnType<typeof vi.fn>;
let view: RunView;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
const names = () =>
  [...view.element.querySelectorAll<HTMLElement>('.ipyagent-approval [data-ipyagent]')].map(
    each => each.dataset.ipyagent
  );
const waiting = (changes: Partial<ToolExecution>): LiveRun => {
  const plot = RUN.steps[1].executions[0];
  const state = runOf({ ...plot, result: null, status: 'awaiting_approval', ...changes });
  return { ...state, approvals: { c2: 'a2' } };
};

beforeEach(() => {
  decide = vi.fn();
  view = new RunView({ decide, stop: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => view.dispose());

describe('how far an approval may go', () => {
  it.each([
    [[], ['approve', 'deny', 'reason']],
    [['session'], ['approve', 'always', 'deny', 'reason']],
    [['folder'], ['approve', 'folder', 'deny', 'reason']],
    [
      ['session', 'folder'],
      ['approve', 'always', 'folder', 'deny', 'reason']
    ]
  ])('%j offers %j', (scopes, offered) => {
    view.update(waiting({ scopes: scopes as ToolExecution['scopes'] }));
    expect(names()).toEqual(offered);
  });
});

describe('why a person is asked', () => {
  it('stands right above the buttons, also when the call is folded', () => {
    view.update(waiting({}));
    const concern = view.element.querySelector('.ipyagent-concern');
    expect(concern?.textContent).toBe('⚠ after reading sales.csv');
    expect(concern?.closest('details')).toBeNull();
    const below = concern?.parentElement?.nextElementSibling;
    expect(below?.querySelector('[data-ipyagent="approve"]')).not.toBeNull();
  });

  it('is kept afterwards, once', () => {
    view.update({ ...NOTHING, run: RUN });
    expect(view.element.querySelectorAll('.ipyagent-concern')).toHaveLength(1);
    expect(view.element.querySelector('.ipyagent-body .ipyagent-concern')).not.toBeNull();
  });
});

describe('a question', () => {
  beforeEach(() => view.update(asking('c8')));

  const own = () => find('answer-field') as HTMLInputElement;

  it('is shown in full, with a button for each choice, a line and a way to decline', () => {
    const card = view.element.querySelector('[data-tool="ask_user"]');
    expect(card?.querySelector('.ipyagent-question')?.textContent).toBe(
      'Which year counts as the year before?'
    );
    expect(names()).toEqual(['choice', 'choice', 'answer-field', 'send', 'deny']);
    expect(find('deny')?.textContent).toBe('Decline');
    expect(card?.querySelector('[role="group"]')?.getAttribute('aria-label')).toBe(
      'Question: Which year counts as the year before?'
    );
  });

  it('is answered by a choice, once', () => {
    const choices = view.element.querySelectorAll<HTMLElement>('[data-ipyagent="choice"]');
    choices[1].click();
    choices[0].click();
    find('deny')?.click();
    expect(decide.mock.calls).toEqual([['a8', { decision: 'answer', text: '2024' }]]);
    expect(own().disabled).toBe(true);
  });

  it('is answered in words by Send and by Enter, but not by nothing', () => {
    const enter = (isComposing = false) =>
      own().dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing }));
    own().value = '  ';
    find('send')?.click();
    enter();
    own().value = 'both';
    enter(true);
    expect(decide).not.toHaveBeenCalled();
    enter();
    find('send')?.click();
    expect(decide.mock.calls).toEqual([['a8', { decision: 'answer', text: 'both' }]]);
  });

  it('can be declined', () => {
    find('deny')?.click();
    expect(decide.mock.calls).toEqual([['a8', { decision: 'deny', reason: '' }]]);
  });

  it('stays in the transcript with its choices and its answer', () => {
    const saved = new RunView(null);
    saved.update({ ...NOTHING, run: RUN });
    const card = saved.element.querySelector('[data-tool="ask_user"]');
    expect(card?.querySelector('summary')?.textContent).toContain(
      'Which year counts as the year before?→ 2024answered by you'
    );
    expect([...(card?.querySelectorAll('li') ?? [])].map(each => each.textContent)).toEqual([
      '2023',
      '2024'
    ]);
  });

  it('that nobody answered says so', () => {
    const declined = { decision: 'denied', decided_by: 'button', status: 'denied' } as const;
    const question = { text: 'Well?', choices: [] };
    view.update(runOf({ ...declined, question, result: null }));
    expect(view.element.textContent).toContain('declined by you');
    const saved = new RunView(null);
    saved.update(waiting({ question }));
    expect(saved.element.textContent).toContain('no answer recorded');
    expect(saved.element.querySelectorAll('button, input')).toHaveLength(0);
  });
});

describe('the checklist', () => {
  const written = (todos: unknown, changes: Partial<ToolExecution> = {}): ToolExecution => {
    const template = RUN.steps[0].executions[0];
    const call = { ...template.call, name: 'todo_write', arguments: { todos } };
    return { ...template, call, ...changes };
  };
  const items = () =>
    [...(find('todos')?.querySelectorAll('li') ?? [])].map(item => item.textContent);
  const one = [{ content: 'Look', status: 'completed' }, { content: 'Plot' }];

  it('has a sign for each task and says what is being done', () => {
    view.update({ ...NOTHING, run: RUN });
    expect(items()).toEqual(['☑Look at the data', '▶Plotting it', '☐Write it down']);
    expect(find('todos')?.getAttribute('aria-label')).toBe('Tasks');
  });

  it('stands below the steps while they go on, and above the answer in the end', () => {
    const running = { status: 'running', stop_reason: null } as const;
    const state = runWith({ ...saying('So it is.'), executions: [written(one)] }, running);
    view.update(state);
    expect(find('todos')?.previousElementSibling?.className).toBe('ipyagent-step');
    expect(find('todos')?.nextElementSibling).toBeNull();
    view.update({ ...NOTHING, run: RUN });
    expect(find('todos')?.nextElementSibling?.querySelector('.ipyagent-answer')).not.toBeNull();
  });

  it('is the newest that was written well', () => {
    const failed = written([{ content: 'No' }], { status: 'failed' });
    view.update(runWith({ executions: [written([{ content: 'Old' }]), written(one), failed] }));
    expect(items()).toEqual(['☑Look', '☐Plot']);
  });

  it.each([null, 'text', [null], [{ content: '' }], [{ content: 'a', status: 'odd' }], [7], {}])(
    'is not there for %j',
    todos => {
      view.update(runWith({ executions: [written(todos)] }));
      expect(find('todos')?.hidden).toBe(true);
      expect(items()).toEqual([]);
    }
  );

  it('is written by a call of one short line', () => {
    view.update({ ...NOTHING, run: RUN });
    const line = view.element.querySelector('[data-tool="todo_write"] summary');
    expect(line?.textContent).toBe('✓todo_write1 of 3 done');
  });
});
