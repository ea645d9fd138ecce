/** An editor for plans: arguments as JSON, steps that can be moved and removed. */
import type { EditedStep, PlanStep } from '../protocol';
import { Child, h } from './dom';
import { button, textArea } from './form';
import { hiddenAsEscapes, reveal } from './reveal';

/** Called with the edited steps; null without a change. */
type Done = (plan: EditedStep[] | null) => void;

/** A form with one part for each step of the plan. */
export class PlanEditor {
  readonly element = h('div', {
    class: 'ipyagent-editor',
    role: 'group',
    'aria-label': 'Edit the plan',
    'data-lm-suppress-shortcuts': 'true'
  });

  private parts: StepEditor[];
  private list = h('div', { class: 'ipyagent-editor-steps' });

  constructor(
    private plan: readonly PlanStep[],
    done: Done
  ) {
    this.parts = plan.map(step => new StepEditor(step, this));
    const save = button('save', 'Save changes', 'Save changes to the plan', () => this.save(done));
    const cancel = button('cancel-edit', 'Cancel', 'Cancel: leave the plan as it is', () =>
      done(null)
    );
    const buttons = h('div', { class: 'ipyagent-approval' }, save, cancel);
    this.element.append(this.list, buttons);
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

  private save(done: Done): void {
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
export function readArguments(field: HTMLTextAreaElement, error: HTMLElement): object | null {
  const given = parseArguments(field.value);
  const problem = typeof given === 'string' ? given : '';
  error.textContent = problem;
  field.setAttribute('aria-invalid', `${problem !== ''}`);
  return typeof given === 'string' ? null : given;
}

/** Parse a JSON object; return the problem as a string. */
function parseArguments(text: string): object | string {
  try {
    const given: unknown = JSON.parse(text);
    const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
    return isObject ? given : 'Arguments are a JSON object, such as {"path": "data.csv"}.';
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
}
