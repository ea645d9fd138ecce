/** Ways to go on after a run: the next prompt, the requests of an answer, and undoing the run. */
import { h, NO_SHORTCUTS, setText } from './dom';
import { button, nameList, promptField } from './form';
import { host } from './host';
import { reveal, withInlineCode } from './reveal';

/** The explorer’s words above a list of requests, and around a single one. */
const ABOVE_LIST = 'Try one of these:';
const SINGLE = /^Next: “(.+)”\.$/;

/** The model of the explorer, which proposes requests. */
export const EXPLORER = 'offline/explorer';

/** The line below a run that is over; it runs an agent cell below. */
export class FollowUpView {
  /** False once the user has chosen another model than the cell's. */
  isModelKept = true;

  readonly element = h('div', { class: 'ipyagent-say ipyagent-follow-up', ...NO_SHORTCUTS });

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

/** Milliseconds until a kernel that does not answer is said to be busy. */
const PATIENCE = 500;

const LOST = ['The connection to the kernel was lost.'];

/** A button that undoes a run, or puts back what was undone, after showing what would happen. */
export class UndoView {
  readonly element = h('div', { class: 'ipyagent-undo', ...NO_SHORTCUTS });

  constructor(
    private runId: string,
    private isRedo = false
  ) {
    this.offer();
  }

  private offer(): void {
    this.element.replaceChildren(this.undoButton());
  }

  private undoButton(): HTMLElement {
    const hint = this.isRedo
      ? 'Show what putting this run there again would do'
      : 'Show what taking this run back would do';
    return button('undo', this.isRedo ? 'Redo…' : 'Undo…', hint, () => void this.ask(true));
  }

  private async ask(isDry: boolean): Promise<void> {
    const { runId } = this;
    const answer = host.lab?.ask(this.element, 'undo', { run_id: runId, dry_run: isDry });
    if (answer === undefined) {
      // In a fresh kernel there is no %agent yet; once it is loaded, the button works too.
      const how = `in a cell, run %load_ext ipyagent, then %agent undo ${runId}.`;
      this.show([`This page has no connection to ipyagent in a kernel: ${how}`]);
      this.element.append(this.undoButton());
      return;
    }
    const busy = 'A cell is running; this may have to wait for its end.';
    const waiting = window.setTimeout(() => this.show([busy]), PATIENCE);
    const reply = await answer.finally(() => window.clearTimeout(waiting));
    const { restored = [], skipped = LOST } = reply ?? {};
    this.show([...restored, ...skipped]);
    if (restored.length === 0) {
      this.element.append(this.undoButton());
    } else if (isDry) {
      const label = this.isRedo ? 'Put it back' : 'Take it back';
      const confirm = button('undo-confirm', label, 'Do this now', () => void this.ask(false));
      const cancel = button('undo-cancel', 'Leave it', 'Change nothing', () => this.offer());
      this.element.append(confirm, cancel);
    }
  }

  private show(lines: string[]): void {
    const items = lines.map(line => h('li', {}, reveal(line)));
    const report = { 'data-ipyagent': 'undo-report', role: 'status' };
    this.element.replaceChildren(h('div', report, h('ul', {}, ...items)));
  }
}
