import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { approvalKey } from '../channel';
import type { PanelActions } from '../lab/panel';
import { PanelView } from '../lab/panelView';
import type { Asked } from '../protocol';
import { Card } from '../view/card';
import { host } from '../view/host';
import { ProposalView } from '../view/approval';
import {
  APPROVAL,
  askAbout,
  asked,
  asking,
  callHtml,
  formOf,
  plan,
  PLOT,
  withBlock
} from './story';

const EVIL = 'evil()';
const many = (text: string, times: number) => text.repeat(times);
const honest = many('x = 1\n', 200);

/** Tricks that bring a line of code out of sight. */
const SHAPES: Record<string, string> = {
  'empty lines': `ok()\n${many('\n', 3_000)}${EVIL}`,
  'lines of blanks': `ok()\n${many('   \t\n', 3_000)}${EVIL}`,
  'lines that end as on Windows': `ok()\n${many('\r\n', 3_000)}${EVIL}`,
  'lines of invisible characters': `ok()\n${many('\u200b\n', 3_000)}${EVIL}`,
  'honest lines before and after': `${honest}${EVIL}\n${honest}`,
  'comments before': `${many('# Compute the mean.\n', 300)}${EVIL}`,
  'zero-width characters': `ok() #${many('\u200b', 3_000)}\n${EVIL}`,
  'zero-width characters of several kinds': `ok() #${many('\u200b\u200c\u2060', 1_000)}\n${EVIL}`,
  'filler characters': `ok() #${many('\u3164', 4_000)}\n${EVIL}`,
  'no-break spaces': `ok();${many('\u00a0', 4_000)}${EVIL}`,
  'em quads': `ok();${many('\u2001', 6_000)}${EVIL}`,
  'blanks and tabs': `ok();${many(' \t', 2_000)}${EVIL}`,
  'combining marks': `x = "a${many('\u0301', 3_000)}"\n${EVIL}`,
  'combining marks of several kinds': `x = "a${many('\u0301\u0323', 3_000)}"\n${EVIL}`,
  'one long line': `x = "${many('a', 100_000)}"; ${EVIL}`,
  'tags and escapes': `ok() # \u001b[2K${many('\u{e0041}', 3_000)}\n${EVIL}`,
  'a carriage return and an override': `${EVIL}\rok()${many('\u202e', 3_000)}`
};

/** Columns and lines of a box, and the height of a line. */
const [COLUMNS, ROWS, LINE] = [80, 20, 18];

const PART = new RegExp(`.{1,${COLUMNS}}`, 'gsu');

/** The lines of a text as a box of the card breaks them. */
const broken = (text: string) => text.split('\n').flatMap(line => line.match(PART) ?? ['']);

let scrolled: ReturnType<typeof vi.fn>;
/** An element over the page. */
let cover: Element | null;
let observers: { observed: Set<Element>; notify: IntersectionObserverCallback }[];

class Observer {
  observed = new Set<Element>();
  constructor(readonly notify: IntersectionObserverCallback) {
    observers.push(this);
  }
  observe(element: Element): void {
    this.observed.add(element);
  }
  unobserve(element: Element): void {
    this.observed.delete(element);
  }
  disconnect(): void {
    this.observed.clear();
  }
}

class Resized {
  constructor(private callback: () => void) {}
  observe(): void {
    this.callback();
  }
  disconnect(): void {
    return;
  }
}

const tell = (isIntersecting: boolean, wanted: (element: Element) => boolean) => {
  observers.forEach(({ observed, notify }) => {
    const entries = [...observed].filter(wanted).map(target => ({
      target,
      isIntersecting,
      intersectionRatio: isIntersecting ? 1 : 0
    }));
    notify(entries as unknown as IntersectionObserverEntry[], {} as IntersectionObserver);
  });
};
const isEnd = (element: Element) => element.classList.contains('ipyagent-end');
const isHead = (element: Element) => !isEnd(element);
const look = () => vi.advanceTimersByTime(500);

const find = (root: Element, name: string) => {
  const element = root.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
  if (element === null) {
    throw new Error(`no ${name}`);
  }
  return element;
};
const isActive = (button: HTMLElement) => button.getAttribute('aria-disabled') !== 'true';

beforeEach(() => {
  observers = [];
  cover = null;
  document.elementFromPoint = () => cover ?? document.body;
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('visible');
  vi.useFakeTimers();
  vi.stubGlobal('IntersectionObserver', Observer);
  vi.stubGlobal('ResizeObserver', Resized);
  scrolled = vi.fn();
  Element.prototype.scrollIntoView = scrolled as () => void;
  const rows = (box: Element) => broken(box.textContent).length;
  vi.spyOn(Element.prototype, 'scrollHeight', 'get').mockImplementation(function (this: Element) {
    return this.localName === 'pre' ? rows(this) * LINE : 0;
  });
  vi.spyOn(Element.prototype, 'clientHeight', 'get').mockImplementation(function (this: Element) {
    const isFolded = !this.hasAttribute('data-unfolded');
    return this.localName === 'pre' ? Math.min(rows(this), isFolded ? ROWS : Infinity) * LINE : 0;
  });
  const style = { lineHeight: `${LINE}px` } as CSSStyleDeclaration;
  vi.spyOn(window, 'getComputedStyle').mockReturnValue(style);
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

function drawn(text: string) {
  const decide = vi.fn();
  const view = new Card({ decide, send: vi.fn() });
  document.body.replaceChildren(view.element);
  view.update(asked({ approval: APPROVAL }, callHtml(text)));
  const root = view.element.querySelector<HTMLElement>('[data-tool=run_python]') ?? view.element;
  return { decide, root, approve: find(root, 'approve') };
}

describe.each(Object.entries(SHAPES))('a line behind %s', (_, text) => {
  it('is in sight from the beginning, or has to be brought there', () => {
    const { root, approve, decide } = drawn(text);
    const box = root.querySelector('pre');
    const lines = broken(box?.textContent ?? '');
    const at = lines.findLastIndex(line => line.includes(EVIL));
    expect(at).toBeGreaterThanOrEqual(0);
    const below = lines.length - ROWS;
    expect(root.querySelector('.ipyagent-button-more')?.textContent ?? '').toBe(
      below > 0 ? `↓ ${below.toLocaleString('en-US')} more line${below === 1 ? '' : 's'}` : ''
    );
    tell(true, isHead);
    tell(at < ROWS && below <= 0, isEnd);
    look();
    expect(isActive(approve)).toBe(below <= 0);
    approve.click();
    expect(decide).toHaveBeenCalledTimes(below <= 0 ? 1 : 0);
  });
});

describe('what approves', () => {
  it('is active once the call has been in sight for half a second, and says so until then', () => {
    const { root, approve, decide } = drawn('x = 1');
    const lasting = () => ['always', 'folder'].map(name => isActive(find(root, name)));
    expect(isActive(approve)).toBe(false);
    expect(lasting()).toEqual([false, false]);
    expect(approve.title).toContain('active once all of what is asked has been in sight');
    expect(approve.getAttribute('aria-label')).toContain('active once all');
    tell(true, () => true);
    vi.advanceTimersByTime(400);
    tell(false, isEnd);
    look();
    approve.click();
    expect(isActive(approve)).toBe(false);
    expect(decide).not.toHaveBeenCalled();
    tell(true, isEnd);
    look();
    expect(isActive(approve)).toBe(true);
    expect(approve.title).toBe('Say approve: run_python');
    expect(approve.getAttribute('aria-label')).toBe('Say approve: run_python');
    expect(lasting()).toEqual([true, true]);
    approve.click();
    expect(decide).toHaveBeenCalledOnce();
  });

  it('is not active while the call lies under something else, or on a hidden page', () => {
    const { approve } = drawn('x = 1');
    cover = document.head;
    tell(true, () => true);
    look();
    expect(isActive(approve)).toBe(false);
    cover = null;
    vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    look();
    expect(isActive(approve)).toBe(false);
    vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('visible');
    look();
    expect(isActive(approve)).toBe(true);
  });

  it('says beside the buttons why an early press did nothing, until it would', () => {
    const { root, approve, decide } = drawn('x = 1');
    const said = () => root.querySelector('.ipyagent-sent')?.textContent;
    tell(true, () => true);
    vi.advanceTimersByTime(200);
    approve.focus();
    approve.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 1 }));
    expect(document.activeElement?.localName).toBe('summary');
    expect(said()).toBe('Look at all of it first, then press again.');
    look();
    expect(said()).toBe('');
    approve.click();
    expect(decide).toHaveBeenCalledOnce();
  });

  it('tells its key, where the page has one', () => {
    host.keys = { approve: 'Ctrl+Shift+Enter' };
    const { root, approve } = drawn('x = 1');
    host.keys = {};
    expect(approve.title).toMatch(/^Say approve: run_python \(Ctrl\+Shift\+Enter\) · active once/);
    tell(true, () => true);
    look();
    expect(approve.title).toBe('Say approve: run_python (Ctrl+Shift+Enter)');
    expect(find(root, 'deny').title).toBe('Say deny: run_python');
  });

  it('shows what was not seen when it is pressed too early; denying is always possible', () => {
    const { root, approve, decide } = drawn(honest);
    const details = root.closest('details');
    tell(true, isHead);
    look();
    details?.removeAttribute('open');
    approve.click();
    expect(details?.open).toBe(true);
    const box = root.querySelector('pre');
    expect(scrolled.mock.contexts).toEqual([box]);
    expect(box?.scrollTop).toBe(0.9 * ROWS * LINE);
    for (let press = 0; press < 20; press++) {
      approve.click();
    }
    expect((scrolled.mock.contexts.at(-1) as Element).className).toBe('ipyagent-end');
    find(root, 'deny').click();
    expect(decide.mock.calls).toEqual([['a2', { decision: 'deny', reason: '' }]]);
  });

  it('is beside a bar that unfolds the box', () => {
    const { root, approve } = drawn(honest);
    find(root, 'more').click();
    expect(root.querySelector('pre')?.dataset.unfolded).toBe('');
    expect(root.querySelector('.ipyagent-button-more')).toBeNull();
    expect(isActive(approve)).toBe(false);
    tell(true, () => true);
    look();
    expect(isActive(approve)).toBe(true);
  });
});

describe('the same holds', () => {
  const pending = {
    approval_id: 'a2',
    run_id: 'r',
    cell_id: null,
    about: 'run_python',
    asked: askAbout('run_python', { code: honest }),
    change: '',
    proposal: null
  };
  const drawPlan = (run = plan(2)) => {
    const decide = vi.fn();
    const view = new Card({ decide, send: vi.fn() });
    document.body.replaceChildren(view.element);
    view.update(run);
    return { decide, root: view.element };
  };

  it('for boxes that come later, or have another text', () => {
    const { root, decide } = drawPlan(asking('c2'));
    const run = asking('c2');
    const { html = '' } = run.set.find(({ key }) => key === PLOT) ?? {};
    tell(true, () => true);
    look();
    expect(isActive(find(root, 'approve'))).toBe(true);
    const view = new Card({ decide, send: vi.fn() });
    document.body.replaceChildren(view.element);
    view.update(run);
    tell(true, () => true);
    look();
    const more = '<pre><code>more</code></pre></blockquote>';
    view.update(withBlock(run, { key: PLOT, html: html.replace('</blockquote>', more) }));
    expect(view.element.querySelectorAll('.ipyagent-end')).toHaveLength(2);
    expect(isActive(find(view.element, 'approve'))).toBe(false);
    tell(true, () => true);
    look();
    expect(isActive(find(view.element, 'approve'))).toBe(true);
    const other = html.replace('</b>pandas', '</b>evil').replace('</blockquote>', more);
    view.update(withBlock(run, { key: PLOT, html: other }));
    expect(isActive(find(view.element, 'approve'))).toBe(false);
    view.dispose();
    expect(view.element.querySelectorAll('.ipyagent-end')).toHaveLength(0);
  });

  it('for a plan: each of its steps', () => {
    const { decide, root } = drawPlan();
    const approve = find(root, 'approve');
    const ends = root.querySelectorAll('.ipyagent-end');
    expect(ends.length).toBeGreaterThan(1);
    tell(true, element => element !== ends[1]);
    look();
    approve.click();
    expect(decide).not.toHaveBeenCalled();
    tell(true, () => true);
    look();
    approve.click();
    expect(decide).toHaveBeenCalledOnce();
  });

  it('for a call whose effects are folded: those need not be unfolded', () => {
    const folded = '<details><summary>shown</summary><pre>x</pre></details>';
    const effects = `<div class="ia-effects"><pre>-a</pre>${folded}</div>`;
    const exact = '<details class="ia-exact"><summary>exactly</summary><pre>x</pre></details>';
    const html = callHtml('x = 1').replace('</blockquote>', `${effects}${exact}</blockquote>`);
    const { root } = drawPlan(asked({}, html));
    expect(root.querySelectorAll('.ipyagent-end')).toHaveLength(1);
  });

  it('for a proposed cell', () => {
    const decide = vi.fn();
    const question = askAbout('insert_cell', { source: honest });
    const change = `<pre><code>${honest}</code></pre>`;
    const approval = { ...pending, asked: question, change };
    const place = { cell_id: 'c', side: 'after', kind: 'code', path: null } as const;
    const view = new ProposalView(approval, { place, title: '', about: '' }, null, decide, null);
    document.body.replaceChildren(view.element);
    const approve = find(view.element, 'approve');
    tell(true, isHead);
    look();
    approve.click();
    expect(decide).not.toHaveBeenCalled();
    tell(true, isEnd);
    look();
    approve.click();
    expect(decide).toHaveBeenCalledOnce();
    view.dispose();
  });

  it('for a call and for a plan in the panel', () => {
    const actions = { decide: vi.fn() };
    const panel = new PanelView(actions as unknown as PanelActions, document.createElement('div'));
    document.body.replaceChildren(panel.element);
    const run = plan(2);
    const { html = '' } = run.set.find(({ key }) => key === 'r/p') ?? {};
    const form = { ...formOf(run, 'r/p/a'), calls: [] };
    const waiting = { ...pending, run_id: 'p', approval_id: '', asked: form };
    const draw = (key: string, html: string, own: Asked | null = null) => {
      return { key: `asked/${key}`, html, more: '', own };
    };
    const set = [pending, waiting].flatMap(each => {
      const key = approvalKey(each);
      const call = draw(`${key}/call`, each === waiting ? html : callHtml(honest));
      return [draw(key, '<li></li>'), call, draw(`${key}/form`, '<div></div>', each.asked)];
    });
    const keys = set.map(({ key }) => key);
    const order = {
      '': [keys[0], keys[3]],
      ...{ [keys[0]]: [keys[1]], [keys[1]]: [keys[2]] },
      ...{ [keys[3]]: [keys[4]], [keys[4]]: [keys[5]] }
    };
    panel.update({
      notebook: 'n',
      overview: {
        model: '',
        runs: [],
        approvals: [pending, waiting],
        panel: { set, order },
        status: ''
      },
      isReachable: true,
      cells: new Set(),
      prompts: null,
      canAdd: false,
      canNotify: false
    } as unknown as Parameters<PanelView['update']>[0]);
    const buttons = [...panel.element.querySelectorAll<HTMLElement>('[data-ipyagent="approve"]')];
    expect(buttons).toHaveLength(2);
    expect(panel.element.querySelectorAll('[data-ipyagent="edit"]')).toHaveLength(1);
    tell(true, isHead);
    look();
    buttons.forEach(button => button.click());
    expect(actions.decide).not.toHaveBeenCalled();
    tell(true, isEnd);
    look();
    buttons.forEach(button => button.click());
    expect(actions.decide).toHaveBeenCalledTimes(2);
  });
});

describe('several changes', () => {
  /** A run that asks about two calls, c0 by a2 and c1 by a3. */
  function reviewed(ids = ['a2', 'a3'], run = asked({}, callHtml('x = 1')), other = 'a3') {
    const own = askAbout('run_python', {}, { approval: { ...APPROVAL, id: other } });
    let next = withBlock(run, { key: 'r/s2/c1', html: callHtml('y = 2') }, 'r/s2');
    next = withBlock(next, { key: 'r/s2/c1/a', html: '<div></div>', own }, 'r/s2/c1');
    const review = { type: 'review' as const, approvals: ids };
    return withBlock(next, { key: 'r/s2/r', html: '<div></div>', own: review }, 'r/s2');
  }

  async function review() {
    const decide = vi.fn();
    const view = new Card({ decide, send: vi.fn() });
    document.body.replaceChildren(view.element);
    view.update(reviewed());
    await Promise.resolve();
    const tools = [...view.element.querySelectorAll<HTMLDetailsElement>('[data-tool=run_python]')];
    const see = (tool: Element) => {
      tell(true, element => element.closest('.ia-tool') === tool);
      look();
    };
    return { decide, view, tools, see, all: find(view.element, 'approve-all') };
  }
  const approved = { decision: 'approve', reason: '' };

  it('are opened one at a time, and approved together once each was in sight', async () => {
    const { decide, view, tools, see, all } = await review();
    const open = () => tools.map(tool => tool.open);
    expect(open()).toEqual([true, false]);
    see(tools[0]);
    expect(isActive(all)).toBe(false);
    all.click();
    expect(decide).not.toHaveBeenCalled();
    expect(open()).toEqual([false, true]);
    find(view.element, 'next').click();
    expect(open()).toEqual([true, false]);
    find(view.element, 'previous').click();
    expect(open()).toEqual([false, true]);
    see(tools[1]);
    expect(isActive(all)).toBe(true);
    all.click();
    expect(decide.mock.calls).toEqual([
      ['a2', approved],
      ['a3', approved]
    ]);
  });

  it('are not approved while one is edited, or once one is asked about again', async () => {
    const { decide, view, tools, see, all } = await review();
    tools.forEach(see);
    find(tools[1], 'edit').click();
    all.click();
    expect(decide).not.toHaveBeenCalled();
    find(tools[1], 'cancel-edit').click();
    view.update(reviewed(['a2', 'a4'], undefined, 'a4'));
    await Promise.resolve();
    expect(isActive(all)).toBe(false);
    all.click();
    expect(decide).not.toHaveBeenCalled();
    see(tools[1]);
    all.click();
    expect(decide.mock.calls.map(([id]) => id as string)).toEqual(['a2', 'a4']);
  });

  it('lead to the next one when one is decided on, and to none that another browser decided', async () => {
    const { decide, view, tools, see, all } = await review();
    see(tools[1]);
    view.update(reviewed(['a3'], asked({ approval: null }, callHtml('x = 1', 'success'))));
    await Promise.resolve();
    expect(tools[1].open).toBe(true);
    expect(isActive(all)).toBe(true);
    all.click();
    expect(decide.mock.calls).toEqual([['a3', approved]]);
  });
});
