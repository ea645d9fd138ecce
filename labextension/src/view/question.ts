/** The form that answers a question to the user. */
import type { Question } from '../protocol';
import { h } from './dom';
import { answerForm, button, Decide, field } from './form';
import { reveal } from './reveal';

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
