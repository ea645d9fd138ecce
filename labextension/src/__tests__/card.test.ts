import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { Channel } from '../channel';
import type { Drawn, Snapshot } from '../protocol';
import { Card } from '../view/card';
import { asking, begun, MOMENTS, SNAPSHOT, withBlock, without } from './story';

const STEP = 'r/s1';

let actions: Record<'decide' | 'send', ReturnType<typeof vi.fn>>;
let card: Card;

const select = (selector: string) => card.element.querySelector<HTMLElement>(selector);
const find = (name: string) => select(`[data-ipyagent="${name}"]`);
const text = (selector: string) => select(selector)?.textContent;
const block = (html: string, changes: Partial<Drawn> = {}, key = `${STEP}/z`): Snapshot =>
  withBlock(begun(), { key, html, ...changes }, STEP);
const draw = (html: string, changes: Partial<Drawn> = {}, key?: string): void =>
  card.update(block(html, changes, key));

beforeEach(() => {
  actions = { decide: vi.fn(), send: vi.fn() };
  card = new Card(actions);
  document.body.replaceChildren(card.element);
});

afterEach(() => {
  card.dispose();
  vi.useRealTimers();
});

describe('a card', () => {
  it('is the last snapshot whether it came as one or bit by bit', () => {
    MOMENTS.forEach(({ messages }) => messages.forEach(message => card.update(message)));
    const plain = (element: Element) => element.outerHTML.replace(/ id="ipyagent-\d+"/g, '');
    const whole = new Card(actions);
    whole.update(SNAPSHOT);
    expect(plain(card.element)).toBe(plain(whole.element));
    expect(card.element.textContent).toContain('the North lost 36 %');
  });

  it('names its parts and their states, and its run', () => {
    card.update(SNAPSHOT);
    const tools = [...card.element.querySelectorAll<HTMLElement>('[data-ipyagent=tool]')];
    expect(tools.map(({ dataset: { tool, state } }) => [tool, state])).toEqual([
      ['inspect_variable', 'success'],
      ['ask_user', 'success'],
      ['todo_write', 'success'],
      ['run_python', 'success'],
      ['edit_file', 'success'],
      ['delete_file', 'denied'],
      ['search_files', 'failed'],
      ['run_shell', 'cancelled'],
      ['api_crm_export', 'unknown']
    ]);
    expect(find('run')?.dataset).toMatchObject({ state: 'partial' });
    expect(find('answer')?.textContent).toContain('Revenue fell in Q3');
    const steps = [...card.element.querySelectorAll('[role=group]')].map(each => each.ariaLabel);
    expect(steps).toEqual(expect.arrayContaining(['Step 1', 'Step 2', 'Answer', 'Table']));
  });

  it('is empty before its run begins', () => {
    card.update({ ...begun(), set: [], order: {} });
    expect(card.element.children).toHaveLength(0);
  });

  it('has no block that a snapshot does not have', () => {
    draw('<p>one</p>');
    card.update(begun());
    expect(card.element.textContent).not.toContain('one');
  });

  it('moves a block with what is in it', () => {
    draw('<details class="ia-look"><summary>s</summary></details>');
    const moved = select('.ia-look');
    moved?.setAttribute('open', '');
    const run = without(block(moved?.outerHTML ?? ''), `${STEP}/z`);
    const html = '<details class="ia-look"><summary>s</summary></details>';
    card.update(withBlock(run, { key: `${STEP}/z`, html }));
    expect(select('.ia-look')).toBe(moved);
    expect(moved?.parentElement).toBe(find('run'));
    expect(moved?.hasAttribute('open')).toBe(true);
  });
});

describe('what the user does in a block', () => {
  it('stays when the block changes: nodes, folds, what is selected', () => {
    const fold = '<details><summary>s</summary><p>inner</p></details>';
    draw(`<div class="ia-mine"><p>one two</p>${fold}</div>`);
    const [paragraph, details] = select('.ia-mine')?.children ?? [];
    (details as HTMLDetailsElement).open = true;
    const words = paragraph.firstChild as Text;
    getSelection()?.setBaseAndExtent(words, 4, words, 7);
    draw(`<div class="ia-mine"><p>one two three</p>${fold}<p>new</p></div>`);
    expect([...(select('.ia-mine')?.children ?? [])].slice(0, 2)).toEqual([paragraph, details]);
    expect((details as HTMLDetailsElement).open).toBe(true);
    expect(getSelection()?.toString()).toBe('two');
    expect(text('.ia-mine')).toBe('one two threesinnernew');
  });

  it('holds until the kernel folds or unfolds it', () => {
    const fold = (open: string, more = '') =>
      `<details class="ia-thinking"${open}><summary>s${more}</summary></details>`;
    const isOpen = () => (select('.ia-thinking') as HTMLDetailsElement).open;
    draw(fold(' open'));
    expect(isOpen()).toBe(true);
    (select('.ia-thinking') as HTMLDetailsElement).open = false;
    draw(fold(' open', '!'));
    expect(isOpen()).toBe(false);
    draw(fold(''));
    (select('.ia-thinking') as HTMLDetailsElement).open = true;
    draw(fold('', '!'));
    expect(isOpen()).toBe(true);
    draw(fold(' open'));
    draw(fold(''));
    expect(isOpen()).toBe(false);
  });

  it('stays in blocks within a block that changes, and in the controls of the page', () => {
    card.update(asking('c2'));
    const reason = find('reason') as HTMLInputElement;
    reason.value = 'half a';
    reason.focus();
    const run = asking('c2');
    const call = run.set.find(({ key }) => key === 'r/s2/c0');
    const html = call?.html.replace('</summary>', '<mark>new</mark></summary><p>more</p>');
    card.update(withBlock(run, { key: 'r/s2/c0', html }));
    expect(text('[data-tool=run_python] > summary')).toContain('new');
    expect(find('reason')).toBe(reason);
    expect([reason.value, document.activeElement]).toEqual(['half a', reason]);
    const last = select('[data-tool=run_python]')?.lastElementChild;
    expect(last?.contains(reason)).toBe(true);
  });

  it('is not touched where nothing has changed', () => {
    card.update(asking('c2'));
    const changed = vi.fn();
    const observer = new MutationObserver(changed);
    const all = { attributes: true, characterData: true, childList: true, subtree: true };
    observer.observe(select('.ia-tool')?.parentElement ?? card.element, all);
    card.update(structuredClone(asking('c2')));
    expect(observer.takeRecords()).toEqual([]);
  });
});

describe('words', () => {
  const CODE = '<pre><code class="language-python">x = 1\n</code></pre>';
  const TABLE = '<table><tbody><tr><td>1</td></tr></tbody></table>';
  const X = `${STEP}/x`;
  const streamed = (html: string, more = '', at = 0): Snapshot =>
    withBlock(
      block('<div class="ia-markdown"></div>', {}, X),
      { key: `${X}/${at}`, html, more },
      X
    );

  it.each([
    ['<p>one</p>', 'p'],
    ['<ul><li>a</li><li>b</li></ul>', 'li:last-child'],
    [CODE, 'code'],
    [TABLE, 'td'],
    ['<h2>one</h2>', 'h2']
  ])('go on in the last element of %j, as text', (html, where) => {
    card.update(streamed(html, ' more'));
    const add = (text: string, seq: number) =>
      ({
        type: 'changes',
        seq,
        set: [],
        order: {},
        drop: [],
        more: [{ key: `${X}/0`, text }]
      }) as const;
    const words = select(`.ia-markdown ${where}`)?.lastChild as Text;
    card.update({
      ...add(' and <b>more</b>', 1),
      more: [...add(' and <b>more</b>', 1).more]
    } as never);
    expect(words.data).toContain('more and <b>more</b>');
    expect(select(`.ia-markdown ${where}`)?.lastChild).toBe(words);
    card.update(streamed(html, ' more and <b>more</b> still'));
    expect(select(`.ia-markdown ${where}`)?.lastChild).toBe(words);
    expect(words.data).toContain('<b>more</b> still');
    card.update(streamed(html));
    expect(card.element.textContent).not.toContain('more');
  });

  it('leave blocks before them as they are', () => {
    const two = (html: string) =>
      withBlock(streamed('<p>one</p>'), { key: `${X}/1`, html: `<p>${html}</p>` }, X);
    card.update(two('tw'));
    const [one, last] = select('.ia-markdown')?.children ?? [];
    card.update(two('two <em>b</em>'));
    expect(select('.ia-markdown')?.firstElementChild).toBe(one);
    expect(last.isConnected).toBe(false);
    expect(text('.ia-markdown')?.trim()).toBe('onetwo b');
  });

  it('have tables in boxes that the keyboard can scroll, and code with its language', () => {
    card.update(streamed(TABLE));
    const box = select('table')?.parentElement;
    expect([box?.role, box?.ariaLabel, box?.tabIndex]).toEqual(['group', 'Table', 0]);
    card.update(streamed(CODE));
    expect(text('.ipyagent-listing-language')).toBe('python');
  });

  it.each(['ipyagent-approval', 'ia-tool', 'ia-traced-not'])('are not %s', name => {
    card.update(streamed(`<p class="${name}" data-tool="x">x</p>`));
    expect(select(`.ia-markdown :is(.${name}, [data-tool])`)).toBeNull();
  });

  it('say to the keyboard as well where a number comes from', () => {
    card.update(streamed('<p><span class="ia-traced ia-found" title="from sales">7</span></p>'));
    const number = select('.ia-traced.ia-found');
    expect([number?.title, number?.tabIndex]).toEqual(['from sales', 0]);
  });

  it('are copied as they stand, by buttons that work in a block that was changed', async () => {
    const written = vi.fn().mockResolvedValue(undefined);
    vi.stubGlobal('navigator', { clipboard: { writeText: written } });
    const thought = (more: string) =>
      `<details class="ia-thinking"><summary>t</summary><div class="ia-markdown">${CODE}${more}</div></details>`;
    draw(thought(''));
    draw(thought('<p>more</p>'));
    find('copy')?.click();
    await vi.waitFor(() => expect(find('copy')?.textContent).toBe('Copied'));
    expect(written).toHaveBeenCalledExactlyOnceWith('x = 1\n');
    vi.unstubAllGlobals();
  });
});

describe('the header', () => {
  beforeEach(() => vi.useFakeTimers());

  const progress = (is_new: boolean) =>
    withBlock(begun(), {
      key: 'r/h',
      own: { type: 'progress', started_at: '2025-03-01T09:30:00+00:00', is_new }
    });

  it('counts the seconds, and stops the run once', () => {
    vi.setSystemTime('2026-03-01T09:30:00+00:00');
    card.update(progress(true));
    const clock = select('.ipyagent-clock');
    expect(clock?.textContent).toBe('0 s');
    vi.advanceTimersByTime(125_000);
    card.update(progress(false));
    expect(clock?.textContent).toBe('2 min 5 s');
    find('stop')?.click();
    find('stop')?.click();
    expect(actions.send).toHaveBeenCalledExactlyOnceWith({ type: 'stop' });
    card.update(withBlock(begun(), { key: 'r/h', own: null }));
    expect([find('stop'), vi.getTimerCount()]).toEqual([null, 0]);
  });

  it('counts from the kernel’s time if the run has gone on', () => {
    vi.setSystemTime('2025-03-01T09:30:07+00:00');
    card.update(progress(false));
    expect(text('.ipyagent-clock')).toBe('7 s');
  });

  it('leaves no clock behind', () => {
    card.update(progress(true));
    card.dispose();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a retry', () => {
  beforeEach(() => vi.useFakeTimers());

  const waiting = (seconds: number) =>
    withBlock(begun(), {
      key: `${STEP}/w`,
      html: '<p class="ia-note ia-waiting">Retry 1/2</p>',
      own: { type: 'countdown', seconds }
    });

  it('is counted down behind the words that are read out', () => {
    const run = waiting(2.5);
    card.update(run);
    expect(text('p.ia-waiting')).toBe('Retry 1/2 in 3 s');
    expect(select('p.ia-waiting')?.ariaLive).toBe('polite');
    vi.advanceTimersByTime(1_000);
    card.update(run);
    expect(text('p.ia-waiting')).toBe('Retry 1/2 in 2 s');
    vi.advanceTimersByTime(10_000);
    expect(text('p.ia-waiting')).toBe('Retry 1/2');
    card.update(without(begun(), `${STEP}/w`));
    expect(select('p.ia-waiting')).toBeNull();
  });
});

describe('what the user says to a run', () => {
  const say = (problem = '', run = begun()) =>
    withBlock(run, { key: 'r/say', own: { type: 'say', placeholder: 'Say something', problem } });
  const unsent = (run = begun()) => {
    const texts = [
      { id: 'u9', label: 'Goes with the next request', text: 'Rounded, <b>please</b>.' }
    ];
    const label = '<span class="ia-label">Goes with the next request</span>';
    const said = `${label}: Rounded, &lt;b>please&lt;/b>.`;
    const html = `<div class="ia-unsent"><blockquote class="ia-user-text"><p>${said}</p></blockquote></div>`;
    return withBlock(run, { key: 'r/u', html, own: { type: 'unsent', texts } });
  };
  const input = () => find('say') as HTMLInputElement | null;
  const typed = (text: string): HTMLInputElement => {
    const line = input() ?? document.createElement('input');
    line.focus();
    line.value = text;
    line.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    return line;
  };

  it('is sent by Enter, and the line is free for the next one', () => {
    card.update(say());
    const line = typed(' Leave out the West. ');
    const message = { type: 'say', text: 'Leave out the West.' };
    expect(actions.send).toHaveBeenCalledExactlyOnceWith(message);
    expect([line.value, document.activeElement, line.placeholder]).toEqual([
      '',
      line,
      'Say something'
    ]);
    typed('   ');
    expect(actions.send).toHaveBeenCalledOnce();
  });

  it('keeps what is being written and the focus while the run goes on', () => {
    card.update(say());
    const line = input();
    line?.focus();
    card.update(unsent(say()));
    card.update(say());
    expect([input(), document.activeElement]).toEqual([line, line]);
  });

  it('can be taken back as long as it waits', () => {
    card.update(unsent(say()));
    expect(find('user-text')?.textContent).toContain('request: Rounded, <b>please</b>.Take back');
    card.update(unsent(say()));
    find('take-back')?.click();
    expect(actions.send).toHaveBeenCalledExactlyOnceWith({ type: 'take_back', text_id: 'u9' });
    expect(document.activeElement).toBe(input());
    card.update(say());
    expect(find('user-text')).toBeNull();
  });

  it('comes back with the reason if it is refused, unless another is being written', () => {
    card.update(say());
    typed('Much too long');
    card.update(say('The text has 10,001 characters.'));
    expect(text('[role=alert]')).toContain('10,001');
    expect(input()?.value).toBe('Much too long');
    card.update(say());
    expect(select('.ia-say [role=alert]')).toBeNull();
    typed('Much too long').value = 'Short';
    card.update(say('The text has 10,001 characters.'));
    expect(input()?.value).toBe('Short');
  });

  it('was not sent if the kernel is gone', () => {
    card.update(unsent(say()));
    card.cutOff(begun().gone);
    expect([input(), find('take-back')]).toEqual([null, null]);
    expect(find('user-text')?.textContent).toBe(
      'Not sent: the run ended first: Rounded, <b>please</b>.'
    );
  });
});

describe('a card whose kernel is gone', () => {
  const cutOff = (run: Snapshot): void => {
    const channel = new Channel(() => undefined);
    channel.receive(run);
    channel.disconnect();
    card.dispose();
    card = new Card(channel);
    document.body.replaceChildren(card.element);
  };

  it('has failed, says so, and waits for nothing', () => {
    cutOff(asking('c2'));
    expect(find('run')?.dataset.state).toBe('failed');
    expect(find('run')?.classList.contains('ia-waiting')).toBe(false);
    expect(text('.ia-header > .ia-state')).toBe('failed');
    expect(text('.ia-error-card, .ia-ending')).toContain('The kernel was restarted or stopped');
    expect(card.element.querySelectorAll('button:not([data-ipyagent=copy]), input')).toHaveLength(
      0
    );
    expect(text('.ipyagent-clock')).toBeUndefined();
  });

  it('did nothing of what it asked about, and may have done what was running', () => {
    cutOff(asking('c2'));
    expect(select('[data-tool=run_python]')?.dataset.state).toBe('cancelled');
    expect(select('[data-tool=inspect_variable]')?.dataset.state).toBe('success');
    const at = MOMENTS.findIndex(each => each.type === 'tool_running' && each.call_id === 'c2');
    const running = new Channel(() => undefined);
    MOMENTS.slice(0, at + 1).forEach(each => each.messages.forEach(one => running.receive(one)));
    cutOff(running.run ?? begun());
    const call = select('[data-tool=run_python]');
    expect(call?.dataset.state).toBe('unknown');
    expect(call?.querySelector('.ia-decision')?.textContent).toBe('unknown outcome');
    expect(call?.querySelectorAll('.ia-glyph')).toHaveLength(1);
  });

  it('is as it was if the run had ended', () => {
    card.update(SNAPSHOT);
    const before = card.element.innerHTML;
    card.cutOff(SNAPSHOT.gone);
    expect(card.element.innerHTML).toBe(before);
  });

  it('has nothing to show if the kernel went before it had said anything', () => {
    card.cutOff(SNAPSHOT.gone);
    expect(card.element.children).toHaveLength(0);
  });
});
