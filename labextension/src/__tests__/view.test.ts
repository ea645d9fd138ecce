import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { advance, LiveRun, NOTHING } from '../model';
import type { Event } from '../protocol';
import { RunView } from '../view/run';
import { asking, begun, EVENTS, RUN, runOf, runWith, saying } from './story';

const one = (root: Element, name: string) => {
  const found = root.querySelector<HTMLElement>(`[data-ipyagent="${name}"]`);
  if (found === null) {
    throw new Error(`no ${name}`);
  }
  return found;
};
const all = (root: Element, name: string) => [
  ...root.querySelectorAll(`[data-ipyagent="${name}"]`)
];
const tool = (root: Element, name: string) => {
  const found = root.querySelector<HTMLElement>(`[data-tool="${name}"]`);
  return found ?? document.createElement('div');
};
const delta = (text: string): Event => ({ type: 'message_delta', step: 1, kind: 'text', text });

const RESULT = {
  success: true,
  output: '',
  error: null,
  images: [],
  displays: [],
  variables: [],
  truncated: null
};

let actions: { decide: ReturnType<typeof vi.fn>; stop: ReturnType<typeof vi.fn> };
let view: RunView;

beforeEach(() => {
  actions = { decide: vi.fn(), stop: vi.fn() };
  view = new RunView(actions);
  document.body.replaceChildren(view.element);
});

afterEach(() => {
  view.dispose();
});

describe('a drawn run', () => {
  it('can be drawn before anything has happened', () => {
    view.update(NOTHING);
    expect(view.element.dataset).toMatchObject({ ipyagent: 'run', state: 'running' });
  });

  it('is the same, drawn live event by event or at once from what was saved', () => {
    EVENTS.reduce((state, event) => {
      const next = advance(state, event);
      view.update(next);
      return next;
    }, NOTHING);
    const saved = new RunView(null);
    saved.update({ ...NOTHING, run: RUN });
    // All but the mark of a live view, and the empty places where elements had been.
    const drawn = (root: Element) => root.querySelector('.ipyagent-content')?.innerHTML;
    expect(drawn(view.element)).toBe(drawn(saved.element));
    expect(view.element.querySelector('header')?.textContent).toBe(
      saved.element.querySelector('header')?.textContent
    );
  });

  it('says on top who, how far and how much', () => {
    view.update({ ...NOTHING, run: RUN });
    const header = view.element.querySelector('header')?.textContent;
    for (const fact of [
      'anthropic/claude-sonnet',
      'partial',
      'step 4/4',
      'closing',
      '3,840 tok',
      '$0.012',
      '41.7 s'
    ]) {
      expect(header).toContain(fact);
    }
    expect(header).not.toContain('yolo');
  });

  it('says so where calls run unasked', () => {
    view.update(runWith({}, { confirm_mode: 'yolo' }));
    expect(view.element.querySelector('header')?.textContent).toContain('yolo: runs unasked');
  });

  it('says of the data explorer that it is not a language model', () => {
    view.update(runWith({}, { model: 'offline/explorer' }));
    expect(view.element.querySelector('header')?.textContent).toContain('not a language model');
  });

  it('tells a failure by its reason, not by how its traceback begins', () => {
    const output = 'Traceback (most recent call last):\nZeroDivisionError: division by zero';
    const error = 'ZeroDivisionError: division by zero';
    const result = { ...RESULT, success: false, output, error };
    view.update(runOf({ status: 'failed', result }));
    const line = view.element.querySelector('.ipyagent-first-line')?.textContent;
    expect(line).toBe(`→ ${error}`);
  });

  it('carries every status in its attributes', () => {
    view.update({ ...NOTHING, run: RUN });
    const states = all(view.element, 'tool').map(card => [
      card.getAttribute('data-tool'),
      card.getAttribute('data-state')
    ]);
    expect(states).toEqual([
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
    expect(one(view.element, 'answer').textContent).toContain('Revenue fell in Q3');
    expect(all(view.element, 'answer')).toHaveLength(1);
  });

  it('says how each call was decided', () => {
    view.update({ ...NOTHING, run: RUN });
    expect(tool(view.element, 'inspect_variable').textContent).toContain(
      'auto (confirm-sensitive)'
    );
    expect(tool(view.element, 'run_python').textContent).toContain('approved by you');
    expect(tool(view.element, 'edit_file').textContent).toContain('approved for this session');
    expect(tool(view.element, 'search_files').textContent).toContain('approved for this folder');
    expect(tool(view.element, 'delete_file').textContent).toContain('denied by you: keep it');
    const nobody = {
      decision: 'denied',
      decided_by: 'policy',
      reason: 'nobody could be asked'
    } as const;
    view.update(runOf({ ...nobody, status: 'denied', result: null }));
    expect(tool(view.element, 'inspect_variable').textContent).toContain(
      'denied: nobody could be asked'
    );
  });

  it('shows figures and tables outside the fold', () => {
    view.update({ ...NOTHING, run: RUN });
    const card = tool(view.element, 'run_python');
    for (const selector of ['img[src^="data:image/png;base64,"]', 'td']) {
      expect(card.querySelector(selector)).not.toBeNull();
      expect(card.querySelector(selector)?.closest('details')).toBeNull();
    }
    expect(card.textContent).not.toContain('color: red');
  });

  it('draws a figure once that is a display and an image', () => {
    const [image] = RUN.steps[1].executions[0].result?.images ?? [];
    const displays = [{ data: { 'image/png': `${image.data}\n` } }];
    view.update(runOf({ result: { ...RESULT, images: [image], displays } }));
    expect(view.element.querySelectorAll('img')).toHaveLength(1);
  });

  it('tells which variables code touched, a few of many', () => {
    const variables = Array.from({ length: 12 }, (_, index) => ({
      name: `v${index}`,
      change: index < 2 ? ('changed' as const) : ('created' as const),
      type: index === 0 ? 'DataFrame, 3 rows × 2 columns' : ''
    }));
    view.update(runOf({ result: { ...RESULT, variables } }));
    expect(view.element.querySelector('.ipyagent-result')?.textContent).toContain(
      'changed: v0 (DataFrame, 3 rows × 2 columns), v1; ' +
        'created: v2, v3, v4, v5, v6, v7, v8, v9; … 2 more'
    );
  });

  it('shows an error as one card, and a limit as one line', () => {
    view.update(
      runWith({}, { status: 'error', stop_reason: 'error', error: 'Bad key.\nSet another.' })
    );
    expect(view.element.querySelector('.ipyagent-error-card')?.textContent).toBe(
      'Bad key.Set another.'
    );
    view.update(runWith({}, { stop_reason: 'max_steps' }));
    expect(view.element.textContent).toContain('the limit of steps was reached');
  });

  it('has no button when it is saved, whatever was waiting', () => {
    const saved = new RunView(null);
    saved.update(asking('c2'));
    expect(saved.element.querySelectorAll('button, input')).toHaveLength(0);
    expect(tool(saved.element, 'run_python').textContent).toContain('no decision recorded');
  });
});

describe('approval', () => {
  it('shows the whole call, opened', () => {
    view.update(asking('c2'));
    expect(view.element.dataset.state).toBe('waiting');
    const card = tool(view.element, 'run_python');
    expect(card.querySelector('details')?.open).toBe(true);
    const code = RUN.steps[1].executions[0].call.arguments.code;
    expect(card.querySelector('pre code')?.textContent).toBe(code);
    expect(card.querySelector('.ipyagent-code-keyword')?.textContent).toBe('import');
  });

  it('shows a diff in colours and every argument beside it, hidden characters too', () => {
    view.update(asking('c3'));
    const card = tool(view.element, 'edit_file');
    expect(card.querySelector('.ipyagent-diff-removed')?.textContent).toBe(
      '-Revenue fell in all regions.\n'
    );
    expect(card.querySelectorAll('.ipyagent-diff-added')).toHaveLength(2);
    expect(card.textContent).toContain('⟨U+202E⟩oh');
    expect(card.textContent).not.toContain('\u202e');
  });

  it('closes again when it is decided', () => {
    view.update(asking('c2'));
    const decided = {
      type: 'approval_decided',
      step: 2,
      call_id: 'c2',
      decision: 'approved'
    } as const;
    view.update(advance(asking('c2'), { ...decided, by: 'button', reason: null }));
    expect(tool(view.element, 'run_python').querySelector('details')?.open).toBe(false);
    expect(all(view.element, 'approve')).toHaveLength(0);
  });

  it.each(['approve', 'always', 'folder', 'deny'])(
    'sends "%s" once, with the reason, however often pressed',
    name => {
      view.update(asking('c2'));
      (one(view.element, 'reason') as HTMLInputElement).value = ' because ';
      one(view.element, name).click();
      one(view.element, name).click();
      one(view.element, 'deny').dispatchEvent(new Event('click'));
      expect(actions.decide.mock.calls).toEqual([['a2', { decision: name, reason: 'because' }]]);
      for (const button of ['approve', 'always', 'folder', 'deny']) {
        expect((one(view.element, button) as HTMLButtonElement).disabled).toBe(true);
      }
      expect(view.element.textContent).toContain('sent…');
    }
  );

  it('hands the keys on to what was asked about', () => {
    document.body.append(view.element);
    view.update(asking('c2'));
    one(view.element, 'deny').focus();
    one(view.element, 'deny').click();
    const line = tool(view.element, 'run_python').querySelector('summary');
    expect(document.activeElement).toBe(line);
    view.element.remove();
  });

  it('stays sent when the same state arrives again', () => {
    view.update(asking('c2'));
    one(view.element, 'approve').click();
    view.update(structuredClone(asking('c2')));
    expect((one(view.element, 'approve') as HTMLButtonElement).disabled).toBe(true);
  });

  it('keeps the reason that is being typed while other things happen', () => {
    view.update(asking('c2'));
    const input = one(view.element, 'reason') as HTMLInputElement;
    input.value = 'half a';
    view.update(advance(asking('c2'), { type: 'notice', text: 'meanwhile' }));
    expect(one(view.element, 'reason')).toBe(input);
    expect(input.value).toBe('half a');
  });

  it('gives real buttons with names for those who cannot see them', () => {
    view.update(asking('c2'));
    for (const name of ['approve', 'always', 'folder', 'deny', 'stop']) {
      expect(one(view.element, name).tagName).toBe('BUTTON');
      expect(one(view.element, name).getAttribute('aria-label')).not.toBeNull();
    }
    one(view.element, 'stop').click();
    one(view.element, 'stop').click();
    expect(actions.stop).toHaveBeenCalledTimes(1);
  });

  it.each(['__proto__', 'constructor', 'toString'])(
    'is not asked for by a call with the id %s',
    id => {
      const call = { ...RUN.steps[1].executions[0].call, id };
      view.update({ ...runOf({ call, status: 'awaiting_approval' }), approvals: {} });
      expect(all(view.element, 'approve')).toHaveLength(0);
    }
  );
});

describe('what a person opened', () => {
  it('stays open while the run goes on', () => {
    const steps: LiveRun[] = [];
    EVENTS.reduce<LiveRun>((state, event) => {
      const next = advance(state, event);
      steps.push(next);
      return next;
    }, NOTHING);
    const at = steps.findIndex(
      state => state.run?.steps.at(0)?.executions.at(0)?.status === 'success'
    );
    view.update(steps[at]);
    const opened = [...view.element.querySelectorAll('details')];
    opened.forEach(details => (details.open = true));
    steps.slice(at).forEach(state => {
      view.update(structuredClone(state));
    });
    expect(opened.length).toBeGreaterThanOrEqual(3);
    expect(opened.every(details => details.isConnected && details.open)).toBe(true);
  });
});

describe('what ipyagent says itself', () => {
  it('has what can be typed set as code', () => {
    const notes = ['Run `%agent model x` for <b>another</b>.', 'one ` alone', '`a\u202e`'];
    view.update({ ...NOTHING, run: { ...RUN, notes } });
    const typed = [...view.element.querySelectorAll('.ipyagent-note > code')];
    expect(typed.map(code => code.textContent)).toEqual(['%agent model x', 'a⟨U+202E⟩']);
    expect(view.element.textContent).toContain('for <b>another</b>.one ` alone');
  });
});

describe('a run of very many steps', () => {
  const [first] = RUN.steps;
  const long = (count: number): LiveRun => {
    const steps = Array.from({ length: count }, (_, index) => ({ ...first, number: index + 1 }));
    const last = { ...RUN.steps[RUN.steps.length - 1], number: count + 1 };
    return { ...NOTHING, run: { ...RUN, steps: [...steps, last] } };
  };
  const steps = () => view.element.querySelectorAll('.ipyagent-step').length;
  const earlier = () => view.element.querySelector<HTMLDetailsElement>('.ipyagent-earlier');

  it('is drawn from the first on demand, and keeps its order', () => {
    view.update(long(299));
    expect(steps()).toBe(40);
    expect(earlier()?.textContent).toBe('260 earlier steps');
    expect(one(view.element, 'answer').textContent).toContain('North');
    expect(
      one(view.element, 'todos').nextElementSibling?.contains(one(view.element, 'answer'))
    ).toBe(true);
    earlier()?.setAttribute('open', '');
    earlier()?.dispatchEvent(new Event('toggle'));
    expect(steps()).toBe(300);
    const names = [...view.element.querySelectorAll('.ipyagent-step')].map(step =>
      step.getAttribute('aria-label')
    );
    expect(names.slice(258, 262)).toEqual(['Step 259', 'Step 260', 'Step 261', 'Step 262']);
  });

  it('has nothing folded while it is short, or grows before our eyes', () => {
    view.update(long(30));
    expect(earlier()).toBeNull();
    view.update(long(90));
    expect(earlier()).toBeNull();
    expect(steps()).toBe(91);
  });
});

describe('streaming', () => {
  const stream = (
    text: string,
    size: number,
    watch: (root: HTMLElement) => void = () => undefined
  ) => {
    let state = begun();
    for (let start = 0; start < text.length; start += size) {
      state = advance(state, delta(text.slice(start, start + size)));
      view.update(state);
      watch(view.element);
    }
    return state;
  };

  it('seals a block when the next one has begun, and never touches it again', () => {
    const seen = new Set<Element>();
    const removed: Element[] = [];
    stream('First *one*.\n\nSecond.\n\n- a\n\n- b\n\n```\n\nx\n\n```\n\nThe end', 3, root => {
      seen.forEach(element => {
        if (!element.isConnected) {
          removed.push(element);
        }
      });
      root
        .querySelectorAll('.ipyagent-sealed > p, .ipyagent-sealed > ul')
        .forEach(e => seen.add(e));
    });
    expect(seen.size).toBe(3);
    expect(removed).toEqual([]);
    expect(view.element.querySelectorAll('li')).toHaveLength(2);
    expect(view.element.querySelector('.ipyagent-markdown pre')?.textContent).toBe('\nx\n\n');
    expect(view.element.querySelector('.ipyagent-open')?.textContent.trim()).toBe('The end');
  });

  it.each([1, 2, 7, 64])('comes to the same in pieces of %i as at once', size => {
    const text =
      '# Title\r\n\r\nA [ref][1] and *em*.\n\n1. one\n\n   more\n2. two\n\n> quote\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n' +
      '```python\nx = "\n\n"\n```\n<b>no</b>\n\n[1]: https://example.org/x\n\nlast\n===\n';
    stream(text, size);
    view.update(runWith(saying(text)));
    const live = view.element.querySelector('.ipyagent-markdown')?.innerHTML;
    const saved = new RunView(null);
    saved.update(runWith(saying(text)));
    expect(live).toBe(saved.element.querySelector('.ipyagent-markdown')?.innerHTML);
    expect(live).toContain('href="https://example.org/x"');
  });

  it('starts over when the request is tried again', () => {
    stream('void', 2);
    view.update(advance(advance(begun(), delta('val')), delta('id')));
    expect(view.element.querySelector('.ipyagent-markdown')?.textContent.trim()).toBe('valid');
  });

  it('survives text that no parser likes', () => {
    for (const text of ['>'.repeat(20_000), '[a]('.repeat(20_000), '*a '.repeat(20_000)]) {
      view.update(runWith(saying(text)));
      expect(view.element.textContent.length).toBeGreaterThan(0);
    }
  });
});
