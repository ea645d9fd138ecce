import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Approval, Call, Choice, Todo, Transcript } from '../protocol';
import { RunView } from '../view/run';
import { asking, PLOT, request, TRANSCRIPT, withCall, withStep } from './story';

let decide: ReturnType<typeof vi.fn>;
let view: RunView;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
const names = () =>
  [...view.element.querySelectorAll<HTMLElement>('.ipyagent-approval [data-ipyagent]')].map(
    each => each.dataset.ipyagent
  );
const waiting = (changes: Partial<Call>): Transcript =>
  withCall({ ...PLOT, result: null, status: 'awaiting_approval', ...changes });

beforeEach(() => {
  decide = vi.fn();
  view = new RunView({ decide, send: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => view.dispose());

describe('an approval', () => {
  const choice = (answer: Choice['answer']): Choice => ({ answer, label: `Say ${answer}` });
  const approval: Approval = {
    id: 'a2',
    question: 'May it run?',
    choices: [choice('approve'), choice('always'), choice('deny')],
    covers: 'Always covers it\u202e.'
  };

  it('has a button for each way to decide, a reason, and what more than once covers', () => {
    view.update(waiting({ approval }));
    expect(names()).toEqual(['approve', 'always', 'edit', 'deny', 'reason']);
    expect(find('always')?.textContent).toBe('Say always');
    expect(find('always')?.getAttribute('aria-label')).toContain('Say always: run_python');
    expect(view.element.querySelector('.ipyagent-covers')?.textContent).toBe(
      'Always covers it⟨U+202E⟩.'
    );
    const group = view.element.querySelector('.ipyagent-approval');
    expect(group?.getAttribute('aria-label')).toBe('May it run?');
  });

  it('has no line about more than once where there is nothing to say', () => {
    view.update(waiting({ approval: { ...approval, covers: '' } }));
    expect(view.element.querySelector('.ipyagent-covers')).toBeNull();
  });

  it('unfolds the call when it comes to a card that was drawn before, as it was saved', () => {
    view.update(waiting({ approval: null, is_open: false }));
    const details = view.element.querySelector<HTMLDetailsElement>('.ipyagent-tool-details');
    expect(details?.open).toBe(false);
    view.update(waiting({ approval, is_open: true }));
    expect(details?.open).toBe(true);
  });
});

describe('a call that waits', () => {
  const { approval } = asking('c2').steps[1].calls[0];
  const code = (text: string) =>
    request({
      arguments: { code: text, limit: 3 },
      preview: { kind: 'code', text, language: 'python', caption: 'python' }
    });
  const edit = (call: Partial<Call>, to?: string) => {
    view.update(waiting({ approval, ...call }));
    find('edit')?.click();
    const changed = find('arguments') as HTMLTextAreaElement;
    const before = changed.value;
    changed.value = to ?? before;
    find('save')?.click();
    return before;
  };
  const sent = () => decide.mock.calls.map(([, answer]) => answer as unknown);

  it('can be changed: its code as text', () => {
    expect(edit({ request: code('x = 1') }, 'x = 2')).toBe('x = 1');
    expect(sent()).toEqual([{ decision: 'edit_call', arguments: { code: 'x = 2', limit: 3 } }]);
  });

  it('can be changed as JSON where there is no code, or where code hides something', () => {
    const given = request({ arguments: { path: 'a.txt' } });
    expect(edit({ request: given }, '{"path": "b.txt"}')).toBe('{\n  "path": "a.txt"\n}');
    expect(sent()).toEqual([{ decision: 'edit_call', arguments: { path: 'b.txt' } }]);
    const next = approval && { ...approval, id: 'a9' };
    expect(edit({ approval: next, request: code('x = "\u202e"') })).toContain('\\u202e');
  });

  it('is not sent as long as the JSON is wrong, and says why', () => {
    edit({ request: request({ arguments: { path: 'a.txt' } }) }, '{"path": ');
    expect(sent()).toEqual([]);
    expect(view.element.querySelector('.ipyagent-editor .ipyagent-error')?.textContent).toContain(
      'not JSON'
    );
    expect(document.activeElement).toBe(find('arguments'));
  });

  it('stays as it is without a change; the buttons come back', () => {
    edit({ request: code('x = 1') });
    expect([sent(), find('arguments')]).toEqual([[], null]);
    expect(find('approve')?.closest<HTMLElement>('[hidden]')).toBeNull();
    expect(document.activeElement).toBe(find('edit'));
  });

  it('loses its editor when another question takes its place', () => {
    view.update(waiting({ approval, request: code('x = 1') }));
    find('edit')?.click();
    view.update(waiting({ approval: approval && { ...approval, id: 'a9' }, request: code('y') }));
    expect(find('arguments')).toBeNull();
    expect(find('approve')?.closest<HTMLElement>('[hidden]')).toBeNull();
  });
});

describe('why a user is asked', () => {
  const approval = asking('c2').steps[1].calls[0].approval;

  it('stands right above the buttons, also when the call is folded', () => {
    view.update(waiting({ approval, concern: '⚠ this conversation has read sales.csv' }));
    const concern = view.element.querySelector('.ipyagent-concern');
    expect(concern?.textContent).toBe('⚠ this conversation has read sales.csv');
    expect(concern?.closest('details')).toBeNull();
    const below = concern?.parentElement?.nextElementSibling;
    expect(below?.querySelector('[data-ipyagent="approve"]')).not.toBeNull();
  });

  it('is kept afterwards, once, behind the line', () => {
    view.update(TRANSCRIPT);
    expect(view.element.querySelectorAll('.ipyagent-concern')).toHaveLength(1);
    const kept = view.element.querySelector('.ipyagent-body .ipyagent-concern');
    expect(kept?.textContent).toBe('⚠ this conversation has read sales.csv');
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
    view.update(TRANSCRIPT);
    const card = view.element.querySelector('[data-tool="ask_user"]');
    expect(card?.querySelector('summary')?.textContent).toContain(
      'Which year counts as the year before?→ 2024answered by you'
    );
    expect([...(card?.querySelectorAll('li') ?? [])].map(each => each.textContent)).toEqual([
      '2023',
      '2024'
    ]);
  });
});

describe('the checklist', () => {
  const items = () =>
    [...(find('todos')?.querySelectorAll('li') ?? [])].map(item => item.textContent);
  const look: Todo = { status: 'completed', glyph: '☑', status_text: 'done', text: 'Look\u202e' };

  it('has a sign and a text for each task', () => {
    view.update(TRANSCRIPT);
    expect(items()).toEqual(['☑Look at the data', '▶Plotting it', '☐Write it down']);
    expect(find('todos')?.getAttribute('aria-label')).toBe('Tasks');
    view.update({ ...TRANSCRIPT, todos: [look] });
    expect(items()).toEqual(['☑Look⟨U+202E⟩']);
    expect(find('todos')?.querySelector('[role=img]')?.getAttribute('aria-label')).toBe('done');
  });

  it('stands where the transcript says: below the steps, or above the answer', () => {
    view.update(withStep({ text: 'So it is.' }, { todos: [look], todos_at: 1 }));
    expect(find('todos')?.previousElementSibling?.className).toBe('ipyagent-part');
    expect(find('todos')?.nextElementSibling).toBeNull();
    view.update(TRANSCRIPT);
    expect(find('todos')?.nextElementSibling?.querySelector('.ipyagent-answer')).not.toBeNull();
  });

  it('is not seen while there is none', () => {
    view.update({ ...TRANSCRIPT, todos: [] });
    expect(find('todos')?.hidden).toBe(true);
    expect(items()).toEqual([]);
  });
});
