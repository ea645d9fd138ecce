import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Asked } from '../protocol';
import { Card } from '../view/card';
import { formOf, plan, PLAN_MOMENTS, PLAN_SNAPSHOT, withBlock, without } from './story';

let decide: ReturnType<typeof vi.fn>;
let view: Card;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
const all = (name: string) => [
  ...view.element.querySelectorAll<HTMLElement>(`[data-ipyagent="${name}"]`)
];
const press = (name: string, index = 0) => all(name)[index].click();
const areas = () => all('arguments') as HTMLTextAreaElement[];
const states = () => all('plan-step').map(step => step.dataset.state);
const draft = plan(2);
const FORM = 'r/p/a';
const { calls: PLANNED, approval } = formOf(draft, FORM);
const withForm = (changes: Partial<Asked>) =>
  withBlock(draft, { key: FORM, own: { ...formOf(draft, FORM), ...changes } });
const root = () => find('run') ?? view.element;

beforeEach(() => {
  decide = vi.fn();
  view = new Card({ decide, send: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => view.dispose());

it('says how to decide on a plan whose kernel is gone, and offers nothing that needs it', () => {
  view.update(draft);
  const buttons = () => [...view.element.querySelectorAll('button')].map(each => each.textContent);
  expect(buttons()).toContain('■ Stop');
  view.cutOff(draft.gone);
  expect(buttons()).toEqual([]);
  expect(view.element.querySelector('.ipyagent-clock')).toBeNull();
  expect(root().dataset.state).toBe('waiting');
  expect(view.element.textContent).toContain('This plan waits for %agent approve');
});

it('is no draft any more once it runs', () => {
  PLAN_MOMENTS.slice(0, 8).forEach(({ messages }) => messages.forEach(one => view.update(one)));
  view.cutOff(draft.gone);
  expect(root().dataset.state).toBe('failed');
});

describe('a plan that waits (P28)', () => {
  beforeEach(() => view.update(draft));

  it('shows its goal, its hash and every step with all of its arguments', () => {
    const text = view.element.textContent;
    expect(text).toContain('Why did revenue drop in Q3? Plan · 3 steps · hash 0a1b2c3d4e5f');
    expect(text).toContain('Look at the columns first.');
    expect(all('plan-step').map(step => step.querySelector('details')?.open)).toEqual([
      true,
      true,
      true
    ]);
    for (const { arguments: given } of PLANNED) {
      const lines = Object.values(given).flatMap(each => String(each).split('\n'));
      lines.forEach(line => expect(text).toContain(line));
    }
  });

  it('shows what a step would change once that is known, beside buttons that stay', () => {
    const button = find('approve');
    const { html = '' } = draft.set.find(({ key }) => key === 'r/p') ?? {};
    const effects = '<div class="ia-effects"><p>It would change:</p></div>';
    const [before, ...steps] = html.split('<blockquote class="ia-body">');
    const [first, second, ...rest] = steps.map(each => `<blockquote class="ia-body">${each}`);
    const changed = second.replace('>', `>${effects}`);
    view.update(withBlock(draft, { key: 'r/p', html: [before, first, changed, ...rest].join('') }));
    expect(find('approve')).toBe(button);
    expect(all('effects').map(each => each.textContent)).toEqual(['It would change:']);
    expect(all('plan-step')[1].contains(find('effects'))).toBe(true);
  });

  it('folds its steps once the calls that were carried out stand below, not before', () => {
    const fold = view.element.querySelector<HTMLDetailsElement>('.ia-plan');
    expect(fold?.open).toBe(true);
    view.update(PLAN_SNAPSHOT);
    expect(fold?.open).toBe(false);
    fold?.setAttribute('open', '');
    view.update({ ...PLAN_SNAPSHOT });
    expect(fold?.open).toBe(true);
  });

  it('says in its attributes that it waits', () => {
    expect(root().dataset.state).toBe('waiting');
    expect(find('plan')?.dataset.state).toBe('waiting');
    expect(states()).toEqual(['pending', 'pending', 'pending']);
  });

  it.each(['approve', 'deny'] as const)('sends "%s" once, with the reason (P05)', decision => {
    (find('reason') as HTMLInputElement).value = ' so be it ';
    press(decision);
    press(decision);
    press('approve');
    expect(decide.mock.calls).toEqual([['a2', { decision, reason: 'so be it' }]]);
    const buttons = ['approve', 'edit', 'deny'].map(name => find(name) as HTMLButtonElement);
    expect(buttons.every(button => button.disabled && button.tagName === 'BUTTON')).toBe(true);
  });

  it('can be reached and understood without a mouse and without eyes', () => {
    const group = view.element.querySelector('.ia-plan .ipyagent-approval');
    expect(group?.getAttribute('aria-label')).toBe('May this plan run?');
    const order = [...(group?.querySelectorAll('button, input') ?? [])];
    expect(order.map(each => (each as HTMLElement).dataset.ipyagent)).toEqual([
      'approve',
      'deny',
      'reason',
      'edit'
    ]);
    expect(order.every(each => each.hasAttribute('aria-label'))).toBe(true);
  });

  it('is told when a decision came too late, also that it had been edited (P23)', () => {
    const at = '2025-03-01T09:30:00+00:00';
    view.update(withForm({ late: { decision: 'edited', at } }));
    const hours = new Date(at).toTimeString().slice(0, 5);
    expect(view.element.textContent).toContain(`Too late: already edited at ${hours}.`);
    view.update(draft);
    expect(view.element.textContent).not.toContain('Too late');
  });

  it('has new buttons when it is proposed anew', () => {
    view.update(plan(1));
    press('approve');
    expect((find('approve') as HTMLButtonElement).disabled).toBe(true);
    view.update(draft);
    expect((find('approve') as HTMLButtonElement).disabled).toBe(false);
    expect(all('plan-step')).toHaveLength(3);
  });
});

describe('a plan that cannot be decided on here (P41)', () => {
  it('has no buttons', () => {
    view.update(without(draft, FORM));
    expect(view.element.querySelectorAll('.ia-plan :is(button, input)')).toHaveLength(0);
    expect(root().dataset.state).toBe('waiting');
    view.update(draft);
    expect(all('approve')).toHaveLength(1);
    view.update(plan(3));
    expect(['approve', 'edit', 'deny', 'reason'].flatMap(all)).toEqual([]);
  });
});

describe('editing a plan', () => {
  beforeEach(() => {
    view.update(draft);
    press('edit');
  });

  it('has the code of a step as text, other arguments as JSON, and the cursor in the first', () => {
    const fields = areas().map(area => [area.getAttribute('aria-label'), area.value]);
    expect(fields).toEqual(
      PLANNED.map(({ name, arguments: given }) =>
        name === 'run_python'
          ? ['Code of run_python', given.code]
          : [`Arguments as JSON of ${name}`, JSON.stringify(given, null, 2)]
      )
    );
    expect(document.activeElement).toBe(areas()[0]);
  });

  it('sends code that was changed, under its name', () => {
    const at = PLANNED.findIndex(({ name }) => name === 'run_python');
    areas()[at].value = 'x = "\\n"\ny = 1';
    press('save');
    const [[, answer]] = decide.mock.calls as [[string, { calls: object[] }]];
    expect(answer.calls[at]).toMatchObject({ arguments: { code: 'x = "\\n"\ny = 1' } });
  });

  it('sends what was changed, moved and removed', () => {
    areas()[0].value = '{"path": "old.csv"}';
    press('down', 0);
    press('remove', 2);
    press('save');
    const [first, second] = PLANNED;
    const edited = ({ id, name, note, ...step }: typeof first, changed = step.arguments) => {
      return { id, name, note, arguments: changed };
    };
    const steps = [edited(second), edited(first, { path: 'old.csv' })];
    expect(decide.mock.calls).toEqual([['a2', { decision: 'edit', calls: steps }]]);
    expect((find('approve') as HTMLButtonElement).disabled).toBe(true);
  });

  it.each(['', '{', '[1]', 'null', '"path"', '7'])(
    'says at the field that %j will not do',
    text => {
      areas()[0].value = text;
      press('save');
      expect(decide).not.toHaveBeenCalled();
      expect(areas()[0].getAttribute('aria-invalid')).toBe('true');
      expect(document.activeElement).toBe(areas()[0]);
      const alert = areas()[0].nextElementSibling;
      expect(alert?.getAttribute('role')).toBe('alert');
      expect(alert?.textContent).not.toBe('');
      areas()[0].value = '{}';
      press('save');
      expect(decide).toHaveBeenCalledTimes(1);
    }
  );

  it('keeps one step, and the ends where they are', () => {
    const isOff = (name: string) => all(name).map(each => (each as HTMLButtonElement).disabled);
    expect([isOff('up'), isOff('down')]).toEqual([
      [true, false, false],
      [false, false, true]
    ]);
    press('remove', 0);
    expect(document.activeElement).toBe(areas()[0]);
    press('remove', 0);
    expect(isOff('remove')).toEqual([true]);
  });

  it('that changes nothing sends nothing', () => {
    press('down', 0);
    press('up', 1);
    press('save');
    expect(decide).not.toHaveBeenCalled();
    expect(document.activeElement).toBe(find('edit'));
    press('edit');
    areas()[0].value = '{"path": "other"}';
    press('cancel-edit');
    expect(decide).not.toHaveBeenCalled();
    expect((find('approve') as HTMLButtonElement).disabled).toBe(false);
  });

  it('goes on while other things happen, and ends when the plan is another', () => {
    areas()[0].value = 'half';
    view.update(withBlock(draft, { key: 'r/n', html: '<div>meanwhile</div>' }));
    expect(areas()[0].value).toBe('half');
    view.update(withForm({ approval: approval && { ...approval, id: 'a3' } }));
    expect(areas()).toHaveLength(0);
  });

  it('shows hidden characters as the escapes that JSON has for them', () => {
    const [first] = PLANNED;
    const given = { path: 'a\u202eb\u{e0041}' };
    const calls = [{ ...first, arguments: given }];
    view.update(withForm({ calls, approval: approval && { ...approval, id: 'a9' } }));
    press('edit');
    expect(areas()[0].value).toContain('a\\u202eb\\udb40\\udc41');
    expect(JSON.parse(areas()[0].value)).toEqual(given);
  });
});

describe('a plan that runs (P31)', () => {
  it('shows how far it is', () => {
    const seen: string[] = [];
    PLAN_MOMENTS.forEach(({ messages }) => {
      messages.forEach(one => view.update(one));
      seen.push(states().join(' '));
      expect(view.element.textContent).not.toContain('Asking the model');
    });
    expect(seen.filter((text, i) => text !== seen[i - 1])).toEqual([
      'pending pending',
      'pending pending pending',
      'running pending pending',
      'success pending pending',
      'success running pending',
      'success failed pending',
      'success pending pending',
      'success running pending',
      'success success pending',
      'success success running',
      'success success success'
    ]);
    expect(find('plan')?.dataset.state).toBe('done');
    expect(find('answer')?.textContent.trim()).toBe('3 of 3 steps done.');
  });

  it('is folded', () => {
    view.update(PLAN_SNAPSHOT);
    const folds = all('plan-step').map(step => step.querySelector('details')?.open);
    expect(folds).toEqual([false, false, false]);
  });
});
