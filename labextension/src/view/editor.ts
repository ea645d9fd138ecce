/** Edits what is asked about: a call, or the steps of a plan. */
import { isObject } from '../channel';
import type { AskedCall, EditedCall } from '../protocol';
import { Child, h } from './dom';
import { button, codeField } from './form';
import type { TextEditor } from './host';
import { hiddenAsEscapes, reveal } from './reveal';

const NO_OBJECT = 'Arguments are a JSON object, such as {"path": "data.csv"}.';
const SAVE = 'Save changes; they are shown again, and asked about, before anything runs';

type Arguments = AskedCall['arguments'];

/** A form with a field for each call; several can be moved and removed. */
export class Editor {
  readonly element: HTMLElement;

  private parts: Part[];
  private list = h('div');

  /** `done` gets the calls in their new order; null without a change. */
  constructor(
    what: string,
    private items: readonly AskedCall[],
    private done: (edited: EditedCall[] | null) => void
  ) {
    this.parts = items.map(item => new Part(item, items.length > 1 ? this : null));
    const save = button('save', 'Save changes', SAVE, () => this.save());
    const leave = `Cancel: leave ${what} as it is`;
    const cancel = button('cancel-edit', 'Cancel', leave, () => done(null));
    const row = h('div', { class: 'ipyagent-approval' }, save, cancel);
    const attributes = { class: 'ipyagent-editor', role: 'group', 'aria-label': `Edit ${what}` };
    this.element = h('div', attributes, this.list, row);
    this.element.dataset.lmSuppressShortcuts = 'true';
    this.draw();
  }

  focus(): void {
    this.parts[0]?.field.content.focus();
  }

  dispose(): void {
    this.parts.forEach(part => part.field.dispose());
  }

  /** Move a part one place up (-1) or down (1). */
  move(part: Part, by: -1 | 1): void {
    const from = this.parts.indexOf(part);
    this.parts.splice(from, 1);
    this.parts.splice(from + by, 0, part);
    this.draw();
  }

  remove(part: Part): void {
    const at = this.parts.indexOf(part);
    this.parts.splice(at, 1);
    part.field.dispose();
    this.draw();
    this.parts[Math.min(at, this.parts.length - 1)].field.content.focus();
  }

  private draw(): void {
    this.parts.forEach((part, index) => part.place(index, this.parts.length));
    this.list.replaceChildren(...this.parts.map(part => part.element));
  }

  private save(): void {
    const edited = this.parts.map(part => part.read());
    if (edited.every(each => each !== null)) {
      const before = this.items.map(item => editedCall(item, item.arguments));
      this.done(JSON.stringify(edited) === JSON.stringify(before) ? null : edited);
    } else {
      this.parts[edited.indexOf(null)].field.content.focus();
    }
  }
}

/** The field for the arguments of a call: its code as text, or else all of them as JSON. */
class Part {
  readonly element: HTMLElement;
  readonly field: TextEditor;

  private error = h('p', { class: 'ipyagent-error', role: 'alert' });
  private before: string;
  /** The argument that is edited as code; null where all are as JSON, as code that hides characters. */
  private code: string | null;
  private number = h('span', { class: 'ipyagent-number' });
  private buttons: HTMLButtonElement[] = [];

  /** `editor` is null for a call that stands alone. */
  constructor(
    private item: AskedCall,
    editor: Editor | null
  ) {
    const { name, arguments: given, code, language } = item;
    const text = code === null ? null : given[code];
    const isText = typeof text === 'string' && hiddenAsEscapes(text) === text;
    this.code = isText ? code : null;
    this.before = isText ? text : hiddenAsEscapes(JSON.stringify(given, null, 2));
    const what = isText ? 'Code' : 'Arguments as JSON';
    const type = isText ? `text/x-${language}` : 'application/json';
    this.field = codeField('arguments', `${what} of ${name}`, this.before, type);
    const attributes = { class: 'ipyagent-editor-step', role: 'group', 'aria-label': name };
    const head = editor === null ? null : this.headOf(editor);
    this.element = h('div', attributes, head, this.field.element, this.error);
  }

  /** Show the number of a step; the only one cannot be removed. */
  place(index: number, of: number): void {
    this.number.textContent = `${index + 1}`;
    const isOff = [index === 0, index === of - 1, of === 1];
    this.buttons.forEach((each, at) => (each.disabled = isOff[at]));
  }

  /** Return the edited call; if its text is invalid, show why and return null. */
  read(): EditedCall | null {
    const given = this.parse(this.field.read());
    const isInvalid = typeof given === 'string';
    this.error.textContent = isInvalid ? given : '';
    this.field.content.setAttribute('aria-invalid', `${isInvalid}`);
    return isInvalid ? null : editedCall(this.item, given);
  }

  private headOf(editor: Editor): Child {
    const { name } = this.item;
    const press = (by: -1 | 1, at: number) => () => {
      editor.move(this, by);
      this.buttons[at].focus();
    };
    this.buttons = [
      button('up', '↑', `Move ${name} up`, press(-1, 0)),
      button('down', '↓', `Move ${name} down`, press(1, 1)),
      button('remove', 'Remove', `Remove ${name} from the plan`, () => editor.remove(this))
    ];
    const title = h('span', { class: 'ipyagent-tool-name' }, reveal(name));
    const row = h('span', { class: 'ipyagent-editor-buttons' }, ...this.buttons);
    return h('div', { class: 'ipyagent-editor-head' }, this.number, title, row);
  }

  /** Return the arguments that a text stands for, or what is wrong with it. */
  private parse(text: string): Arguments | string {
    const { arguments: given } = this.item;
    if (text === this.before) {
      return given;
    }
    if (this.code !== null) {
      return { ...given, [this.code]: text };
    }
    try {
      const parsed: unknown = JSON.parse(text);
      return isObject(parsed) ? parsed : NO_OBJECT;
    } catch (thrown) {
      return `This is not JSON: ${(thrown as Error).message}`;
    }
  }
}

function editedCall({ id, name, note }: AskedCall, given: Arguments): EditedCall {
  return { id, name, note, arguments: given };
}
