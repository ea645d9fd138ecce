/** The checklist of a run. */
import type { Todo } from '../protocol';
import { h, Slot } from './dom';
import { reveal } from './reveal';

/** A live list; hidden while there is none. */
export class TodosView {
  private slot = new Slot(
    h('ul', { class: 'ipyagent-todos', 'data-ipyagent': 'todos', 'aria-label': 'Tasks' })
  );

  readonly element = this.slot.element;

  update(todos: Todo[]): void {
    this.element.hidden = todos.length === 0;
    this.slot.show(todos, () => todos.map(item));
  }
}

function item({ status, glyph, status_text, text }: Todo): HTMLElement {
  const sign = { class: 'ipyagent-glyph', role: 'img', 'aria-label': status_text };
  const words = h('span', { class: 'ipyagent-todo-text' }, reveal(text));
  return h('li', { 'data-state': status }, h('span', sign, glyph), words);
}
