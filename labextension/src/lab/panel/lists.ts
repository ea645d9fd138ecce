/** The panel's plan, runs, variables and sessions. */
import type { PlanStepLine, RunLine, SessionLine, VariableLine } from '../../protocol';
import { h, Slot } from '../../view/dom';
import { button } from '../../view/form';
import { TodosView } from '../../view/plan';
import { reveal } from '../../view/reveal';
import { glyph } from '../../view/tool';
import type { PanelActions } from './controller';
import { List, Part, Section } from './section';

/** Return the newest run's plan and tasks; a waiting plan is among the approvals. */
export function planSection(): Part {
  const list = new Slot(h('ol', { class: 'ipyagent-panel-plan', 'aria-label': 'Plan' }));
  const tasks = new TodosView();
  const section = new Section('plan', 'Plan and tasks', list.element, tasks.element);
  return {
    element: section.element,
    update({ overview }) {
      const { plan = [], todos = [], done = '' } = overview ?? {};
      section.show(done !== '', done);
      list.element.hidden = plan.length === 0;
      list.show(plan, () => plan.map(stepOf));
      tasks.update(todos);
    }
  };
}

function stepOf(step: PlanStepLine): HTMLElement {
  const name = h('span', { class: 'ipyagent-tool-name' }, reveal(step.name));
  const words = h('span', { class: 'ipyagent-panel-step' }, name, ' ', reveal(step.note));
  return h('li', { 'data-state': step.status }, glyph(step), words);
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
