import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { PanelView } from '../lab/panelView';
import type { Call } from '../protocol';
import { host } from '../view/host';
import { ProposalView } from '../view/proposal';
import { RunView } from '../view/run';
import { asking, EFFECTS, plan, request, withCall, withPlan } from './story';

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
    const isFolded = !this.classList.contains('ipyagent-unfolded');
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

const code = (text: string) => ({ kind: 'code' as const, text, language: 'python', caption: '' });
const { approval, ...unasked } = asking('c2').steps[1].calls[0];
const inFolder = { answer: 'folder' as const, label: 'Always in this folder' };
const waiting = (text: string): Call => ({
  ...unasked,
  approval: approval && { ...approval, choices: [...approval.choices, inFolder] },
  concern: '',
  request: request({ arguments: { code: text }, preview: code(text) })
});

function drawn(text: string) {
  const decide = vi.fn();
  const view = new RunView({ decide, send: vi.fn() });
  document.body.replaceChildren(view.element);
  view.update(withCall(waiting(text)));
  view.dispose();
  return { decide, root: view.element, approve: find(view.element, 'approve') };
}

describe.each(Object.entries(SHAPES))('a line behind %s', (_, text) => {
  it('is in sight from the beginning, or has to be brought there', () => {
    const { root, approve, decide } = drawn(text);
    const box = root.querySelector('.ipyagent-call pre');
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
    expect(approve.title).toBe('Approve: run_python');
    expect(approve.getAttribute('aria-label')).toBe('Approve: run_python');
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
    expect(approve.title).toMatch(/^Approve: run_python \(Ctrl\+Shift\+Enter\) · active once/);
    tell(true, () => true);
    look();
    expect(approve.title).toBe('Approve: run_python (Ctrl+Shift+Enter)');
    expect(find(root, 'deny').title).toBe('Deny: run_python');
  });

  it('shows what was not seen when it is pressed too early; denying is always possible', () => {
    const { root, approve, decide } = drawn(honest);
    const details = root.querySelector<HTMLDetailsElement>('.ipyagent-tool-details');
    tell(true, isHead);
    look();
    details?.removeAttribute('open');
    approve.click();
    expect(details?.open).toBe(true);
    const box = root.querySelector('.ipyagent-call pre');
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
    expect(root.querySelector('.ipyagent-call pre')?.className).toContain('ipyagent-unfolded');
    expect(root.querySelector('.ipyagent-button-more')).toBeNull();
    expect(isActive(approve)).toBe(false);
    tell(true, () => true);
    look();
    expect(isActive(approve)).toBe(true);
  });
});

describe('the same holds', () => {
  it('for a plan: each of its steps', () => {
    const decide = vi.fn();
    const view = new RunView({ decide, send: vi.fn() });
    document.body.replaceChildren(view.element);
    view.update(plan(2));
    const approve = find(view.element, 'approve');
    const ends = view.element.querySelectorAll('.ipyagent-end');
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

  it('for a plan whose effects are folded: those need not be unfolded', () => {
    const decide = vi.fn();
    const view = new RunView({ decide, send: vi.fn() });
    const shown = plan(2);
    const steps = (shown.plan?.steps ?? []).map(step => ({ ...step, effects: EFFECTS }));
    document.body.replaceChildren(view.element);
    view.update(withPlan(shown, { steps }));
    const isFolded = (element: Element) => element.closest('details:not([open])') !== null;
    expect(view.element.querySelector('details:not([open]) pre')).not.toBeNull();
    tell(true, element => !isFolded(element));
    look();
    find(view.element, 'approve').click();
    expect(decide).toHaveBeenCalledOnce();
  });

  it('for a proposed cell', () => {
    const decide = vi.fn();
    const given = request({ arguments: { source: honest }, preview: code(honest) });
    const call = { ...waiting(honest), name: 'insert_cell', concern: '', request: given };
    const view = new ProposalView({ call, before: null, asking: null }, decide);
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
    const actions = { decide: vi.fn(), stop: vi.fn(), jump: vi.fn() };
    const begin = { chooseModel: vi.fn(), ask: vi.fn(), insertExample: vi.fn() };
    const more = { ...begin, resume: vi.fn(), add: vi.fn(), notify: vi.fn() };
    const panel = new PanelView({ ...actions, ...more });
    document.body.replaceChildren(panel.element);
    const call = waiting(honest);
    const about = 'run_python';
    const asked = { run_id: 'r', approval_id: 'a', cell_id: null, about, call, plan: null };
    const waitingPlan = { ...asked, run_id: 'p', approval_id: '', call: null, plan: plan(2).plan };
    panel.update({
      notebook: 'n',
      overview: {
        model: '',
        sessions: [],
        runs: [],
        approvals: [asked],
        waiting: waitingPlan,
        plan: [],
        todos: [],
        done: '',
        variables: [],
        usage: [],
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
