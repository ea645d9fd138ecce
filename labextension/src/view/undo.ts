/** A button that undoes a run, or puts back what was undone, after showing what would happen. */
import { h, NO_SHORTCUTS } from './dom';
import { button } from './form';
import { host } from './host';
import { reveal } from './reveal';

/** Milliseconds until a kernel that does not answer is said to be busy. */
const PATIENCE = 500;

const LOST = ['The connection to the kernel was lost.'];

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
