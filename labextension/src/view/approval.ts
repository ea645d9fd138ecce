/** The question whether a call may run. */
import type { Scope, ToolExecution } from '../protocol';
import { h } from './dom';
import { answerForm, button, Decide, field } from './form';
import { reveal } from './reveal';

type Word = 'approve' | 'always' | 'folder' | 'deny';

/** The last is how far the answer goes; it is offered where the call says so. */
const CHOICES: readonly (readonly [Word, string, Scope])[] = [
  ['approve', 'Approve', 'once'],
  ['always', 'Always for this session', 'session'],
  ['folder', 'Always in this folder', 'folder'],
  ['deny', 'Deny', 'once']
];

/** The buttons that this call allows, and a reason. */
export function approvalForm(execution: ToolExecution, decide: Decide): HTMLElement {
  const { call, scopes, covers } = execution;
  const offered = CHOICES.filter(([, , scope]) => scope === 'once' || scopes.includes(scope));
  return answerForm(`May ${call.name} run?`, decide, send => {
    const reason = reasonField(call.name);
    const press = (decision: Word) => () => send({ decision, reason: reason.value.trim() });
    const buttons = offered.map(([word, label]) =>
      button(word, label, `${label}: ${call.name}`, press(word))
    );
    const note = scopes.length > 0 && covers !== null ? `Always covers ${covers}.` : null;
    return [...buttons, reason, note && h('p', { class: 'ipyagent-covers' }, reveal(note))];
  });
}

/** Where a person may say why. */
export function reasonField(about: string): HTMLInputElement {
  return field('reason', 'Reason (optional)', `Reason for the decision on ${about} (optional)`);
}
