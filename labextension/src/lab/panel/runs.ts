/** The panel's runs, newest first, with their state, facts and a link to their cells. */
import type { RunLine } from '../../protocol';
import { h, Slot, Views } from '../../view/dom';
import { button } from '../../view/form';
import { PanelActions, PanelState, Section, titleWithNotes } from './section';

interface Item {
  readonly run: RunLine;
  /** Null if the cell was deleted. */
  readonly cellId: string | null;
}

export class RunsSection {
  private list = h('ul', { class: 'ipyagent-panel-list' });
  private runs: Views<Item, RunRow>;
  private section = new Section('runs', 'Runs', this.list);

  readonly element = this.section.element;

  constructor(actions: PanelActions) {
    const make = (): RunRow => new RunRow(actions);
    this.runs = new Views(this.list, make, ({ run }) => run.id);
  }

  update({ overview, cells }: PanelState): void {
    const runs = overview?.runs.toReversed() ?? [];
    this.section.show(runs.length > 0, `${runs.length}`);
    const items = runs.map(run => ({
      run,
      cellId: run.cell_id !== null && cells.has(run.cell_id) ? run.cell_id : null
    }));
    this.section.keepFocus(() => this.runs.update(items));
  }
}

class RunRow {
  readonly element = h('li', { class: 'ipyagent-panel-run', 'data-ipyagent': 'panel-run' });

  private row = new Slot(h('div', { class: 'ipyagent-panel-row' }));

  constructor(private actions: PanelActions) {
    this.element.append(this.row.element);
  }

  update({ run, cellId }: Item): void {
    const { title, facts, state, live } = run;
    this.element.dataset.state = state;
    this.row.show([title, facts, cellId, state, live], () => [
      this.way(run, cellId),
      live ? button('stop', '■ Stop', 'Stop this run', () => this.actions.stop(run.id)) : null
    ]);
  }

  /** Return the row's button, which leads to the cell. */
  private way(run: RunLine, cellId: string | null): HTMLElement {
    const where = cellId === null ? 'Its cell is gone.' : 'Go to its cell.';
    const name = `${run.title}: ${run.state_text}. ${where}`;
    const element = button('jump', content(run, cellId), name, () => {
      if (cellId !== null) {
        this.actions.jump(cellId);
      }
    });
    element.disabled = cellId === null;
    return element;
  }
}

function content({ title, glyph, facts }: RunLine, cellId: string | null): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const words = cellId === null ? [...facts, 'its cell is gone'] : facts;
  fragment.append(
    h('span', { class: 'ipyagent-glyph', 'aria-hidden': 'true' }, glyph),
    titleWithNotes(title, words)
  );
  return fragment;
}
