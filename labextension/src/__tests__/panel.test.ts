import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { PanelState } from '../lab/panel';
import { PanelView } from '../lab/panelView';
import type { Asked, Blocks, Drawn, Overview, PendingApproval, RowButton } from '../protocol';
import { host, type Lab } from '../view/host';
import { askAbout, APPROVAL, callHtml, formOf, plan, labWith } from './story';

const actions = {
  decide: vi.fn(),
  stop: vi.fn(),
  jump: vi.fn(),
  resume: vi.fn(),
  chooseModel: vi.fn(),
  find: vi.fn(),
  ask: vi.fn(),
  insertExample: vi.fn(),
  notify: vi.fn()
};
const ask = vi.fn();
let view: PanelView;

/** The rows of a section, as the kernel draws them: `ipyagent.ui.panel`. */
type Rows = Record<string, readonly [html: string, own: Drawn['own']]>;

const drawn = (key: string, html: string, own: Drawn['own'] = null): Drawn => {
  return { key, html, more: '', own };
};
const blocksOf = (sections: Record<string, Rows>, own: Drawn['own'] = null): Blocks => {
  const set: Drawn[] = [];
  const order: Record<string, string[]> = { '': Object.keys(sections) };
  for (const [name, rows] of Object.entries(sections)) {
    const head = '<summary><h3>Title</h3></summary>';
    const html = `<details class="ia-section ia-section-${name}" open>${head}</details>`;
    set.push(drawn(name, html, own), drawn(`${name}/`, '<ul class="ia-rows"></ul>'));
    order[name] = [`${name}/`];
    order[`${name}/`] = Object.keys(rows).map(row => `${name}/${row}`);
    set.push(...Object.entries(rows).map(([row, each]) => drawn(`${name}/${row}`, ...each)));
  }
  return { set, order };
};
const rowHtml = (title: string): string =>
  `<li class="ia-item"><p class="ia-row"><span class="ia-glyph ia-done" title="done">✓</span>` +
  `<span class="ia-words"><span class="ia-title">${title}</span></span></p></li>`;
const row = (title: string, ...buttons: RowButton[]): Rows[string] => [
  rowHtml(title),
  buttons.length > 0 ? { type: 'row', buttons } : null
];
const press = (name: RowButton['name'], of: string): RowButton => {
  return { name, label: name, title: `To ${name}`, of };
};
const asking = (approvalId: string, changes: Partial<PendingApproval> = {}): PendingApproval => ({
  approval_id: approvalId,
  run_id: 'r2',
  cell_id: 'cell-2',
  about: 'run_python',
  asked: askAbout(
    'run_python',
    { code: 'x = 1' },
    { run_id: changes.run_id ?? 'r2', approval: { ...APPROVAL, id: approvalId } }
  ),
  change: '',
  proposal: null,
  ...changes
});
const draft = plan(2);
const PLAN = draft.set.find(({ key }) => key === 'r/p')?.html ?? '';
const planned = (id: string, changes: Partial<Asked> = {}) => {
  const asked = formOf(draft, 'r/p/a');
  const approval = asked.approval && { ...asked.approval, id };
  return { about: 'a plan', asked: { ...asked, approval, ...changes } };
};
const overview = (changes: Partial<Overview>): Overview => {
  const none = { model: '', runs: [], approvals: [], status: '' };
  return { ...none, panel: { set: [], order: {} }, ...changes };
};
const show = (changes: Partial<Overview> | null, state: Partial<PanelState> = {}): void => {
  view.update({
    notebook: 'sales.ipynb',
    overview: changes && overview(changes),
    isReachable: true,
    cells: new Set(['cell-1', 'cell-2']),
    prompts: null,
    canAdd: false,
    canNotify: false,
    ...state
  });
};
/** Show approvals, each in its row. */
const showAsked = (approvals: PendingApproval[], state: Partial<PanelState> = {}): void => {
  const rows = approvals.map(({ run_id, approval_id, cell_id, about }) => [
    `${run_id} ${approval_id}`,
    row(about, press('jump', cell_id ?? ''))
  ]);
  const panel = blocksOf(approvals.length > 0 ? { asked: Object.fromEntries(rows) as Rows } : {});
  approvals.forEach(each => {
    const key = `asked/${each.run_id} ${each.approval_id}`;
    const html = each.about === 'a plan' ? PLAN : callHtml('x = 1');
    panel.set.push(drawn(`${key}/call`, html), drawn(`${key}/form`, '<div></div>', each.asked));
    Object.assign(panel.order, { [key]: [`${key}/call`], [`${key}/call`]: [`${key}/form`] });
  });
  show({ approvals, panel }, state);
};
const all = (name: string): HTMLElement[] => [
  ...view.element.querySelectorAll<HTMLElement>(`[data-ipyagent="${name}"]`)
];
const find = (name: string): HTMLElement => {
  const found = all(name).at(0);
  if (found === undefined) {
    throw new Error(`there is no ${name}`);
  }
  return found;
};
const GONE = { cells: new Set<string>() };

beforeEach(() => {
  vi.clearAllMocks();
  host.lab = labWith({ ask: ask as Lab['ask'] });
  view = new PanelView(actions, document.createElement('div'));
  const page = document.createElement('div');
  page.tabIndex = -1;
  page.append(view.element);
  document.body.replaceChildren(page);
});

describe('a newcomer', () => {
  const said = (): string => view.element.querySelector('.ipyagent-panel-empty')?.textContent ?? '';

  it('without a notebook is told to open one', () => {
    show(null, { notebook: null });
    expect(said()).toContain('Open a notebook');
  });

  it('without an agent is told how to begin', () => {
    show(null);
    expect(said()).toContain('%load_ext ipyagent');
  });

  it('with an agent and no runs is told how to ask', () => {
    show({});
    expect(said()).toContain('%%agent');
    expect(view.element.querySelectorAll('.ia-section')).toHaveLength(0);
  });

  it('has three prompts to try that fit the data, each a click', () => {
    show({}, { prompts: ['Profile `sales`', 'Plot <b>', 'Three', 'Four'] });
    const texts = ['Profile sales', 'Plot <b>', 'Three'];
    expect(all('request').map(each => each.textContent)).toEqual(texts);
    all('request')[0].click();
    expect(actions.ask).toHaveBeenCalledWith('Profile `sales`');
  });

  it('without data is told so, and can insert an example', () => {
    show({}, { prompts: [] });
    expect(said()).toContain('no variables and no files');
    find('example').click();
    expect(actions.insertExample).toHaveBeenCalledOnce();
  });

  it('is not told any more when there is a run', () => {
    show({ runs: [{ id: 'r1' } as Overview['runs'][number]] }, { prompts: ['Profile'] });
    expect(said()).toBe('');
  });
});

describe('what waits', () => {
  const reason = (): HTMLInputElement => find('reason') as HTMLInputElement;

  it('is one line that leads to its cell, while that is there', () => {
    showAsked([asking('a1')]);
    expect(all('tool')).toHaveLength(0);
    expect(all('approve')).toHaveLength(0);
    find('jump').click();
    expect(actions.jump).toHaveBeenCalledWith('cell-2');
  });

  it('is drawn whole where its cell is gone, and decided by the same approval', () => {
    showAsked([asking('a1')], GONE);
    expect(find('tool').textContent).toContain('run_python');
    expect(view.element.textContent).toContain('its cell is gone');
    expect(all('jump')).toHaveLength(0);
    expect(find('tool').querySelector('[data-run="r2"][data-approval="a1"]')).not.toBeNull();
    reason().value = 'go';
    find('approve').click();
    const answer = { decision: 'approve', reason: 'go' };
    expect(actions.decide.mock.calls).toEqual([[asking('a1'), answer]]);
  });

  it('becomes one line again when its cell is back', () => {
    showAsked([asking('a1')], GONE);
    showAsked([asking('a1')]);
    expect(all('tool')).toHaveLength(0);
    expect(all('jump')).toHaveLength(1);
  });

  it('keeps what is typed, and the cursor, while others come and go', () => {
    showAsked([asking('a1'), asking('a2')], GONE);
    const field = all('reason')[1] as HTMLInputElement;
    field.value = 'because';
    field.focus();
    showAsked([asking('a2'), asking('a3')], GONE);
    expect(document.activeElement).toBe(field);
    expect(reason()).toBe(field);
    expect(field.value).toBe('because');
    expect(all('tool')).toHaveLength(2);
  });

  it('of another kernel is another one, though it has the same number', () => {
    showAsked([asking('a1')], GONE);
    reason().value = 'because';
    showAsked([asking('a1', { run_id: 'r1' })], GONE);
    expect(reason().value).toBe('');
  });

  it('gives the focus to the panel when it goes', () => {
    showAsked([asking('a1')], GONE);
    find('approve').focus();
    showAsked([]);
    expect(document.activeElement).toBe(view.element.parentElement);
    expect(view.element.querySelectorAll('.ia-section')).toHaveLength(0);
  });

  it('keeps the focus while what was pressed is on its way', () => {
    showAsked([asking('a1')], GONE);
    find('approve').focus();
    find('approve').click();
    expect(find('tool').contains(document.activeElement)).toBe(true);
  });

  it('vanishes when the kernel is gone, and when it cannot be reached', () => {
    showAsked([asking('a1')], GONE);
    showAsked([asking('a1')], { ...GONE, isReachable: false });
    expect(all('tool')).toHaveLength(0);
    expect(view.element.querySelectorAll('.ia-section')).toHaveLength(0);
    const lost = view.element.querySelector<HTMLElement>(':scope > .ipyagent-note');
    expect([lost?.hidden, lost?.textContent]).toEqual([false, expect.stringContaining('reached')]);
    showAsked([asking('a1')], GONE);
    expect(all('tool')).toHaveLength(1);
    expect(lost?.hidden).toBe(true);
    show(null);
    expect(all('tool')).toHaveLength(0);
  });

  it('may be a question', () => {
    const question = { text: 'Which year?', choices: ['2024'] };
    const asked = { ...asking('a1').asked, question };
    showAsked([asking('a1', { about: 'a question', asked })], GONE);
    find('choice').click();
    const answer = { decision: 'answer', text: '2024' };
    expect(actions.decide).toHaveBeenCalledWith(
      expect.objectContaining({ approval_id: 'a1' }),
      answer
    );
  });

  it('may be a plan that a cell asks about', () => {
    showAsked([asking('a1', planned('a1'))]);
    expect(all('plan-step')).toHaveLength(0);
    showAsked([asking('a1', planned('a1'))], GONE);
    expect(all('plan-step')).toHaveLength(3);
    find('deny').click();
    const answer = { decision: 'deny', reason: '' };
    expect(actions.decide).toHaveBeenCalledWith(
      expect.objectContaining({ approval_id: 'a1' }),
      answer
    );
  });

  it('may be a plan that no cell asks about, which is decided on here', () => {
    const about = { run_id: 'plan', approval_id: '', cell_id: 'cell-1' };
    const waiting = asking('', { ...about, ...planned('', { calls: [] }) });
    showAsked([waiting]);
    expect(all('plan-step')).toHaveLength(3);
    expect(all('edit')).toHaveLength(0);
    expect(all('jump')).toHaveLength(1);
    reason().value = 'later';
    find('deny').click();
    find('approve').click();
    expect(actions.decide.mock.calls).toEqual([[waiting, { decision: 'deny', reason: 'later' }]]);
  });

  it('offers notifications where the user can allow them', () => {
    showAsked([asking('a1')]);
    expect(find('enable-notifications').hidden).toBe(true);
    showAsked([asking('a1')], { canNotify: true });
    find('enable-notifications').click();
    expect(actions.notify).toHaveBeenCalledOnce();
    show({}, { canNotify: true });
    expect(find('enable-notifications').hidden).toBe(true);
  });
});

describe('rows', () => {
  const runs = (title = 'Plot &lt;b&gt;it&lt;/b&gt;'): Blocks =>
    blocksOf({ runs: { r1: row(title, press('jump', 'cell-1'), press('stop', 'r1')) } });

  it('are drawn as text, with buttons of the data beside the HTML', () => {
    show({ panel: runs() });
    expect(view.element.querySelector('.ia-title')?.textContent).toBe('Plot <b>it</b>');
    find('stop').click();
    expect(actions.stop).toHaveBeenCalledWith('r1');
    find('jump').click();
    expect(actions.jump).toHaveBeenCalledWith('cell-1');
    expect(find('jump').ariaLabel).toBe('To jump');
  });

  it('have no button of the HTML', () => {
    const html = '<li><p class="ia-row"><button data-ipyagent="stop">Stop</button></p></li>';
    show({ panel: blocksOf({ runs: { r1: [html, null] } }) });
    expect(view.element.querySelectorAll('.ia-section button')).toHaveLength(0);
  });

  it('say that their cell is gone', () => {
    show({ panel: runs() }, GONE);
    expect(view.element.querySelector('.ia-row')?.textContent).toContain('its cell is gone');
    expect(all('jump')).toHaveLength(0);
    show({ panel: runs() });
    expect(all('jump')).toHaveLength(1);
  });

  it('keep the focus, and a folded section, while their words change', () => {
    show({ panel: runs() });
    find('jump').focus();
    const section = view.element.querySelector('details');
    section?.removeAttribute('open');
    show({ panel: runs('Plotted') });
    expect(view.element.querySelector('.ia-title')?.textContent).toBe('Plotted');
    expect(document.activeElement).toBe(find('jump'));
    expect(section?.open).toBe(false);
  });

  it('of sessions go on', () => {
    show({ panel: blocksOf({ sessions: { s1: row('Plot', press('resume', 's1')) } }) });
    find('resume').click();
    expect(actions.resume).toHaveBeenCalledWith('s1');
  });
});

describe('a variable', () => {
  const html = '<li><details><summary class="ia-line"><code>x</code></summary></details></li>';
  const variable = (run: string): Blocks =>
    blocksOf({ variables: { x: [html, { type: 'head', name: 'x', run_id: run }] } });
  const open = async (): Promise<HTMLDetailsElement> => {
    const fold = view.element.querySelector<HTMLDetailsElement>('li details');
    if (fold === null) {
      throw new Error('there is none');
    }
    fold.open = true;
    fold.dispatchEvent(new Event('toggle'));
    await vi.waitFor(() => expect(ask).toHaveBeenCalled());
    return fold;
  };

  it('shows its description when it is opened', async () => {
    ask.mockResolvedValue({ html: '<pre><code>3 rows</code></pre><script>1</script>' });
    show({ panel: variable('r1') });
    expect(ask).not.toHaveBeenCalled();
    const fold = await open();
    const head = fold.querySelector('.ipyagent-head');
    expect(ask).toHaveBeenCalledWith(head, 'variable', { text: 'x' });
    await vi.waitFor(() => expect(fold.textContent).toBe('x3 rows'));
    expect(fold.querySelector('script')).toBeNull();
  });

  it('is described again when a run has changed it', async () => {
    ask.mockResolvedValueOnce({ html: '3 rows' }).mockResolvedValue({ html: '4 rows' });
    show({ panel: variable('r1') });
    const fold = await open();
    show({ panel: variable('r1') });
    expect(ask).toHaveBeenCalledOnce();
    show({ panel: variable('r2') });
    await vi.waitFor(() => expect(fold.textContent).toBe('x4 rows'));
    expect(fold.open).toBe(true);
  });

  it('is as the kernel described it last: an earlier reply may come later', async () => {
    const replies: ((reply: { html: string }) => void)[] = [];
    ask.mockImplementation(() => new Promise(reply => replies.push(reply)));
    show({ panel: variable('r1') });
    const fold = await open();
    show({ panel: variable('r2') });
    replies[1]({ html: '4 rows' });
    replies[0]({ html: '3 rows' });
    await Promise.all(ask.mock.results.map(({ value }) => value as unknown));
    expect(fold.textContent).toBe('x4 rows');
  });
});

describe('sessions', () => {
  it('are found by the kernel, and stand below the field', async () => {
    const found = blocksOf({ sessions: { s9: row('Old one', press('resume', 's9')) } });
    const { set, order } = found;
    actions.find.mockResolvedValue({ set: set.slice(1), order: { ...order, '': ['sessions/'] } });
    show({ panel: blocksOf({ sessions: { s1: row('Plot') } }, { type: 'search' }) });
    const field = find('find-session') as HTMLInputElement;
    field.value = ' old ';
    field.dispatchEvent(new Event('input'));
    await vi.waitFor(() => expect(all('resume')).toHaveLength(1));
    expect(actions.find).toHaveBeenCalledWith('old');
    find('resume').click();
    expect(actions.resume).toHaveBeenCalledWith('s9');
    field.value = '';
    field.dispatchEvent(new Event('input'));
    await vi.waitFor(() => expect(all('resume')).toHaveLength(0));
  });
});

describe('everyone', () => {
  it('finds lists and buttons with names', () => {
    showAsked([asking('a1')], { ...GONE, canNotify: true });
    for (const button of view.element.querySelectorAll('button')) {
      expect(button.getAttribute('aria-label'), button.outerHTML).toBeTruthy();
    }
    expect(view.element.querySelectorAll('ul > :not(li), ol > :not(li)')).toHaveLength(0);
  });
});
