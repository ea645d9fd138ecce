/** The checklist of a run: the newest that a call wrote, as `ipyagent.ui.checklist` has it. */
import type { Run, ToolExecution } from '../protocol';
import { h, Slot } from './dom';
import { reveal } from './reveal';

export interface Todo {
  readonly content: string;
  readonly status: keyof typeof SIGNS;
  readonly activeForm: string;
}

const SIGNS = { pending: '☐', in_progress: '▶', completed: '☑' } as const;
const WORDS = { pending: 'to do', in_progress: 'being done', completed: 'done' } as const;

/** A live list; hidden while there is none. */
export class TodosView {
  private slot = new Slot(
    h('ul', { class: 'ipyagent-todos', 'data-ipyagent': 'todos', 'aria-label': 'Tasks' })
  );

  readonly element = this.slot.element;

  update(run: Run | null): void {
    this.show(run === null ? [] : todosOf(run));
  }

  show(todos: Todo[]): void {
    this.element.hidden = todos.length === 0;
    this.slot.show(todos, () => todos.map(item));
  }
}

/** What a call that writes the checklist comes to, "" for other calls: "1 of 3 done". */
export function todoSummary({ call }: ToolExecution): string {
  const todos = call.name === 'todo_write' ? todosIn(call.arguments.todos) : [];
  const done = todos.filter(({ status }) => status === 'completed').length;
  return todos.length === 0 ? '' : `${done} of ${todos.length} done`;
}

function todosOf(run: Run): Todo[] {
  const written = run.steps
    .flatMap(step => step.executions)
    .filter(({ call, status }) => call.name === 'todo_write' && status === 'success')
    .at(-1);
  return written === undefined ? [] : todosIn(written.call.arguments.todos);
}

/** The tasks in a call's arguments; none where one of them is not one. */
export function todosIn(given: unknown): Todo[] {
  const todos = Array.isArray(given) ? given.map(todoIn) : [];
  return todos.every(todo => todo !== null) ? todos : [];
}

function todoIn(given: unknown): Todo | null {
  const todo = (given ?? {}) as Record<string, unknown>;
  const { content, status = 'pending' } = todo;
  const activeForm = todo.active_form ?? todo.activeForm ?? '';
  const isKnown = typeof status === 'string' && Object.hasOwn(SIGNS, status);
  return isKnown && typeof content === 'string' && content && typeof activeForm === 'string'
    ? { content, status: status as Todo['status'], activeForm }
    : null;
}

function item({ content, status, activeForm }: Todo): HTMLElement {
  const text = status === 'in_progress' && activeForm.trim() !== '' ? activeForm.trim() : content;
  const sign = { class: 'ipyagent-glyph', role: 'img', 'aria-label': WORDS[status] };
  const words = h('span', { class: 'ipyagent-todo-text' }, reveal(text));
  return h('li', { 'data-state': status }, h('span', sign, SIGNS[status]), words);
}
