/** Editors of what is asked about: a call, or the steps of a plan. */
import type { CallRequest, EditedStep, PlanStep } from '../protocol';
import { isObject } from '../model';
import { Child, h } from './dom';
import { button, textArea } from './form';
import { hiddenAsEscapes, reveal } from './reveal';

const NO_OBJECT = 'Arguments are a JSON object, such as {"path": "data.csv"}.';

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
  readonly field: ArgumentsField;
  readonly element: HTMLElement;

  private number = h('span', { class: 'ipyagent-number' });
  private buttons: HTMLButtonElement[];

  constructor(
    private step: PlanStep,
    plan: PlanEditor
  ) {
    const { name } = step;
    this.field = new ArgumentsField('arguments', name, step.request);
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
    this.element = h('div', attributes, head, ...this.field.elements);
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
    const given = this.field.read();
    return given && toEditedStep(this.step, given);
  }
}

function toEditedStep({ id, name, note }: PlanStep, given: object): EditedStep {
  return { call: { id, name, arguments: { ...given } }, note };
}

/** The field for the arguments of a call: its code as text, or else all of them as JSON. */
class ArgumentsField {
  readonly elements: [HTMLTextAreaElement, HTMLElement];

  private before: string;
  /** The argument that is code; null where all are edited as JSON. */
  private code: string | null;

  constructor(
    kind: string,
    name: string,
    private request: CallRequest
  ) {
    this.code = codeArgument(request);
    this.before =
      this.code === null
        ? hiddenAsEscapes(JSON.stringify(request.arguments, null, 2))
        : (request.arguments[this.code] as string);
    const what = this.code === null ? 'Arguments as JSON' : 'Code';
    const error = h('p', { class: 'ipyagent-error', role: 'alert' });
    this.elements = [textArea(kind, `${what} of ${name}`, this.before), error];
  }

  focus(): void {
    this.elements[0].focus();
  }

  /** Return the arguments; if they are invalid JSON, show why and return null. */
  read(): Record<string, unknown> | null {
    const [field, error] = this.elements;
    const given = this.parse(field.value);
    const problem = typeof given === 'string' ? given : '';
    error.textContent = problem;
    field.setAttribute('aria-invalid', `${problem !== ''}`);
    return typeof given === 'string' ? null : given;
  }

  /** Return the arguments that a text stands for, or what is wrong with it. */
  private parse(text: string): Record<string, unknown> | string {
    if (text === this.before) {
      return this.request.arguments;
    }
    if (this.code !== null) {
      return { ...this.request.arguments, [this.code]: text };
    }
    try {
      const given: unknown = JSON.parse(text);
      return isObject(given) ? { ...given } : NO_OBJECT;
    } catch (thrown) {
      return `This is not JSON: ${(thrown as Error).message}`;
    }
  }
}

/** An editor for a call that waits. */
export class CallEditor {
  readonly element: HTMLElement;

  private field: ArgumentsField;

  constructor(
    name: string,
    private request: CallRequest,
    done: Done<Record<string, unknown>>
  ) {
    this.field = new ArgumentsField('changed', name, request);
    const hint = 'Change this call; it is shown again, and asked about, before it runs';
    const save = button('change', 'Change', hint, () => this.save(done));
    this.element = frame(`Edit ${name}`, this.field.elements, save, 'call', () => done(null));
  }

  focus(): void {
    this.field.focus();
  }

  private save(done: Done<Record<string, unknown>>): void {
    const given = this.field.read();
    if (given === null) {
      this.field.focus();
    } else {
      done(given === this.request.arguments ? null : given);
    }
  }
}

/** Return the argument that is code, unless that hides characters; steps of a plan have no preview. */
function codeArgument({ preview, arguments: given }: CallRequest): string | null {
  const code = preview === null ? given.code : preview.kind === 'code' && preview.text;
  const isPlain = typeof code === 'string' && hiddenAsEscapes(code) === code;
  return Object.keys(given).find(name => isPlain && given[name] === code) ?? null;
}
