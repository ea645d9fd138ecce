import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { advance, LiveRun, NOTHING } from '../model';
import { planProgress, stepsBegun } from '../progress';
import type { Run } from '../protocol';
import { RunView } from '../view/run';
import { plan, PLAN_EVENTS, PLAN_RUN, RUN, runWith } from './story';

let decide: ReturnType<typeof vi.fn>;
let view: RunView;

const find = (name: string) => view.element.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
const all = (name: string) => [
  ...view.element.querySelectorAll<HTMLElement>(`[data-ipyagent="${name}"]`)
];
const press = (name: string, index = 0) => all(name)[index].click();
const areas = () => all('arguments') as HTMLTextAreaElement[];
const states = () => all('plan-step').map(step => step.dataset.state);
const draft = plan(2);

beforeEach(() => {
  decide = vi.fn();
  view = new RunView({ decide, stop: vi.fn() });
  document.body.replaceChildren(view.element);
});

afterEach(() => view.dispose());

describe('a plan that waits (P28)', () => {
  beforeEach(() => view.update(draft));

  it('shows its goal, its hash and every step with all of its arguments', () => {
    const text = view.element.textContent;
    expect(text).toContain('Why did revenue drop in Q3?Plan · 3 steps · hash 0a1b2c3d4e5f');
    expect(text).toContain('Look at the columns first.');
    expect(all('plan-step').map(step => step.querySelector('details')?.open)).toEqual([
      true,
      true,
      true
    ]);
    for (const { call } of PLAN_RUN.plan) {
      Object.values(call.arguments).forEach(value => expect(text).toContain(value));
    }
  });

  it('says in its attributes that it waits', () => {
    expect(view.element.dataset.state).toBe('waiting');
    expect(find('plan')?.dataset.state).toBe('waiting');
    expect(states()).toEqual(['pending', 'pending', 'pending']);
    expect(view.element.querySelector('header')?.textContent).toContain('step 0/3');
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
    const group = view.element.querySelector('.ipyagent-plan [role="group"]');
    expect(group?.getAttribute('aria-label')).toBe('May this plan run?');
    const order = [...(group?.querySelectorAll('button, input') ?? [])];
    expect(order.map(each => (each as HTMLElement).dataset.ipyagent)).toEqual([
      'approve',
      'edit',
      'deny',
      'reason'
    ]);
    expect(order.every(each => each.hasAttribute('aria-label'))).toBe(true);
  });

  it('is told when a decision came too late, also that it had been edited (P23)', () => {
    const at = '2025-03-01T09:30:00+00:00';
    view.update({ ...draft, planLate: { decision: 'edited', at } });
    const hours = new Date(at).toTimeString().slice(0, 5);
    expect(view.element.textContent).toContain(`Too late: already edited at ${hours}.`);
    view.update(advance({ ...draft, planLate: { decision: 'edited', at } }, PLAN_EVENTS[1]));
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
  it('has no buttons, and says how it is decided on', () => {
    const saved = new RunView(null);
    saved.update({ ...NOTHING, run: draft.run });
    expect(saved.element.querySelectorAll('button, input, textarea')).toHaveLength(0);
    expect(saved.element.textContent).toContain('%agent approve 0a1b2c3d4e5f');
    expect(saved.element.dataset.state).toBe('waiting');
    view.update({ ...draft, planApproval: null });
    expect(all('approve')).toHaveLength(0);
    expect(view.element.textContent).toContain('%agent deny 0a1b2c3d4e5f');
    const told = 'It waits: `%agent approve 0a1b2c3d4e5f` runs it.';
    view.update(advance({ ...draft, planApproval: null }, { type: 'notice', text: told }));
    expect(view.element.textContent.match(/%agent approve/g)).toHaveLength(1);
  });

  it('has told the model nothing until it runs', () => {
    const context = 'The person approved the plan.';
    const told = (run: Partial<Run>) => {
      view.update({ ...NOTHING, run: { ...PLAN_RUN, context, ...run } });
      return view.element.querySelector('.ipyagent-context')?.textContent;
    };
    expect(told({ status: 'draft' })).toBeUndefined();
    expect(told({ status: 'cancelled', stop_reason: 'denied' })).toBeUndefined();
    expect(told({})).toBe(`Told to the model${context}`);
  });

  it('has no buttons once it is approved or denied', () => {
    view.update(plan(3));
    expect(['approve', 'edit', 'deny', 'reason'].flatMap(all)).toEqual([]);
    const no = { status: 'cancelled', stop_reason: 'denied', error: null, duration: 1 } as const;
    view.update(advance(draft, { type: 'run_finished', ...no }));
    expect(['approve', 'edit', 'deny', 'reason'].flatMap(all)).toEqual([]);
    expect(view.element.textContent).toContain('You denied this plan: nothing was run.');
    view.update({ ...NOTHING, run: { ...PLAN_RUN, status: 'cancelled', stop_reason: 'denied' } });
    expect(view.element.textContent).not.toContain('You denied');
    view.update(advance(draft, { type: 'run_finished', ...no }));
    expect(view.element.textContent).toContain('not run');
  });
});

describe('editing a plan', () => {
  beforeEach(() => {
    view.update(draft);
    press('edit');
  });

  it('has the arguments of each step as JSON, and the cursor in the first', () => {
    expect(areas().map(area => JSON.parse(area.value) as unknown)).toEqual(
      PLAN_RUN.plan.map(({ call }) => call.arguments)
    );
    expect(document.activeElement).toBe(areas()[0]);
    expect(areas()[0].getAttribute('aria-label')).toBe('Arguments of read_file as JSON');
    expect(find('plan')?.hidden).toBe(true);
  });

  it('sends what was changed, moved and removed', () => {
    areas()[0].value = '{"path": "old.csv"}';
    press('down', 0);
    press('remove', 2);
    press('save');
    const [first, second] = PLAN_RUN.plan;
    const edited = ({ call, note }: typeof first, changed = call.arguments) => ({
      call: { id: call.id, name: call.name, arguments: changed },
      note
    });
    const steps = [edited(second), edited(first, { path: 'old.csv' })];
    expect(decide.mock.calls).toEqual([['a2', { decision: 'edit', plan: steps }]]);
    expect((find('approve') as HTMLButtonElement).disabled).toBe(true);
  });

  it.each(['', '{', '[1]', 'null', '"path"', '7'])(
    'says at the field that %j will not do',
    text => {
      areas()[1].value = text;
      press('save');
      expect(decide).not.toHaveBeenCalled();
      expect(areas()[1].getAttribute('aria-invalid')).toBe('true');
      expect(document.activeElement).toBe(areas()[1]);
      const alert = areas()[1].nextElementSibling;
      expect(alert?.getAttribute('role')).toBe('alert');
      expect(alert?.textContent).not.toBe('');
      areas()[1].value = '{}';
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
    expect(find('plan')?.hidden).toBe(false);
    expect((find('approve') as HTMLButtonElement).disabled).toBe(false);
  });

  it('goes on while other things happen, and ends when the plan is another', () => {
    areas()[0].value = 'half';
    view.update(advance(draft, { type: 'notice', text: 'meanwhile' }));
    expect(areas()[0].value).toBe('half');
    view.update({ ...draft, planApproval: 'a3' });
    expect(areas()).toHaveLength(0);
    expect(find('plan')?.hidden).toBe(false);
  });

  it('shows hidden characters as the escapes that JSON has for them', () => {
    const call = { ...PLAN_RUN.plan[0].call, arguments: { path: 'a\u202eb\u{e0041}' } };
    const run = { ...PLAN_RUN, status: 'draft', plan: [{ call, note: '' }] } as Run;
    view.update({ ...NOTHING, run, planApproval: 'a9' });
    press('edit');
    expect(areas()[0].value).toContain('a\\u202eb\\udb40\\udc41');
    expect(JSON.parse(areas()[0].value)).toEqual(call.arguments);
  });
});

describe('a plan that runs (P31)', () => {
  it('shows how far it is', () => {
    const seen: string[] = [];
    PLAN_EVENTS.reduce<LiveRun>((state, event) => {
      const next = advance(state, event);
      view.update(next);
      seen.push(states().join(' '));
      return next;
    }, NOTHING);
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
    expect(view.element.textContent).not.toContain('budget is spent');
  });

  it('counts steps of the plan, not tries', () => {
    expect(stepsBegun(PLAN_RUN)).toBe(3);
    view.update({ ...NOTHING, run: PLAN_RUN });
    const header = view.element.querySelector('header')?.textContent;
    expect(header).toContain('step 3/3');
    expect(header).not.toContain('closing');
  });

  it('is folded, and says what was not run', () => {
    const steps = PLAN_RUN.steps.slice(0, 2);
    view.update({ ...NOTHING, run: { ...PLAN_RUN, steps, status: 'error', error: 'step 2' } });
    expect(all('plan-step').map(step => step.querySelector('details')?.open)).toEqual([
      false,
      false,
      false
    ]);
    expect(all('plan-step').map(step => step.textContent.includes('not run'))).toEqual([
      false,
      false,
      true
    ]);
  });

  it('takes a call whose id is a step of its own for that step', () => {
    const ids = ['a', 'a.2', 'b.x'];
    const steps = ids.map(id => ({ note: '', call: { ...PLAN_RUN.plan[0].call, id } }));
    const ran = ['a.2', 'a.3', 'b.x.2', 'b', 'b.x.y'].map(id => ({
      ...RUN.steps[0].executions[0],
      call: { ...PLAN_RUN.plan[0].call, id }
    }));
    const run = { ...PLAN_RUN, plan: steps, steps: [{ ...RUN.steps[0], executions: ran }] };
    expect(planProgress(run)).toEqual(['success', 'success', 'success']);
    const one = { ...run, steps: [{ ...RUN.steps[0], executions: ran.slice(3) }] };
    expect(planProgress(one)).toEqual(['pending', 'pending', 'pending']);
  });

  it('never says that a model is asked', () => {
    view.update(plan(4));
    expect(view.element.querySelector<HTMLElement>('.ipyagent-asking')?.hidden).toBe(true);
  });
});

describe('a planning run', () => {
  it('says of its calls that they are planned', () => {
    const executions = [{ ...RUN.steps[0].executions[0], dry_run: true }];
    view.update(runWith({ executions }, { status: 'running', stop_reason: null }));
    expect(view.element.querySelector('.ipyagent-badge')?.textContent).toBe('dry run');
    view.update(runWith({ executions }, { status: 'done', stop_reason: 'planned' }));
    expect(view.element.querySelector('.ipyagent-badge')?.textContent).toBe('planned');
    expect(view.element.querySelector('header')?.textContent).toContain('planned');
  });
});
