/** Editors of what is asked about: a call, or the steps of a plan. */
import type { CallRequest, EditedStep, PlanStep } from '../protocol';
import { isObject } from '../model';
import { Child, h } from './dom';
import { button, textArea } from './form';
import { hiddenAsEscapes, reveal } from './reveal';

/** Called with the change; null without one. */
type Done<T> = (changed: T | null) => void;

/** Return the frame of an editor, with its buttons. */
function frame(
  label: string,
  content: Child[],
  save: HTMLElement,
  what: string,
  cancel: () => void
): HTMLElement {
  const attributes = { class: 'ipyagent-editor', role: 'group', 'aria-label': label };
  const leave = button('cancel-edit', 'Cancel', `Cancel: leave the ${what} as it is`, cancel);
  const buttons = h('div', { class: 'ipyagent-approval' }, save, leave);
  return h('div', { ...attributes, 'data-lm-suppress-shortcuts': 'true' }, ...content, buttons);
}

/** A form with one part for each step of the plan. */
export class PlanEditor {
  readonly element: HTMLElement;

  private parts: StepEditor[];
  private list = h('div', { class: 'ipyagent-editor-steps' });

  constructor(
    private plan: readonly PlanStep[],
    done: Done<EditedStep[]>
  ) {
    this.parts = plan.map(step => new StepEditor(step, this));
    const save = button('save', 'Save changes', 'Save changes to the plan', () => this.save(done));
    this.element = frame('Edit the plan', [this.list], save, 'plan', () => done(null));
    this.draw();
  }

  /** Focus the first step. */
  focus(): void {
    this.parts[0]?.field.focus();
  }

  /** Move a step one place up (-1) or down (1). */
  move(part: StepEditor, by: -1 | 1): void {
    const from = this.parts.indexOf(part);
    this.parts.splice(from, 1);
    this.parts.splice(from + by, 0, part);
    this.draw();
  }

  /** Remove a step. */
  remove(part: StepEditor): void {
    const at = this.parts.indexOf(part);
    this.parts.splice(at, 1);
    this.draw();
    this.parts[Math.min(at, this.parts.length - 1)].field.focus();
  }

  private draw(): void {
    this.parts.forEach((part, index) => part.place(index, this.parts.length));
    this.list.replaceChildren(...this.parts.map(part => part.element));
  }

  private save(done: Done<EditedStep[]>): void {
    const steps = this.parts.map(part => part.read());
    if (steps.every(step => step !== null)) {
      const before = this.plan.map(step => toEditedStep(step, step.request.arguments));
      done(JSON.stringify(steps) === JSON.stringify(before) ? null : steps);
    } else {
      this.parts[steps.indexOf(null)].field.focus();
    }
  }
}

/** One step: its arguments, and its place in the plan. */
class StepEditor {
  readonly field: HTMLTextAreaElement;
  readonly element: HTMLElement;

  private number = h('span', { class: 'ipyagent-number' });
  private error = h('p', { class: 'ipyagent-error', role: 'alert' });
  private buttons: HTMLButtonElement[];

  constructor(
    private step: PlanStep,
    plan: PlanEditor
  ) {
    const { name } = step;
    const given = hiddenAsEscapes(JSON.stringify(step.request.arguments, null, 2));
    this.field = textArea('arguments', `Arguments of ${name} as JSON`, given);
    const press = (by: -1 | 1, at: number) => () => {
      plan.move(this, by);
      this.buttons[at].focus();
    };
    this.buttons = [
      button('up', '↑', `Move ${name} up`, press(-1, 0)),
      button('down', '↓', `Move ${name} down`, press(1, 1)),
      button('remove', 'Remove', `Remove ${name} from the plan`, () => plan.remove(this))
    ];
    const title: Child[] = [
      this.number,
      h('span', { class: 'ipyagent-tool-name' }, reveal(name)),
      h('span', { class: 'ipyagent-editor-buttons' }, ...this.buttons)
    ];
    const head = h('div', { class: 'ipyagent-editor-head' }, ...title);
    const attributes = { class: 'ipyagent-editor-step', role: 'group', 'aria-label': name };
    this.element = h('div', attributes, head, this.field, this.error);
  }

  /** Show the step's number; the only step cannot be removed. */
  place(index: number, of: number): void {
    this.number.textContent = `${index + 1}`;
    const [up, down, remove] = this.buttons;
    up.disabled = index === 0;
    down.disabled = index === of - 1;
    remove.disabled = of === 1;
  }

  /** Return the edited step; if its JSON is invalid, show why and return null. */
  read(): EditedStep | null {
    const given = readArguments(this.field, this.error);
    return given && toEditedStep(this.step, given);
  }
}

function toEditedStep({ id, name, note }: PlanStep, given: object): EditedStep {
  return { call: { id, name, arguments: { ...given } }, note };
}

/** Return the arguments in a field; null without any, with the problem shown. */
function readArguments(field: HTMLTextAreaElement, error: HTMLElement): object | null {
  let given: unknown = null;
  let problem = '';
  try {
    given = JSON.parse(field.value);
    problem = isObject(given) ? '' : 'Arguments are a JSON object, such as {"path": "data.csv"}.';
  } catch (thrown) {
    problem = `This is not JSON: ${(thrown as Error).message}`;
  }
  error.textContent = problem;
  field.setAttribute('aria-invalid', `${problem !== ''}`);
  return isObject(given) ? given : null;
}

/** An editor for a call that waits: its code as text, or else its arguments as JSON. */
export class CallEditor {
  readonly element: HTMLElement;

  private field: HTMLTextAreaElement;
  private error = h('p', { class: 'ipyagent-error', role: 'alert' });
  /** The argument that is code; null where all are edited as JSON. */
  private code: string | null;

  constructor(
    name: string,
    private request: CallRequest,
    done: Done<Record<string, unknown>>
  ) {
    this.code = codeArgument(request);
    const what = this.code === null ? 'Arguments as JSON' : 'Code';
    this.field = textArea('changed', `${what} of ${name}`, this.textOf(request.arguments));
    const hint = 'Change this call; it is shown again, and asked about, before it runs';
    const save = button('change', 'Change', hint, () => this.save(done));
    const content = [this.field, this.error];
    this.element = frame(`Edit ${name}`, content, save, 'call', () => done(null));
  }

  focus(): void {
    this.field.focus();
  }

  private textOf(given: Record<string, unknown>): string {
    return this.code === null
      ? hiddenAsEscapes(JSON.stringify(given, null, 2))
      : (given[this.code] as string);
  }

  private save(done: Done<Record<string, unknown>>): void {
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
