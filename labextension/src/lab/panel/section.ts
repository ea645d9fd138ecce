/** A section of the panel that can be folded, and the panel's state and actions. */
import type { Answer } from '../../channel';
import type { Overview, PendingApproval } from '../../protocol';
import { Child, h, setText } from '../../view/dom';
import { reveal } from '../../view/reveal';

export class Section {
  readonly body: HTMLElement;
  readonly element: HTMLElement;

  private details = h('details', { open: '' });
  private title = h('summary');
  private badge = h('span', { class: 'ipyagent-panel-badge', 'aria-live': 'polite' });

  /** `name` identifies it for scripts and tests. */
  constructor(name: string, heading: string, ...children: Child[]) {
    this.body = h('div', { class: 'ipyagent-panel-body' }, ...children);
    this.title.append(h('h3', {}, heading), this.badge);
    this.details.append(this.title, this.body);
    const attributes = { class: 'ipyagent-panel-section', 'data-ipyagent': `panel-${name}` };
    this.element = h('section', { ...attributes, 'aria-label': heading }, this.details);
  }

  /** Show or hide it, with a number or a few words beside its heading. */
  show(isShown: boolean, badge = ''): void {
    this.element.hidden = !isShown;
    setText(this.badge, badge);
  }

  /** Apply a change; if that removes the focused element, focus the heading. */
  keepFocus(change: () => void): void {
    const hadFocus = this.body.contains(document.activeElement);
    change();
    if (hadFocus && !this.body.contains(document.activeElement)) {
      this.title.focus();
    }
  }
}

/** Return a row's title above its notes. */
export function titleWithNotes(title: string, notes: readonly string[]): HTMLElement {
  return h(
    'span',
    { class: 'ipyagent-panel-words' },
    h('span', { class: 'ipyagent-panel-prompt' }, reveal(title)),
    h('span', { class: 'ipyagent-note' }, reveal(notes.join(' · ')))
  );
}

export interface PanelState {
  /** The notebook's name; null while none is open. */
  readonly notebook: string | null;
  /** Null without ipyagent. */
  readonly overview: Overview | null;
  /** False while decisions cannot reach the kernel. */
  readonly isReachable: boolean;
  /** The cells of the kernel's open notebooks. */
  readonly cells: ReadonlySet<string>;
  /** Prompts that fit the variables and files; null while the kernel has not said them. */
  readonly prompts: readonly string[] | null;
  /** False where no agent cell can be added. */
  readonly canAdd: boolean;
  /** True if the user has not decided on notifications yet. */
  readonly canNotify: boolean;
}

export interface PanelActions {
  decide(asked: PendingApproval, approvalId: string, answer: Answer): void;
  stop(runId: string): void;
  jump(cellId: string): void;
  resume(sessionId: string): void;
  /** Ask the kernel for the models, once the named one was chosen. */
  models(chosen: string | null): Promise<unknown>;
  add(): void;
  /** Run a prompt in a new cell. */
  ask(prompt: string): void;
  /** Insert cells with a small table and a prompt about it. */
  insertExample(): void;
  notify(): void;
}
