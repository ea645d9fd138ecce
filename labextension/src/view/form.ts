/** What a user answers with: groups of controls that say one thing, once. */
import type { Answer } from '../channel';
import type { Approval } from '../protocol';
import { Child, h, present } from './dom';
import { reveal, revealText } from './reveal';

export type Decide = (answer: Answer) => void;

/** A group of what `build` makes; the first answer disables all of it. */
export function answerForm(
  label: string,
  decide: Decide,
  build: (send: Decide) => Child[]
): HTMLElement {
  const status = h('span', { class: 'ipyagent-sent' });
  const form = h('div', {
    class: 'ipyagent-approval',
    role: 'group',
    'aria-label': revealText(label),
    // The notebook's own shortcuts must not see what is typed here.
    'data-lm-suppress-shortcuts': 'true'
  });
  let isSent = false;
  const send = (answer: Answer): void => {
    if (!isSent) {
      isSent = true;
      passFocus(form);
      form
        .querySelectorAll<Control>('button, input, textarea')
        .forEach(control => (control.disabled = true));
      status.textContent = 'sent…';
      decide(answer);
    }
  };
  // Told at once to those who do not see it come.
  const alert = h('p', { class: 'ipyagent-unseen', role: 'alert' }, reveal(label));
  form.append(alert, ...present(build(send)), status);
  return form;
}

/** What was asked about takes the keys: a control that is disabled would lose them to the page. */
function passFocus(form: HTMLElement): void {
  if (form.contains(document.activeElement)) {
    const about = form.closest('.ipyagent-tool, .ipyagent-plan');
    const next = about?.querySelector<HTMLElement>('summary') ?? form;
    form.tabIndex = -1;
    next.focus({ preventScroll: true });
  }
}

/** Mark where an approval is asked for, so that other parts of the page find it. */
export function markAsked(place: HTMLElement, approvalId: string | null): void {
  if (approvalId === null) {
    delete place.dataset.approval;
  } else {
    place.dataset.approval = approvalId;
  }
}

/** A real button; `name` is what scripts and tests find it by. */
export function button(
  name: string,
  label: Node | string,
  description: string,
  press: () => void
): HTMLButtonElement {
  const attributes = { type: 'button', class: `ipyagent-button ipyagent-button-${name}` };
  const named = { ...attributes, 'data-ipyagent': name, 'aria-label': revealText(description) };
  const element = h('button', named, label);
  element.addEventListener('click', press);
  return element;
}

/** A line of text; Enter is `enter`. */
export function field(
  name: string,
  placeholder: string,
  description: string,
  enter: () => void = () => undefined
): HTMLInputElement {
  const attributes = { class: 'ipyagent-reason', type: 'text', placeholder };
  const element = h('input', {
    ...attributes,
    'data-ipyagent': name,
    'aria-label': description
  });
  element.addEventListener('keydown', event => {
    // Enter may also end the writing of a character of many strokes.
    if (event.key === 'Enter' && !event.isComposing) {
      event.preventDefault();
      enter();
    }
  });
  return element;
}

type Control = HTMLButtonElement | HTMLInputElement | HTMLTextAreaElement;

/** A button for each way to decide, and a reason; `name` is the tool's. */
export function approvalForm(approval: Approval, name: string, decide: Decide): HTMLElement {
  return answerForm(approval.question, decide, send => {
    const reason = reasonField(name);
    const buttons = approval.choices.map(({ answer, label }) =>
      button(answer, label, `${label}: ${name}`, () =>
        send({ decision: answer, reason: reason.value.trim() })
      )
    );
    const { covers } = approval;
    const note = covers === '' ? null : h('p', { class: 'ipyagent-covers' }, reveal(covers));
    return [...buttons, reason, note];
  });
}

/** Where a user may say why. */
export function reasonField(about: string): HTMLInputElement {
  return field('reason', 'Reason (optional)', `Reason for the decision on ${about} (optional)`);
}
