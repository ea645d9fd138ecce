/** Ways to go on after a run: a line for the next prompt, and requests that an answer proposes. */
import { h, setText } from './dom';
import { button, promptField } from './form';
import { host } from './host';
import { nameList } from './names';
import { withInlineCode } from './reveal';

/** The explorer’s words above a list of requests, and around a single one. */
const ABOVE_LIST = 'Try one of these:';
const SINGLE = /^Next: “(.+)”\.$/;

/** The model of the explorer, which proposes requests. */
export const EXPLORER = 'offline/explorer';

/** The line below a run that is over; it runs an agent cell below. */
export class FollowUpView {
  /** False once the user has chosen another model than the cell's. */
  isModelKept = true;

  readonly element = h('div', { class: 'ipyagent-say ipyagent-follow-up' });

  private input = promptField(
    'follow-up',
    'Ask a follow-up',
    'Ask a follow-up, in an agent cell below',
    () => {
      const prompt = this.input.value.trim();
      if (prompt !== '' && this.ask(prompt)) {
        this.input.value = '';
      }
    }
  );
  private problem = h('span', { class: 'ipyagent-note', role: 'status' });

  constructor() {
    this.element.dataset.lmSuppressShortcuts = 'true';
    if (host.lab !== null) {
      this.element.append(this.input, nameList(this.input), this.problem);
    }
  }

  /** Return a button that goes on where a run stopped, once; null without a notebook. */
  continueButton(): HTMLElement | null {
    const hint = 'Go on where this run stopped, in an agent cell below';
    const element = button('continue', 'Continue', hint, () => {
      element.disabled = this.ask('Continue');
    });
    return host.lab && element;
  }

  /** Make the requests that the explorer proposes in an answer buttons. */
  link(answer: Element): void {
    if (host.lab !== null) {
      answer.querySelectorAll('p').forEach(paragraph => this.linkBelow(paragraph));
    }
  }

  private linkBelow(paragraph: Element): void {
    const text = paragraph.textContent.trim();
    const list = paragraph.nextElementSibling;
    const single = SINGLE.exec(text);
    const offer = (prompt: string): HTMLElement => requestButton(prompt, () => this.ask(prompt));
    if (single !== null) {
      paragraph.replaceChildren('Next: ', offer(single[1]));
    } else if (text.endsWith(ABOVE_LIST) && list instanceof HTMLUListElement) {
      list.querySelectorAll('li').forEach(item => {
        item.replaceChildren(offer(item.textContent.trim()));
      });
    }
  }

  /** Ask in a cell below; return whether that worked. */
  private ask(prompt: string): boolean {
    const problem = host.lab?.askBelow(this.element, prompt, this.isModelKept) ?? null;
    setText(this.problem, problem ?? '');
    return problem === null;
  }
}

/** Return a button that asks in an agent cell below. */
export function requestButton(prompt: string, ask: () => void): HTMLElement {
  return button('request', withInlineCode(prompt), `Ask in a cell below: ${prompt}`, ask);
}
