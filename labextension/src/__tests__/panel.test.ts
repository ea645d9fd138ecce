import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { PanelState } from '../lab/panel';
import { PanelView } from '../lab/panelView';
import type { Asked, Overview, PendingApproval, RunLine } from '../protocol';
import { askAbout, APPROVAL, callHtml, formOf, plan } from './story';

const NONE: Overview = {
  model: 'offline/explorer',
  sessions: [],
  runs: [],
  approvals: [],
  waiting: null,
  plan: [],
  todos: [],
  done: '',
  variables: [],
  usage: [],
  status: 'ipyagent: no runs yet'
};
const DONE: RunLine = {
  id: 'r1',
  cell_id: 'cell-1',
  number: 1,
  live: false,
  prompt: '\n  Plot <b>it</b>\nby region',
  title: 'Plot <b>it</b>',
  state: 'done',
  glyph: '✓',
  state_text: 'done',
  taken_back: [],
  facts: ['done', 'anthropic/claude', '1,204 tok', '$0.006', '3.20 s'],
  steps: 2,
  started_at: '2026-03-01T12:00:00+00:00',
  duration: 3.2
};
const LIVE: RunLine = {
  ...DONE,
  id: 'r2',
  cell_id: 'cell-2',
  live: true,
  state: 'running',
  glyph: '▶',
  state_text: 'running',
  taken_back: [],
  facts: ['running', 'anthropic/claude'],
  duration: null
};
const SESSION = { id: 's1', name: 'sales', current: false, ended: false, at: DONE.started_at };

const actions = {
  decide: vi.fn(),
  stop: vi.fn(),
  jump: vi.fn(),
  resume: vi.fn(),
  chooseModel: vi.fn(),
  add: vi.fn(),
  ask: vi.fn(),
  insertExample: vi.fn(),
  notify: vi.fn()
};
let view: PanelView;

const asking = (approvalId: string, changes: Partial<PendingApproval> = {}): PendingApproval => ({
  approval_id: approvalId,
  run_id: 'r2',
  cell_id: 'cell-2',
  about: 'run_python',
  html: callHtml('x = 1'),
  asked: askAbout('run_python', { code: 'x = 1' }, { approval: { ...APPROVAL, id: approvalId } }),
  change: '',
  ...changes
});
const draft = plan(2);
const planned = (id: string, changes: Partial<Asked> = {}) => {
  const asked = formOf(draft, 'r/p/a');
  const approval = asked.approval && { ...asked.approval, id };
  const { html = '' } = draft.set.find(({ key }) => key === 'r/p') ?? {};
  return { about: 'a plan', html, asked: { ...asked, approval, ...changes } };
};
const show = (overview: Partial<Overview> | null, changes: Partial<PanelState> = {}): void =>
  view.update({
    notebook: 'sales.ipynb',
    overview: overview && { ...NONE, ...overview },
    isReachable: true,
    cells: new Set(['cell-1', 'cell-2']),
    prompts: null,
    canAdd: false,
    canNotify: false,
    ...changes
  });
const all = (name: string): HTMLElement[] => [
  ...view.element.querySelectorAll<HTMLElement>(`[data-ipyagent="${name}"]`)
];
const find = (name: string, within: Element = view.element): HTMLElement => {
  const found = within.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
  if (found === null) {
    throw new Error(`there is no ${name}`);
  }
  return found;
};
const isShown = (name: string): boolean => !find(`panel-${name}`).hidden;

beforeEach(() => {
  vi.clearAllMocks();
  view = new PanelView(actions);
  document.body.replaceChildren(view.element);
});

describe('a newcomer', () => {
  const said = (): string => view.element.querySelector('.ipyagent-panel-empty')?.textContent ?? '';

  it('without a notebook is told to open one', () => {
    show(null, { notebook: null });
    expect(said()).toContain('Open a notebook');
  });

  it('without an agent is told how to begin, with a button where there is its command', () => {
    show(null);
    expect(said()).toContain('%load_ext ipyagent');
    expect(all('add-cell')).toHaveLength(0);
    show(null, { canAdd: true });
    find('add-cell').click();
    expect(actions.add).toHaveBeenCalledOnce();
  });

  it('with an agent and no runs is told how to ask', () => {
    show({});
    expect(said()).toContain('%%agent');
    expect(isShown('approvals')).toBe(true);
    for (const name of ['runs', 'plan', 'variables', 'sessions']) {
      expect(isShown(name), name).toBe(false);
    }
  });

  it('has prompts to try that fit the data, each a click', () => {
    show({}, { prompts: ['Profile `sales`', 'Plot <b>'] });
    expect(all('request').map(each => each.textContent)).toEqual(['Profile sales', 'Plot <b>']);
    all('request')[0].click();
    expect(actions.ask).toHaveBeenCalledWith('Profile `sales`');
    show({ runs: [DONE] }, { prompts: ['Profile `sales`'] });
    expect(all('request')).toHaveLength(0);
  });

  it('without data is told so, and can insert an example', () => {
    show({}, { prompts: [] });
    expect(said()).toContain('no variables and no files');
    find('example').click();
    expect(actions.insertExample).toHaveBeenCalledOnce();
  });

  it('is not told any more when there is a run', () => {
    show({ runs: [DONE] });
    expect(view.element.querySelector<HTMLElement>('.ipyagent-panel-empty')?.hidden).toBe(true);
  });
});

describe('what waits', () => {
  const reason = (): HTMLInputElement => find('reason') as HTMLInputElement;

  it('is drawn whole, as in the card, and decided by the same approval', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    const card = find('panel-approval');
    expect(card.querySelector('[data-ipyagent="tool"]')?.textContent).toContain('run_python');
    expect(card.getAttribute('aria-label')).toBe('Waiting for you: run_python');
    reason().value = 'go';
    find('approve', card).click();
    const answer = { decision: 'approve', reason: 'go' };
    expect(actions.decide.mock.calls).toEqual([[asking('a1'), 'a1', answer]]);
  });

  it('keeps what is typed, and the cursor, while others come and go', () => {
    show({ runs: [LIVE], approvals: [asking('a1'), asking('a2')] });
    const field = find('reason', all('panel-approval')[1]) as HTMLInputElement;
    field.value = 'because';
    field.focus();
    show({ runs: [{ ...LIVE, facts: ['9 tok'] }], approvals: [asking('a2'), asking('a3')] });
    expect(document.activeElement).toBe(field);
    expect(reason()).toBe(field);
    expect(field.value).toBe('because');
    expect(all('panel-approval')).toHaveLength(2);
  });

  it('of another kernel is another one, though it has the same number', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    reason().value = 'because';
    show({ runs: [DONE], approvals: [asking('a1', { run_id: 'r1' })] });
    expect(reason().value).toBe('');
  });

  it('gives the focus to the heading when it goes', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    find('approve').focus();
    show({ runs: [LIVE] });
    expect(document.activeElement?.tagName).toBe('SUMMARY');
    expect(find('panel-approvals').textContent).toContain('Nothing waits for you');
  });

  it('keeps the focus while what was pressed is on its way', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    find('approve').focus();
    find('approve').click();
    expect(find('panel-approval').contains(document.activeElement)).toBe(true);
    show({ runs: [LIVE] });
    expect(document.activeElement?.parentElement?.parentElement).toBe(find('panel-approvals'));
  });

  it('vanishes when the kernel is gone, and when it cannot be reached', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    show({ runs: [LIVE], approvals: [asking('a1')] }, { isReachable: false });
    expect(all('panel-approval')).toHaveLength(0);
    expect(find('panel-approvals').textContent).toContain('cannot be reached');
    show({ runs: [LIVE], approvals: [asking('a1')] });
    expect(all('panel-approval')).toHaveLength(1);
    show(null);
    expect(all('panel-approval')).toHaveLength(0);
    expect(isShown('approvals')).toBe(false);
  });

  it('may be a question', () => {
    const question = { text: 'Which year?', choices: ['2024'] };
    const asked = { ...asking('a1').asked, question };
    show({ runs: [LIVE], approvals: [asking('a1', { about: 'a question', asked })] });
    expect(find('panel-approval').getAttribute('aria-label')).toBe('Waiting for you: a question');
    find('choice').click();
    const answer = { decision: 'answer', text: '2024' };
    expect(actions.decide).toHaveBeenCalledWith(expect.anything(), 'a1', answer);
  });

  it('may be a plan that a cell asks about', () => {
    show({ runs: [LIVE], approvals: [asking('a1', planned('a1'))] });
    expect(find('panel-approval').getAttribute('aria-label')).toBe('Waiting for you: a plan');
    expect(all('plan-step')).toHaveLength(3);
    find('deny').click();
    const answer = { decision: 'deny', reason: '' };
    expect(actions.decide).toHaveBeenCalledWith(expect.anything(), 'a1', answer);
  });

  it('may be a plan that no cell asks about', () => {
    const about = { run_id: 'plan', approval_id: '', cell_id: 'cell-1' };
    const waiting = asking('', { ...about, ...planned('', { calls: [] }) });
    show({ waiting });
    expect(all('plan-step')).toHaveLength(3);
    expect(all('edit')).toHaveLength(0);
    reason().value = 'later';
    find('deny').click();
    find('approve').click();
    expect(actions.decide.mock.calls).toEqual([
      [waiting, '', { decision: 'deny', reason: 'later' }]
    ]);
  });

  it('leads to its cell, where that is there', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    find('jump', find('panel-approval')).click();
    expect(actions.jump).toHaveBeenCalledWith('cell-2');
    show({ runs: [LIVE], approvals: [asking('a1')] }, { cells: new Set() });
    expect(find('panel-approval').querySelector('[data-ipyagent="jump"]')).toBeNull();
  });

  it('offers notifications where the user can allow them', () => {
    show({ runs: [LIVE], approvals: [asking('a1')] });
    expect(find('enable-notifications').hidden).toBe(true);
    show({ runs: [LIVE], approvals: [asking('a1')] }, { canNotify: true });
    find('enable-notifications').click();
    expect(actions.notify).toHaveBeenCalledOnce();
  });
});

describe('runs', () => {
  it('are listed newest first, as text, with what they took', () => {
    show({ runs: [DONE, LIVE] });
    const [live, done] = all('panel-run');
    expect(live.dataset.state).toBe('running');
    expect(done.textContent).toBe(
      '✓Plot <b>it</b>done · anthropic/claude · 1,204 tok · $0.006 · 3.20 s'
    );
  });

  it('say how they stand', () => {
    show({ runs: [{ ...LIVE, state: 'waiting', facts: ['waiting for you'] }] });
    expect(find('panel-run').dataset.state).toBe('waiting');
    expect(find('panel-run').textContent).toContain('waiting for you');
  });

  it('lead to their cells', () => {
    show({ runs: [DONE] });
    const way = find('jump', find('panel-run'));
    expect(way.getAttribute('aria-label')).toBe('Plot <b>it</b>: done. Go to its cell.');
    way.click();
    expect(actions.jump).toHaveBeenCalledWith('cell-1');
  });

  it('say that their cell is gone', () => {
    show({ runs: [{ ...DONE, cell_id: 'elsewhere' }] });
    expect(find('panel-run').textContent).toContain('its cell is gone');
    find('jump', find('panel-run')).click();
    expect(actions.jump).not.toHaveBeenCalled();
  });

  it('can be stopped while they go on', () => {
    show({ runs: [DONE, LIVE] });
    expect(all('stop')).toHaveLength(1);
    find('stop').click();
    expect(actions.stop).toHaveBeenCalledWith('r2');
  });
});

describe('sessions', () => {
  it('say which is current, and let the user go on with another', () => {
    const current = { ...SESSION, id: 's2', name: 'now', current: true };
    show({ sessions: [current, SESSION, { ...SESSION, id: 's3', ended: true }] });
    expect(all('panel-session').map(each => each.dataset.state)).toEqual([
      'current',
      'open',
      'ended'
    ]);
    expect(all('resume')).toHaveLength(1);
    find('resume').click();
    expect(actions.resume).toHaveBeenCalledWith('s1');
  });

  it('stay as they are while a run goes on', () => {
    show({ runs: [LIVE], sessions: [SESSION] });
    expect(all('resume')).toHaveLength(0);
  });
});

describe('plan, tasks, variables and cost', () => {
  const todo = { status: 'pending' as const, glyph: '☐', status_text: 'to do', text: 'Plot' };
  const step = { status: 'success' as const, glyph: '✓', status_text: 'succeeded' };

  it('say how far the newest run is', () => {
    const steps = [{ ...step, name: 'read_file', note: 'look first' }];
    show({ runs: [DONE], todos: [todo], plan: steps, done: '1 of 2 done' });
    expect(find('panel-plan').textContent).toContain('1 of 2 done');
    expect(find('panel-plan').textContent).toContain('✓read_file look first');
    expect(find('todos').textContent).toContain('Plot');
  });

  it('are not there where there is neither', () => {
    show({ runs: [DONE] });
    expect(isShown('plan')).toBe(false);
  });

  it('name the variables that were touched', () => {
    const change = {
      name: 'sales',
      change: 'changed' as const,
      type: 'DataFrame 18 × 2',
      run_id: 'r1'
    };
    show({ variables: [change] });
    expect(find('panel-variable').textContent).toBe('salesDataFrame 18 × 2changed');
    expect(find('panel-variable').dataset.change).toBe('changed');
  });

  it('add up what the session took', () => {
    show({ runs: [DONE], usage: ['3 runs', '4,321 tokens', '$0.020'] });
    expect(find('panel-cost').textContent).toBe('3 runs · 4,321 tokens · $0.020');
    show({ runs: [DONE], usage: [] });
    expect(view.element.querySelector<HTMLElement>('.ipyagent-panel-foot')?.hidden).toBe(true);
  });
});

describe('everyone', () => {
  it('finds regions, lists and buttons with names', () => {
    const sessions = [SESSION];
    show({ runs: [DONE, LIVE], approvals: [asking('a1')], sessions }, { canNotify: true });
    for (const section of view.element.querySelectorAll('section.ipyagent-panel-section')) {
      expect(section.getAttribute('aria-label')).not.toBe('');
    }
    for (const button of view.element.querySelectorAll('button')) {
      expect(button.getAttribute('aria-label'), button.outerHTML).toBeTruthy();
    }
    expect(view.element.querySelectorAll('ul > :not(li), ol > :not(li)')).toHaveLength(0);
  });
});
