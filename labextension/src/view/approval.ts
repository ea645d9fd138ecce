/** The question whether a call may run. */
import type { Choice } from '../protocol';
import { h } from './dom';

export type Decide = (decision: Choice, reason: string) => void;

const CHOICES: readonly (readonly [Choice, string])[] = [
  ['approve', 'Approve'],
  ['always', 'Always for this session'],
  ['deny', 'Deny']
];

/** Three buttons and a reason; the first press disables all of them. */
export function approvalForm(tool: string, decide: Decide): HTMLElement {
  const status = h('span', { class: 'ipyagent-sent' });
  const reason = h('input', {
    class: 'ipyagent-reason',
    type: 'text',
    placeholder: 'Reason (optional)',
    'data-ipyagent': 'reason',
    'aria-label': `Reason for the decision on ${tool} (optional)`
  });
  const buttons = CHOICES.map(([choice, label]) => button(choice, label, `${label}: ${tool}`));
  const controls = [...buttons, reason];
  const press = (choice: Choice): void => {
    if (!reason.disabled) {
      controls.forEach(control => (control.disabled = true));
      status.textContent = 'sent…';
      decide(choice, reason.value.trim());
    }
  };
  buttons.forEach((element, i) => element.addEventListener('click', () => press(CHOICES[i][0])));
  // The notebook's own shortcuts must not see what is typed here.
  const attributes = {
    class: 'ipyagent-approval',
    role: 'group',
    'data-lm-suppress-shortcuts': 'true'
  };
  return h('div', { ...attributes, 'aria-label': `May ${tool} run?` }, ...controls, status);
}

/** A real button; `name` is what scripts and tests find it by. */
export function button(name: string, label: string, description: string): HTMLButtonElement {
  const attributes = { type: 'button', class: `ipyagent-button ipyagent-button-${name}` };
  return h('button', { ...attributes, 'data-ipyagent': name, 'aria-label': description }, label);
}
