/** The runs, newest first: how they stand, what they took, and the way to their cells. */
import type { RunState } from '../../model';
import { h, Slot } from '../../view/dom';
import { button } from '../../view/form';
import { reveal } from '../../view/reveal';
import type { RunSummary } from '../messages';
import { factsOf, promptLine, stateOf, stateText } from '../summary';
import { Keyed } from './keyed';
import { Section } from './section';
import type { PanelActions, PanelState } from './state';

const SIGNS: Record<RunState, string> = {
  running: '▶',
  waiting: '?',
  done: '✓',
  partial: '◐',
  failed: '✗',
  cancelled: '■'
};

interface Item {
  readonly run: RunSummary;
  readonly state: RunState;
  readonly facts: string[];
  readonly label: string;
  /** Null where the cell is gone. */
  readonly cellId: string | null;
}

export class RunsSection {
  private list = h('ul', { class: 'ipyagent-panel-list' });
  private runs: Keyed<Item, RunRow>;
  private section = new Section('runs', 'Runs', this.list);

  readonly element = this.section.element;

  constructor(actions: PanelActions) {
    this.runs = new Keyed(
      this.list,
      ({ run }) => run.id,
      () => new RunRow(actions)
    );
  }

  update({ overview, cells }: PanelState): void {
    const runs = overview?.runs.toReversed() ?? [];
    this.section.show(runs.length > 0, `${runs.length}`);
    const items = runs.flatMap(run =>
      overview === null
        ? []
        : {
            run,
            state: stateOf(run, overview),
            facts: factsOf(run, overview),
            label: stateText(run, overview),
            cellId: run.cell_id !== null && cells.has(run.cell_id) ? run.cell_id : null
          }
    );
    this.section.keepFocus(() => this.runs.update(items));
  }
}

class RunRow {
  readonly element = h('li', { class: 'ipyagent-panel-run', 'data-ipyagent': 'panel-run' });

  private row = new Slot(h('div', { class: 'ipyagent-panel-row' }));

  constructor(private actions: PanelActions) {
    this.element.append(this.row.element);
  }

  update(item: Item): void {
    const { run, state, facts, cellId } = item;
    this.element.dataset.state = state;
    this.row.show([promptLine(run), facts, cellId, state, run.live], () => [
      this.way(item),
      run.live ? button('stop', '■ Stop', 'Stop this run', () => this.actions.stop(run.id)) : null
    ]);
  }

  /** The whole row leads to the cell. */
  private way({ run, facts, state, label, cellId }: Item): HTMLElement {
    const prompt = promptLine(run);
    const name = `${prompt}: ${label}. ${cellId === null ? 'Its cell is gone.' : 'Go to its cell.'}`;
    const element = button('jump', content(prompt, state, facts, cellId), name, () => {
      if (cellId !== null) {
        this.actions.jump(cellId);
      }
    });
    element.disabled = cellId === null;
    return element;
  }
}

function content(
  prompt: string,
  state: RunState,
  facts: string[],
  cellId: string | null
): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const said = cellId === null ? [...facts, 'its cell is gone'] : facts;
  fragment.append(
    h('span', { class: 'ipyagent-glyph', 'aria-hidden': 'true' }, SIGNS[state]),
    h(
      'span',
      { class: 'ipyagent-panel-words' },
      h('span', { class: 'ipyagent-panel-prompt' }, reveal(prompt)),
      h('span', { class: 'ipyagent-note' }, reveal(said.join(' · ')))
    )
  );
  return fragment;
}
