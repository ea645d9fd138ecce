/** An editor for a call that waits: its code as text, or else its arguments as JSON. */
import type { CallRequest } from '../protocol';
import { h } from './dom';
import { readArguments } from './editor';
import { button, textArea } from './form';
import { hiddenAsEscapes } from './reveal';

/** Called with the changed arguments; null without a change. */
type Done = (given: Record<string, unknown> | null) => void;

export class CallEditor {
  readonly element: HTMLElement;

  private field: HTMLTextAreaElement;
  private error = h('p', { class: 'ipyagent-error', role: 'alert' });
  /** The argument that is code; null where all are edited as JSON. */
  private code: string | null;

  constructor(
    name: string,
    private request: CallRequest,
    done: Done
  ) {
    this.code = codeArgument(request);
    const what = this.code === null ? 'Arguments as JSON' : 'Code';
    this.field = textArea('changed', `${what} of ${name}`, this.textOf(request.arguments));
    const hint = 'Change this call; it is shown again, and asked about, before it runs';
    const buttons = [
      button('change', 'Change', hint, () => this.save(done)),
      button('cancel-edit', 'Cancel', 'Cancel: leave the call as it is', () => done(null))
    ];
    this.element = h(
      'div',
      {
        class: 'ipyagent-editor',
        role: 'group',
        'aria-label': `Edit ${name}`,
        'data-lm-suppress-shortcuts': 'true'
      },
      this.field,
      this.error,
      h('div', { class: 'ipyagent-approval' }, ...buttons)
    );
  }

  focus(): void {
    this.field.focus();
  }

  private textOf(given: Record<string, unknown>): string {
    return this.code === null
      ? hiddenAsEscapes(JSON.stringify(given, null, 2))
      : (given[this.code] as string);
  }

  private save(done: Done): void {
    const { value } = this.field;
    if (value === this.textOf(this.request.arguments)) {
      done(null);
    } else if (this.code !== null) {
      done({ ...this.request.arguments, [this.code]: value });
    } else {
      const given = readArguments(this.field, this.error);
      if (given === null) {
        this.field.focus();
      } else {
        done({ ...given });
      }
    }
  }
}

/** Return the argument whose text is the code that is shown, unless it hides characters. */
function codeArgument({ preview, arguments: given }: CallRequest): string | null {
  const isCode = preview?.kind === 'code' && hiddenAsEscapes(preview.text) === preview.text;
  const found = isCode ? Object.entries(given).find(([, value]) => value === preview.text) : null;
  return found?.[0] ?? null;
}
