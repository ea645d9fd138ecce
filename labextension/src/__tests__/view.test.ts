import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Transcript } from '../protocol';
import { RunView } from '../view/run';
import {
  asking,
  MOMENTS,
  PLOT,
  tellings,
  TRANSCRIPT,
  upTo,
  withCall,
  withHeader,
  withStep
} from './story';

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
let actions: Record<'decide' | 'send', ReturnType<typeof vi.fn>>;
let view: RunView;

beforeEach(() => {
  actions = { decide: vi.fn(), send: vi.fn() };
  view = new RunView(actions);
  document.body.replaceChildren(view.element);
});

afterEach(() => {
  view.dispose();
});

describe('a drawn run', () => {
  it('shows the last lines of a running call at its line until there are none', () => {
    const tail = () => view.element.querySelector('.ipyagent-tail');
    view.update(withCall({ live: 'epoch 1\n 40%\u202e' }));
    expect(tail()?.textContent).toContain('epoch 1\n 40%');
    expect(tail()?.textContent).not.toContain('\u202e');
    expect(tail()?.closest('details')).toBeNull();
    view.update(withCall({ live: '' }));
    expect(tail()).toBeNull();
  });

  it('can be drawn before anything has happened', () => {
    view.update(null);
    expect(view.element.dataset).toMatchObject({ ipyagent: 'run', state: 'running' });
  });

  it('says on top who, and how far and how much while it goes on', () => {
    const header = () => view.element.querySelector('header')?.textContent;
    view.update(upTo(({ type, call_id }) => type === 'tool_running' && call_id === 'c2'));
    for (const fact of ['anthropic/claude-sonnet', 'running', 'step 2/4', 'tok']) {
      expect(header()).toContain(fact);
    }
    view.update(TRANSCRIPT);
    expect(header()).toBe('ipyagentanthropic/claude-sonnetpartial');
  });

  it('says beside the model so where calls run unasked', () => {
    view.update(withHeader(TRANSCRIPT, { badge: 'yolo: runs unasked' }));
    const badge = view.element.querySelector('header .ipyagent-badge');
    expect(badge?.textContent).toBe('yolo: runs unasked');
  });

  it('has the summary, the outcome and the verdict of a call in its line', () => {
    view.update(withCall({ summary: 'in short', outcome: 'it went', verdict: 'approved by you' }));
    const words = ['summary', 'first-line', 'decision'].map(
      name => view.element.querySelector(`.ipyagent-line .ipyagent-${name}`)?.textContent
    );
    expect(words).toEqual(['in short', '→ it went', 'approved by you']);
    view.update(withCall({ outcome: '', verdict: '' }));
    expect(view.element.querySelector('.ipyagent-first-line, .ipyagent-decision')).toBeNull();
  });

  it('carries every status in its attributes', () => {
    view.update(TRANSCRIPT);
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

  it('has remarks, output, error and facts of a call behind its line, in that order', () => {
    const result = { output: 'half', error: 'broke', tone: 'error', media: [] } as const;
    view.update(
      withCall({ remarks: ['auto (yolo)'], result: { ...result, media: [] }, facts: ['call c1'] })
    );
    const parts = [...(view.element.querySelector('.ipyagent-result')?.children ?? [])];
    expect(parts.map(part => [part.localName, part.textContent])).toEqual([
      ['p', 'auto (yolo)'],
      ['pre', 'half'],
      ['p', 'broke'],
      ['p', 'call c1']
    ]);
    expect(parts[1].classList.contains('ipyagent-error')).toBe(true);
  });

  it('has the error in the place of the output where that says no more', () => {
    view.update(withCall({ result: { output: '', error: 'broke', tone: 'error', media: [] } }));
    expect(view.element.querySelector('pre.ipyagent-error')?.textContent).toBe('broke');
    expect(view.element.querySelectorAll('.ipyagent-result > *')).toHaveLength(
      withCall({}).steps[0].calls[0].remarks.length + 1
    );
  });

  it('shows figures and tables outside the fold', () => {
    view.update(TRANSCRIPT);
    const card = tool(view.element, 'run_python');
    for (const selector of ['img[src^="data:image/png;base64,"]', 'td']) {
      expect(card.querySelector(selector)).not.toBeNull();
      expect(card.querySelector(selector)?.closest('details')).toBeNull();
    }
    expect(card.textContent).not.toContain('color: red');
  });

  it('shows an error as one card, and a limit as one line', () => {
    const ending = { title: 'Bad key.', text: 'Set another.', tone: 'error' } as const;
    view.update(withStep({}, { ending }));
    const card = view.element.querySelector('.ipyagent-error-card');
    expect(card?.textContent).toBe('Bad key.Set another.');
    view.update(withStep({}, { ending: { title: 'Stopped here.', text: '', tone: 'plain' } }));
    expect(view.element.querySelector('.ipyagent-error-card')).toBeNull();
    expect(view.element.textContent).toContain('Stopped here.');
  });
});

describe('approval', () => {
  it('shows the whole call, opened', () => {
    view.update(asking('c2'));
    expect(view.element.dataset.state).toBe('waiting');
    const card = tool(view.element, 'run_python');
    expect(card.querySelector('details')?.open).toBe(true);
    const { code } = PLOT.request.arguments;
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
    expect(card.textContent).toContain('\\u202eoh');
    expect(card.textContent).not.toContain('\u202e');
  });

  it('closes again when it is decided', () => {
    view.update(asking('c2'));
    view.update(upTo(({ type, call_id }) => type === 'approval_decided' && call_id === 'c2'));
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
    view.update({ ...asking('c2'), notes: ['meanwhile'] });
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
    expect(actions.send).toHaveBeenCalledExactlyOnceWith({ type: 'stop' });
  });

  it('is not asked for by a call that waits for no decision here', () => {
    view.update(withCall({ status: 'awaiting_approval', approval: null }));
    expect(all(view.element, 'approve')).toHaveLength(0);
  });
});

describe('what a user opened', () => {
  it('stays open while the run goes on', () => {
    const steps = tellings(MOMENTS);
    const at = steps.findIndex(each => each.steps.at(0)?.calls.at(0)?.status === 'success');
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
    view.update({ ...TRANSCRIPT, notes });
    const typed = [...view.element.querySelectorAll('.ipyagent-note > code')];
    expect(typed.map(code => code.textContent)).toEqual(['%agent model x', 'a⟨U+202E⟩']);
    expect(view.element.textContent).toContain('for <b>another</b>.one ` alone');
  });
});

describe('a run of very many steps', () => {
  const [first] = TRANSCRIPT.steps;
  const long = (count: number): Transcript => {
    const some = Array.from({ length: count }, (_, index) => ({
      ...first,
      number: index + 1,
      label: `Step ${index + 1}`
    }));
    const last = TRANSCRIPT.steps[TRANSCRIPT.steps.length - 1];
    return { ...TRANSCRIPT, steps: [...some, last], todos_at: count };
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
