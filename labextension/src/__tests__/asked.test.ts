import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Asked } from '../protocol';
import { Card } from '../view/card';
import { APPROVAL, asked, asking, formOf, MOMENTS, without } from './story';

let decide: ReturnType<typeof vi.fn>;
let view: Card;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
const names = () =>
  [...view.element.querySelectorAll<HTMLElement>('.ipyagent-approval [data-ipyagent]')].map(
    each => each.dataset.ipyagent
  );
const tool = () => view.element.querySelector<HTMLDetailsElement>('[data-tool="run_python"]');

beforeEach(() => {
  decide = vi.fn();
  view = new Card({ decide, send: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => view.dispose());

describe('an approval', () => {
  it('has a button for each way to decide, a reason, and what more than once covers', () => {
    view.update(asked({ approval: { ...APPROVAL, covers: 'Always covers it\u202e.' } }));
    expect(names()).toEqual(['approve', 'deny', 'reason', 'more-ways', 'always', 'folder']);
    expect(find('edit')?.closest('.ia-caption')).not.toBeNull();
    const menu = view.element.querySelector<HTMLDetailsElement>('.ipyagent-always');
    expect(menu?.open).toBe(false);
    expect([...(menu?.querySelectorAll('button') ?? [])].map(e => e.dataset.ipyagent)).toEqual([
      'always',
      'folder'
    ]);
    expect(find('always')?.textContent).toBe('Say always');
    expect(find('always')?.ariaLabel).toContain('Say always: run_python');
    const covers = view.element.querySelector('.ipyagent-covers');
    expect(covers?.textContent).toBe('Always covers it⟨U+202E⟩.');
    const group = view.element.querySelector('.ipyagent-approval');
    expect(group?.ariaLabel).toBe('May run_python run?');
    view.update(asked({ approval: { ...APPROVAL, id: 'a9' } }));
    expect(view.element.querySelector('.ipyagent-covers')).toBeNull();
    const choices = APPROVAL.choices.filter(({ answer }) => /approve|deny/.test(answer));
    view.update(asked({ approval: { ...APPROVAL, id: 'a10', choices } }));
    expect(view.element.querySelector('.ipyagent-always')).toBeNull();
  });

  it('stands in the card of its call, which the page can find by it', () => {
    view.update(asking('c2'));
    expect(view.element.querySelector('[data-approval=a2]')?.closest('.ia-tool')).toBe(tool());
    expect(tool()?.open).toBe(true);
    const buttons = [...(tool()?.querySelectorAll('button, input') ?? [])];
    expect(buttons.every(each => each.hasAttribute('aria-label'))).toBe(true);
  });

  it.each(['approve', 'always', 'folder', 'deny'])(
    'sends "%s" once, with the reason, however often pressed',
    name => {
      view.update(asked({ approval: APPROVAL }));
      (find('reason') as HTMLInputElement).value = ' because ';
      find(name)?.click();
      find(name)?.click();
      find('deny')?.dispatchEvent(new Event('click'));
      expect(decide.mock.calls).toEqual([['a2', { decision: name, reason: 'because' }]]);
      const buttons = ['approve', 'always', 'folder', 'deny'].map(find) as HTMLButtonElement[];
      expect(buttons.every(({ disabled }) => disabled)).toBe(true);
      expect(view.element.textContent).toContain('sent…');
    }
  );

  it('stays sent when the same state arrives again, and hands the keys on to its call', () => {
    view.update(asking('c2'));
    find('deny')?.focus();
    find('deny')?.click();
    expect(document.activeElement).toBe(tool()?.querySelector('summary'));
    view.update(structuredClone(asking('c2')));
    expect((find('approve') as HTMLButtonElement).disabled).toBe(true);
  });

  it('goes when it is decided, and its call closes', () => {
    const at = MOMENTS.findIndex(each => each.type === 'approval_decided' && each.call_id === 'c2');
    MOMENTS.slice(0, at + 1).forEach(({ messages }) => messages.forEach(one => view.update(one)));
    expect([tool()?.open, names()]).toEqual([false, []]);
  });

  it('that came too late is said, with what had been decided and when (P23)', () => {
    const at = '2025-03-01T09:30:00+00:00';
    const hours = new Date(at).toTimeString().slice(0, 5);
    view.update(asked({ approval: null, late: { decision: 'approved', at } }));
    expect(view.element.textContent).toContain(`Too late: already approved at ${hours}.`);
    expect(names()).toEqual([]);
    view.update(without(asking('c2'), 'r/s2/c0/a'));
    expect(view.element.textContent).not.toContain('Too late');
  });
});

describe('a call that waits', () => {
  const form = formOf(asking('c2'));
  const call = (given: object, code: string | null = null) => [
    { ...form.calls[0], arguments: { ...given }, code }
  ];
  const code = (text: string) => call({ code: text, limit: 3 }, 'code');
  const edit = (changes: Partial<Asked>, to?: string) => {
    view.update(asked(changes));
    find('edit')?.click();
    const changed = find('arguments') as HTMLTextAreaElement;
    const before = changed.value;
    changed.value = to ?? before;
    find('save')?.click();
    return before;
  };
  const edited = (given: object) => {
    const [{ id, name, note }] = form.calls;
    return { id, name, note, arguments: given };
  };
  const sent = () => decide.mock.calls.map(([, answer]) => answer as unknown);

  it('can be changed: its code as text', () => {
    expect(edit({ calls: code('x = 1') }, 'x = 2')).toBe('x = 1');
    expect(sent()).toEqual([{ decision: 'edit', calls: [edited({ code: 'x = 2', limit: 3 })] }]);
    expect((find('edit') as HTMLButtonElement).disabled).toBe(true);
  });

  it('can be changed as JSON where there is no code, or where code hides something', () => {
    const given = call({ path: 'a.txt' });
    expect(edit({ calls: given }, '{"path": "b.txt"}')).toBe('{\n  "path": "a.txt"\n}');
    expect(sent()).toEqual([{ decision: 'edit', calls: [edited({ path: 'b.txt' })] }]);
    const next = { ...APPROVAL, id: 'a9' };
    expect(edit({ approval: next, calls: code('x = "\u202e"') })).toContain('\\u202e');
  });

  it('is not sent as long as the JSON is wrong, and says why', () => {
    edit({ calls: call({ path: 'a.txt' }) }, '{"path": ');
    expect(sent()).toEqual([]);
    expect(view.element.querySelector('.ipyagent-editor .ipyagent-error')?.textContent).toContain(
      'not JSON'
    );
    expect(document.activeElement).toBe(find('arguments'));
  });

  it('stays as it is without a change; the buttons come back', () => {
    edit({ calls: code('x = 1') });
    expect([sent(), find('arguments')]).toEqual([[], null]);
    expect(find('approve')?.closest<HTMLElement>('[hidden]')).toBeNull();
    expect(document.activeElement).toBe(find('edit'));
  });

  it('loses its editor when another question takes its place', () => {
    view.update(asked({ calls: code('x = 1') }));
    find('edit')?.click();
    view.update(asked({ approval: { ...APPROVAL, id: 'a9' }, calls: code('y') }));
    expect(find('arguments')).toBeNull();
    expect(find('approve')?.closest<HTMLElement>('[hidden]')).toBeNull();
  });
});

describe('a question', () => {
  beforeEach(() => view.update(asking('c8')));

  const own = () => find('answer-field') as HTMLInputElement;

  it('is shown in full, with a button for each choice, a line and a way to decline', () => {
    const card = view.element.querySelector('[data-tool="ask_user"]');
    expect(card?.textContent).toContain('Which year counts as the year before?');
    expect(names()).toEqual(['choice', 'choice', 'answer-field', 'send', 'deny']);
    expect(find('deny')?.textContent).toBe('Decline');
    expect(card?.querySelector('[role="group"]')?.ariaLabel).toBe(
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
});
