import { beforeEach, describe, expect, it, vi } from 'vitest';

import { cutOff } from '../channel';
import type { Transcript } from '../protocol';
import { RunView } from '../view/run';
import { begun, CUT_OFF, TRANSCRIPT } from './story';

const WAITING = { id: 'u9', label: 'Goes with the next request', text: 'Rounded, <b>please</b>.' };

let actions: Record<'decide' | 'send', ReturnType<typeof vi.fn>>;
let view: RunView;

beforeEach(() => {
  actions = { decide: vi.fn(), send: vi.fn() };
  view = new RunView(actions);
  document.body.replaceChildren(view.element);
  view.update(begun());
});

const input = () => view.element.querySelector<HTMLInputElement>('input[data-ipyagent=say]');
const texts = () => [...view.element.querySelectorAll('.ipyagent-say [data-ipyagent=user-text]')];

function typed(text: string): HTMLInputElement {
  const found = input();
  if (found === null) {
    throw new Error('there is no line to write in');
  }
  found.focus();
  found.value = text;
  found.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
  return found;
}

const withUnsent = (transcript: Transcript): Transcript => ({ ...transcript, unsent: [WAITING] });

describe('the line in which a user says something while the run is on', () => {
  it('sends what was written at Enter, and is empty and still focused then', () => {
    const line = typed('  Leave out the West. ');
    expect(actions.send).toHaveBeenCalledExactlyOnceWith({
      type: 'say',
      text: 'Leave out the West.'
    });
    expect([line.value, document.activeElement]).toEqual(['', line]);
  });

  it('sends nothing when there is nothing', () => {
    typed('   ');
    expect(actions.send).not.toHaveBeenCalled();
  });

  it('keeps what is being written and the focus while the run goes on', () => {
    const line = input() ?? document.createElement('input');
    line.focus();
    line.value = 'Half a sen';
    view.update(withUnsent(begun()));
    view.update(begun());
    expect([input(), document.activeElement, line.value]).toEqual([line, line, 'Half a sen']);
  });

  it('shows what waits, as text, until it is taken back', () => {
    view.update(withUnsent(begun()));
    expect(texts().map(each => each.textContent)).toEqual([
      'Goes with the next request: Rounded, <b>please</b>.Take back'
    ]);
    view.element.querySelector<HTMLButtonElement>('[data-ipyagent=take-back]')?.click();
    expect(actions.send).toHaveBeenCalledExactlyOnceWith({ type: 'take_back', text_id: 'u9' });
    view.update(begun());
    expect(texts()).toEqual([]);
    expect(document.activeElement).toBe(input());
  });

  it('says why a text was refused, and gives it back', () => {
    typed('Much too long');
    const say = { placeholder: 'Say something', problem: 'The text has 10,001 characters.' };
    view.update({ ...begun(), say });
    expect(view.element.querySelector('.ipyagent-say [role=alert]')?.textContent).toContain(
      '10,001'
    );
    expect(input()?.value).toBe('Much too long');
    view.update({ ...begun(), say: { ...say, problem: '' } });
    expect(view.element.querySelector('.ipyagent-say [role=alert]')).toBeNull();
  });

  it('keeps what is being written when the text before it is refused', () => {
    const line = typed('Much too long');
    line.value = 'Short';
    const say = { placeholder: 'Say something', problem: 'The text has 10,001 characters.' };
    view.update({ ...begun(), say });
    expect(line.value).toBe('Short');
  });

  it('is not there once the run has ended', () => {
    view.update(TRANSCRIPT);
    expect(input()).toBeNull();
  });

  it('goes with the kernel, and what waited was not sent', () => {
    view.update(cutOff(withUnsent(begun()), CUT_OFF));
    expect(input()).toBeNull();
    expect(texts().map(each => each.textContent)).toEqual([
      'Not sent: the run ended first: Rounded, <b>please</b>.'
    ]);
  });
});

describe('what a user said', () => {
  it('stands before the step that it went with, line by line and without markup', () => {
    view.update(TRANSCRIPT);
    const [step] = view.element.querySelectorAll('[aria-label="Step 2"]');
    expect(step.firstElementChild?.textContent).toBe(
      'You said: Leave out the West.\nIt has *no* data for Q3.'
    );
  });
});
