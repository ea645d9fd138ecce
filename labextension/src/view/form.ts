/** Buttons, fields, names after `@` in a field, and forms for a decision, which are sent once. */
import type { Answer } from '../channel';
import type { Approval, Question } from '../protocol';
import { Child, h } from './dom';
import { host, type TextEditor } from './host';
import { reveal } from './reveal';

/** Lines of a prompt that are in sight. */
const MOST_ROWS = 8;

export type Decide = (answer: Answer) => void;

/** Return a form with the controls of `build`; the first answer disables all. */
export function answerForm(
  label: string,
  decide: Decide,
  build: (send: Decide) => Child[]
): HTMLElement {
  let isSent = false;
  const send = (answer: Answer): void => {
    if (!isSent) {
      isSent = true;
      passFocus(form);
      form
        .querySelectorAll<HTMLButtonElement>('button, input, textarea')
        .forEach(control => (control.disabled = true));
      status.textContent = 'sent…';
      decide(answer);
    }
  };
  const status = h('span', { class: 'ipyagent-sent', role: 'status' });
  const name = reveal(label);
  // Announced by screen readers at once.
  const spoken = h('p', { class: 'ipyagent-unseen', role: 'alert' }, name);
  const attributes = { class: 'ipyagent-approval', role: 'group', 'aria-label': name };
  const form = h('div', attributes, spoken, ...build(send), status);
  // The notebook's own shortcuts must not see what is typed here.
  form.dataset.lmSuppressShortcuts = 'true';
  return form;
}

/** Move the focus from a form to its card: a disabled control would lose it. */
export function passFocus(form: HTMLElement): void {
  if (form.contains(document.activeElement)) {
    const about = form.closest('details');
    const next = about?.querySelector<HTMLElement>('summary') ?? form;
    form.tabIndex = -1;
    next.focus({ preventScroll: true });
  }
}

/** Return a button; `name` identifies it for scripts and tests, and its key if it has one. */
export function button(
  name: string,
  label: Node | string,
  description: string,
  press: () => void
): HTMLButtonElement {
  const attributes = { type: 'button', class: `ipyagent-button ipyagent-button-${name}` };
  const text = reveal(description);
  const key = host.keys[name];
  const title = key === undefined ? text : `${text} (${key})`;
  const named = { 'data-ipyagent': name, 'aria-label': nameOf(label, text), title };
  const element = h('button', { ...attributes, ...named }, label);
  element.addEventListener('click', press);
  return element;
}

/** Return a button's name, which holds its label: a user who speaks to it says that. */
export function nameOf(label: Node | string, description: string): string {
  const words = typeof label === 'string' ? wordsOf(label) : '';
  const isIn = wordsOf(description).toLowerCase().includes(words.toLowerCase());
  return isIn ? description : `${words}: ${description}`;
}

function wordsOf(text: string): string {
  return text.replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
}

/** Return a text field; Enter calls `enter`. */
export function field(
  name: string,
  placeholder: string,
  description: string,
  enter: () => void = () => undefined
): HTMLInputElement {
  const named = { 'data-ipyagent': name, 'aria-label': description, placeholder };
  return withEnter(h('input', { class: 'ipyagent-reason', type: 'text', ...named }), enter);
}

/** Return a field for a prompt: Enter calls `enter`, with Shift it begins a line. */
export function promptField(
  name: string,
  placeholder: string,
  description: string,
  enter: () => void
): HTMLTextAreaElement {
  const named = { 'data-ipyagent': name, 'aria-label': description, placeholder };
  const field = h('textarea', { class: 'ipyagent-reason', rows: '1', ...named });
  const element = keepLineBreaks(withEnter(field, enter));
  const grow = (): void => {
    element.rows = Math.min(MOST_ROWS, element.value.split('\n').length);
  };
  ['input', 'focus', 'blur'].forEach(type => element.addEventListener(type, grow));
  return element;
}

function withEnter<T extends HTMLElement>(element: T, enter: () => void): T {
  element.addEventListener('keydown', event => {
    // Enter may also confirm a character of an input method.
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      enter();
    }
  });
  return element;
}

/** Keep line breaks: JupyterLab cancels each one within a cell, which its editor handles itself. */
function keepLineBreaks(element: HTMLTextAreaElement): HTMLTextAreaElement {
  const keepLineBreak = (event: InputEvent): void => {
    if (event.inputType === 'insertLineBreak') {
      event.stopImmediatePropagation();
    }
  };
  element.addEventListener('beforeinput', keepLineBreak, { capture: true });
  return element;
}

/** A mention as the kernel parses it: `@` and a name, not within a word such as an address. */
const MENTION = /(?:^|[^\p{L}\p{N}_@])(@[\p{L}\p{N}_./-]*)$/u;

/** Return the mention at the end of a text; null if there is none. */
export function findMention(text: string): string | null {
  return MENTION.exec(text)?.[1] ?? null;
}

/** Return the list below a field, of names that fit: Tab takes the first one, a press each. */
export function nameList(field: HTMLTextAreaElement): HTMLElement {
  const list = h('div', { class: 'ipyagent-names', role: 'group', 'aria-label': 'Names' });
  let asked = 0;
  const mention = (): string | null => findMention(field.value.slice(0, field.selectionStart));
  const clear = (): void => {
    field.focus(); // before what has the focus goes
    list.replaceChildren();
  };
  const take = (name: string): void => {
    const { selectionStart: end } = field;
    field.setRangeText(name, end - (mention() ?? '').length, end, 'end');
    clear();
  };
  field.addEventListener('input', () => {
    const [number, typed] = [++asked, mention()];
    void (typed === null ? null : host.lab?.ask(field, 'complete', { text: typed }))?.then(
      reply => {
        if (number === asked) {
          const { names = [] } = reply ?? {};
          const draw = (name: string): HTMLElement =>
            button('name', reveal(name), `Insert ${name}`, () => take(name));
          list.replaceChildren(...names.filter(name => name !== typed).map(draw));
        }
      }
    );
    list.replaceChildren();
  });
  const onKey = (event: KeyboardEvent): void => {
    const first = list.querySelector('button');
    const act = { Escape: clear, Tab: () => first?.click(), ArrowDown: () => first?.focus() };
    const isInField = event.target === field && !event.shiftKey;
    if (event.key === 'Enter' && isInField) {
      asked += 1;
      list.replaceChildren();
    } else if (first !== null && event.key in act && (isInField || event.key === 'Escape')) {
      act[event.key as keyof typeof act]();
      event.preventDefault();
    }
  };
  field.addEventListener('keydown', onKey);
  list.addEventListener('keydown', onKey);
  return list;
}

/** Return a field for code or JSON: JupyterLab's editor, where there is one. */
export function codeField(
  name: string,
  description: string,
  text: string,
  mimeType: string
): TextEditor {
  const editor = host.lab?.edit(text, mimeType) ?? textArea(text);
  editor.content.dataset.ipyagent = name;
  editor.content.ariaLabel = description;
  return editor;
}

/** Return a field for text with a fixed width. */
function textArea(text: string): TextEditor {
  const element = h('textarea', { class: 'ipyagent-pre', spellcheck: 'false' });
  element.value = text;
  element.rows = Math.min(16, text.split('\n').length + 1);
  element.addEventListener('keydown', event => {
    if (event.key === 'Tab' && !event.shiftKey && !event.ctrlKey) {
      event.preventDefault();
      element.setRangeText('    ', element.selectionStart, element.selectionEnd, 'end');
    }
  });
  keepLineBreaks(element);
  return { element, content: element, read: () => element.value, dispose: () => undefined };
}

/**
 * Return a form with a button for each choice, one to `edit` (null for none), and a reason; one that
 * approves once and does `more`, if that is given.
 */
export function approvalForm(
  approval: Approval,
  about: string,
  decide: Decide,
  edit: ((send: Decide) => void) | null,
  more: (() => void) | null = null
): HTMLElement {
  return answerForm(approval.question, decide, send => {
    const hint = 'Reason (optional)';
    const reason = field('reason', hint, `Reason for the decision on ${about} (optional)`);
    const [once, lasting] = [true, false].map(isOnce =>
      approval.choices
        .filter(({ answer }) => (answer === 'approve' || answer === 'deny') === isOnce)
        .map(({ answer, label }) =>
          button(answer, label, `${label}: ${about}`, () =>
            send({ decision: answer, reason: reason.value.trim() })
          )
        )
    );
    const change = edit && button('edit', '✎ Edit', `Edit ${about}`, () => edit(send));
    const press = (): void => {
      more?.();
      send({ decision: 'approve', reason: reason.value.trim() });
    };
    const what = `Approve ${about}, and run the cell`;
    const both = more && button('approve-run', 'Approve and run', what, press);
    return [...once, both, reason, change, alwaysMenu(lasting, approval.covers)];
  });
}

/** Return a menu of approvals that last, which says what they cover; null without any. */
function alwaysMenu(buttons: readonly Child[], covers: string): HTMLElement | null {
  const note = covers === '' ? null : h('p', { class: 'ipyagent-covers' }, reveal(covers));
  const head = h('summary', { class: 'ipyagent-button', 'data-ipyagent': 'more-ways' }, 'Always…');
  const menu = h('details', { class: 'ipyagent-always' }, head, ...buttons, note);
  return buttons.length === 0 ? null : menu;
}

/** Return a form with a button for each choice, a text field, and a button that declines. */
export function questionForm({ text, choices }: Question, decide: Decide): HTMLElement {
  return answerForm(`Question: ${text}`, decide, send => {
    const answer = (words: string): void => {
      if (words.trim() !== '') {
        send({ decision: 'answer', text: words });
      }
    };
    const hint = choices.length > 0 ? 'or an answer of your own' : 'Your answer';
    const own = field('answer-field', hint, `Answer to: ${text}`, () => answer(own.value));
    const picks = choices.map(choice =>
      button('choice', reveal(choice), `Answer: ${choice}`, () => answer(choice))
    );
    return [
      picks.length > 0 ? h('div', { class: 'ipyagent-picks' }, ...picks) : null,
      own,
      button('send', 'Send', 'Send this answer', () => answer(own.value)),
      button('deny', 'Decline', 'Decline to answer', () => send({ decision: 'deny', reason: '' }))
    ];
  });
}
