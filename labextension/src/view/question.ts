/** A question to the user, and the form that answers it. */
import type { Question } from '../protocol';
import { Child, h } from './dom';
import { answerForm, button, Decide, field } from './form';
import { reveal } from './reveal';

/** Draw the question; with its choices as text where they are not buttons. */
export function questionText({ text, choices }: Question, withChoices: boolean): Child[] {
  const items = choices.map(choice => h('li', {}, reveal(choice)));
  return [
    h('p', { class: 'ipyagent-question' }, reveal(text)),
    withChoices && items.length > 0 ? h('ol', { class: 'ipyagent-choices' }, ...items) : null
  ];
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
    const rest = [
      own,
      button('send', 'Send', 'Send this answer', () => answer(own.value)),
      button('deny', 'Decline', 'Decline to answer', () => send({ decision: 'deny', reason: '' }))
    ];
    return [
      ...(picks.length > 0 ? [h('div', { class: 'ipyagent-picks' }, ...picks)] : []),
      ...rest
    ];
  });
}
