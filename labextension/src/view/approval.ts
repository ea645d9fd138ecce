/** The question whether a call may run. */
import type { Scope, ToolExecution } from '../protocol';
import { answerForm, button, Decide, field } from './form';

type Word = 'approve' | 'always' | 'folder' | 'deny';

/** The last is how far the answer goes; it is offered where the call says so. */
const CHOICES: readonly (readonly [Word, string, Scope])[] = [
  ['approve', 'Approve', 'once'],
  ['always', 'Always for this session', 'session'],
  ['folder', 'Always in this folder', 'folder'],
  ['deny', 'Deny', 'once']
];

/** The buttons that this call allows, and a reason. */
export function approvalForm({ call, scopes }: ToolExecution, decide: Decide): HTMLElement {
  const offered = CHOICES.filter(([, , scope]) => scope === 'once' || scopes.includes(scope));
  return answerForm(`May ${call.name} run?`, decide, send => {
    const reason = reasonField(call.name);
    const press = (decision: Word) => () => send({ decision, reason: reason.value.trim() });
    const buttons = offered.map(([word, label]) =>
      button(word, label, `${label}: ${call.name}`, press(word))
    );
    return [...buttons, reason];
  });
}

/** Where a person may say why. */
export function reasonField(about: string): HTMLInputElement {
  return field('reason', 'Reason (optional)', `Reason for the decision on ${about} (optional)`);
}
