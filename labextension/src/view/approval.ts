/** The question whether a call may run. */
import type { Approval } from '../protocol';
import { h } from './dom';
import { answerForm, button, Decide, field } from './form';
import { reveal } from './reveal';

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
