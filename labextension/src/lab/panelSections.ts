/** The sections of the side panel: approvals, plan, runs, variables and sessions. */
import { approvalKey } from '../channel';
import type {
  Overview,
  PendingApproval,
  PlanStepLine,
  RunLine,
  SessionLine,
  Todo,
  VariableLine
} from '../protocol';
import { AskedView } from '../view/asked';
import { Child, h, setText, Slot, Views } from '../view/dom';
import { button } from '../view/form';
import { reveal } from '../view/reveal';
import type { PanelActions, PanelState } from './panel';

class Section {
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

/** A list of things of one kind. */
interface List<T> {
  items(state: PanelState): readonly T[];
  /** Identifies an item, whose row stays. */
  key(item: T): string;
  /** Draws a row again when its item has changed. */
  draw(item: T, row: HTMLElement): Child[];
}

/** A part of the panel. */
export interface Part {
  readonly element: HTMLElement;
  update(state: PanelState): void;
}

/** Return a section with a list, which is hidden while it is empty. */
export function listSection<T>(name: string, heading: string, of: List<T>): Part {
  const list = h('ul', { class: 'ipyagent-panel-list' });
  const section = new Section(`${name}s`, heading, list);
  const make = () => {
    const attributes = { class: `ipyagent-panel-row ipyagent-panel-${name}` };
    const row = new Slot(h('li', { ...attributes, 'data-ipyagent': `panel-${name}` }));
    const update = (item: T): void => row.show(item, () => of.draw(item, row.element));
    return { element: row.element, update };
  };
  const rows = new Views(list, make, (item: T) => of.key(item));
  return {
    element: section.element,
    update(state) {
      const items = of.items(state);
      section.show(items.length > 0, `${items.length}`);
      section.keepFocus(() => rows.update(items));
    }
  };
}

/** An approval that a cell waits for, or a plan that no cell asks about. */
interface Item {
  readonly approval: PendingApproval;
  readonly prompt: string;
  /** Null if the cell was deleted. */
  readonly cellId: string | null;
}

/** Return the section with all that waits. */
export function approvalsSection(actions: PanelActions): Part {
  const list = h('div');
  const nothing = h('p', { class: 'ipyagent-note' });
  const notify = button(
    'enable-notifications',
    'Notify me when I look elsewhere',
    'Notify me when an approval waits and this page is in the background',
    () => actions.notify()
  );
  const section = new Section('approvals', 'Waiting for you', nothing, list, notify);
  const make = ({ approval }: Item): Card => new Card(actions, approval);
  const cards = new Views(list, make, ({ approval }) => approvalKey(approval));
  return {
    element: section.element,
    update({ overview, isReachable, canNotify, cells }) {
      const items = overview === null || !isReachable ? [] : listItems(overview, cells);
      section.show(overview !== null, items.length > 0 ? `${items.length}` : '');
      section.keepFocus(() => cards.update(items));
      nothing.hidden = items.length > 0;
      nothing.textContent = isReachable
        ? 'Nothing waits for you.'
        : 'The kernel cannot be reached now, so nothing can be decided here.';
      notify.hidden = !canNotify || items.length === 0;
    }
  };
}

/** Return the number of approvals and plans that wait. */
export function countWaiting({ approvals, waiting }: Overview): number {
  return approvals.length + (waiting === null ? 0 : 1);
}

/** A question below its prompt, and a button that leads to its cell. */
class Card {
  readonly element = h('article', {
    class: 'ipyagent-panel-card',
    'data-ipyagent': 'panel-approval'
  });

  private head = new Slot(h('div', { class: 'ipyagent-panel-about' }));
  private asked: AskedView;

  constructor(
    private actions: PanelActions,
    approval: PendingApproval
  ) {
    this.asked = new AskedView((id, answer) => actions.decide(approval, id, answer));
    this.element.append(this.head.element, this.asked.element);
  }

  update({ approval, prompt, cellId }: Item): void {
    this.element.dataset.run = approval.run_id;
    this.element.setAttribute('aria-label', `Waiting for you: ${approval.about}`);
    this.head.show([prompt, cellId], () => [
      h('span', { class: 'ipyagent-panel-prompt' }, reveal(prompt)),
      cellId === null
        ? null
        : button('jump', 'Go to cell', 'Go to the cell that asks', () => this.actions.jump(cellId))
    ]);
    this.asked.update(approval.html, approval.asked);
  }

  dispose(): void {
    this.asked.dispose();
  }
}

function listItems({ approvals, waiting, runs }: Overview, cells: ReadonlySet<string>): Item[] {
  return [...approvals, ...(waiting === null ? [] : [waiting])].map(approval => ({
    approval,
    prompt: runs.find(({ id }) => id === approval.run_id)?.title ?? '',
    cellId: approval.cell_id !== null && cells.has(approval.cell_id) ? approval.cell_id : null
  }));
}

/** Return the newest run's plan and tasks; a waiting plan is among the approvals. */
export function planSection(): Part {
  const list = new Slot(h('ol', { class: 'ipyagent-panel-plan', 'aria-label': 'Plan' }));
  const tasks = new Slot(
    h('ul', { class: 'ipyagent-panel-plan', 'data-ipyagent': 'todos', 'aria-label': 'Tasks' })
  );
  const section = new Section('plan', 'Plan and tasks', list.element, tasks.element);
  return {
    element: section.element,
    update({ overview }) {
      const { plan = [], todos = [], done = '' } = overview ?? {};
      section.show(done !== '', done);
      list.element.hidden = plan.length === 0;
      list.show(plan, () => plan.map(stepOf));
      tasks.element.hidden = todos.length === 0;
      tasks.show(todos, () => todos.map(taskOf));
    }
  };
}

function stepOf(step: PlanStepLine): HTMLElement {
  const name = h('span', { class: 'ipyagent-tool-name' }, reveal(step.name));
  const words = h('span', { class: 'ipyagent-panel-step' }, name, ' ', reveal(step.note));
  return h('li', { 'data-state': step.status }, glyph(step), words);
}

function taskOf(todo: Todo): HTMLElement {
  const words = h('span', { class: 'ipyagent-panel-step' }, reveal(todo.text));
  return h('li', { 'data-state': todo.status }, glyph(todo), words);
}

/** Return a status glyph with an accessible name. */
function glyph({ glyph, status_text }: Pick<Todo, 'glyph' | 'status_text'>): HTMLElement {
  const named = { role: 'img', 'aria-label': status_text, title: status_text };
  return h('span', { class: 'ipyagent-glyph', ...named }, glyph);
}

/** Runs, newest first; `cellId` is null if the cell was deleted. */
export function runs(
  actions: PanelActions
): List<{ readonly run: RunLine; readonly cellId: string | null }> {
  return {
    items: ({ overview, cells }) =>
      (overview?.runs.toReversed() ?? []).map(run => ({
        run,
        cellId: run.cell_id !== null && cells.has(run.cell_id) ? run.cell_id : null
      })),
    key: ({ run }) => run.id,
    draw: ({ run, cellId }, row) => {
      row.dataset.state = run.state;
      return [
        jumpButton(run, cellId, actions),
        run.live ? button('stop', '■ Stop', 'Stop this run', () => actions.stop(run.id)) : null
      ];
    }
  };
}

/** Return a run's line, which leads to its cell. */
function jumpButton(run: RunLine, cellId: string | null, actions: PanelActions): HTMLElement {
  const { title, facts, glyph, state_text } = run;
  const where = cellId === null ? 'Its cell is gone.' : 'Go to its cell.';
  const content = document.createDocumentFragment();
  content.append(
    h('span', { class: 'ipyagent-glyph', 'aria-hidden': 'true' }, glyph),
    titleWithNotes(title, cellId === null ? [...facts, 'its cell is gone'] : facts)
  );
  const element = button('jump', content, `${title}: ${state_text}. ${where}`, () =>
    actions.jump(cellId ?? '')
  );
  element.disabled = cellId === null;
  return element;
}

/** The last change of each variable that runs touched. */
export const variables: List<VariableLine> = {
  items: ({ overview }) => overview?.variables ?? [],
  key: ({ name }) => name,
  draw: ({ name, change, type }, row) => {
    row.dataset.change = change;
    return [
      h('code', {}, reveal(name)),
      h('span', { class: 'ipyagent-panel-type' }, reveal(type)),
      h('span', { class: 'ipyagent-note' }, change)
    ];
  }
};

/** Sessions, with a button that resumes one. */
export function sessions(
  actions: PanelActions
): List<{ readonly session: SessionLine; readonly canResume: boolean }> {
  return {
    items: ({ overview, isReachable }) => {
      const isFree = isReachable && !overview?.runs.some(({ live }) => live);
      return (overview?.sessions ?? []).map(session => ({
        session,
        canResume: isFree && !session.current && !session.ended
      }));
    },
    key: ({ session }) => session.id,
    draw: ({ session: { id, name, current, ended, at }, canResume }, row) => {
      row.dataset.state = current ? 'current' : ended ? 'ended' : 'open';
      const notes = [...(current ? ['current'] : ended ? ['ended'] : []), when(at)];
      const hint = `Go on with the session ${name}`;
      return [
        titleWithNotes(name || id.slice(0, 8), notes),
        canResume ? button('resume', 'Go on', hint, () => actions.resume(id)) : null
      ];
    }
  };
}

/** Format today's times as time, others as date. */
function when(at: string): string {
  const moment = new Date(at);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday
    ? moment.toTimeString().slice(0, 5)
    : moment.toLocaleDateString(undefined, { dateStyle: 'medium' });
}

/** Return a row's title above its notes. */
function titleWithNotes(title: string, notes: readonly string[]): HTMLElement {
  return h(
    'span',
    { class: 'ipyagent-panel-words' },
    h('span', { class: 'ipyagent-panel-prompt' }, reveal(title)),
    h('span', { class: 'ipyagent-note' }, reveal(notes.join(' · ')))
  );
}
