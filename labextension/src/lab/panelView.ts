/** The side panel: blocks that the kernel draws, and what only a page knows. */
import { approvalKey } from '../channel';
import type {
  Blocks,
  Drawn,
  Head as Shown,
  Overview,
  PendingApproval,
  Row,
  RowButton
} from '../protocol';
import { FormPart } from '../view/approval';
import { Card } from '../view/card';
import { Child, h, Slot } from '../view/dom';
import { requestButton } from '../view/followUp';
import { button, field } from '../view/form';
import { keep, place } from '../view/morph';
import type { Makers, Part } from '../view/own';
import { reveal } from '../view/reveal';
import { Head } from '../view/trace';
import type { PanelActions, PanelState } from './panel';

const NO_RUN = { decide: () => undefined, send: () => undefined };

const NOTHING: Blocks = { set: [], order: {} };

/** The keys of what is asked in full, and of its form: `ipyagent.ui.panel`. */
const IN_FULL = /^(asked\/.*)\/(?:call|form)$/;

/** Prompts to begin with. */
const PROMPTS = 3;

export class PanelView {
  readonly element: HTMLElement;

  private title = h('h2');
  private empty = new Slot(h('div', { class: 'ipyagent-panel-empty' }));
  private lost = h(
    'p',
    { class: 'ipyagent-note' },
    'The kernel cannot be reached now, so nothing can be decided here.'
  );
  private notify = button(
    'enable-notifications',
    'Notify me when I look elsewhere',
    'Notify me when an approval waits and this page is in the background',
    () => this.actions.notify()
  );
  /** The approvals that are drawn in full, by the keys of their rows. */
  private whole = new Map<string, PendingApproval>();
  private cells: ReadonlySet<string> = new Set();
  private blocks = new Card(NO_RUN, this.makers());

  constructor(
    private actions: PanelActions,
    private composer: HTMLElement
  ) {
    const attributes = {
      class: 'ipyagent-card ipyagent-panel lm-Widget',
      'data-ipyagent': 'panel'
    };
    const parts = [this.empty.element, this.lost, this.blocks.element, this.notify];
    this.element = h('div', attributes, this.title, composer, ...parts);
  }

  update(state: PanelState): void {
    const { notebook, overview, isReachable, cells, prompts, canAdd, canNotify } = state;
    const count = overview?.approvals.length ?? 0;
    const isEmpty = overview === null || overview.runs.length === 0;
    this.title.textContent = reveal(notebook ?? 'ipyagent');
    this.composer.hidden = !canAdd;
    this.empty.element.hidden = !isEmpty;
    this.empty.show([isEmpty, notebook === null, overview === null, prompts], () =>
      isEmpty ? this.welcome(state) : []
    );
    this.lost.hidden = count === 0 || isReachable;
    this.notify.hidden = count === 0 || !isReachable || !canNotify;
    this.cells = cells;
    const hadFocus = this.blocks.element.contains(document.activeElement);
    this.draw(overview, isReachable);
    if (hadFocus && !this.blocks.element.contains(document.activeElement)) {
      this.element.parentElement?.focus();
    }
  }

  private draw(overview: Overview | null, isReachable: boolean): void {
    const { set, order } = overview?.panel ?? NOTHING;
    // Decided on here: approvals whose cells are gone, and a plan that no cell asks about.
    const whole = overview?.approvals.filter(
      ({ approval_id, cell_id }) => approval_id === '' || !this.cells.has(cell_id ?? '')
    );
    this.whole = new Map(whole?.map(each => [`asked/${approvalKey(each)}`, each]));
    const isShown = ({ key }: Drawn): boolean => {
      const row = IN_FULL.exec(key)?.[1];
      return isReachable ? row === undefined || this.whole.has(row) : !key.startsWith('asked');
    };
    this.blocks.update({ type: 'snapshot', set: set.filter(isShown), order });
  }

  private makers(): Makers {
    const rows = { row: () => new RowPart(this.actions, id => this.cells.has(id)) };
    return {
      ...rows,
      asked: key => {
        const approval = this.whole.get(IN_FULL.exec(key)?.[1] ?? '');
        return new FormPart((_, answer) => approval && this.actions.decide(approval, answer));
      },
      head: () => new HeadPart(),
      search: () => new SearchPart(this.actions, new Card(NO_RUN, rows))
    };
  }

  /** Return the first steps for a new user. */
  private welcome({ notebook, overview, prompts }: PanelState): Child[] {
    if (notebook === null) {
      return [h('p', {}, 'Open a notebook: what its agent does is shown here.')];
    }
    if (overview === null) {
      const load = h('code', {}, '%load_ext ipyagent');
      return [h('p', {}, 'No agent yet: ask for something, or run ', load, ' in a cell.')];
    }
    const cell = h('code', {}, '%%agent');
    const how = h('p', {}, 'No runs yet: ask here, or in a cell that begins with ', cell, '.');
    return [how, ...(prompts === null ? [] : this.startWith(prompts))];
  }

  /** Return prompts to try, or without data an example. */
  private startWith(prompts: readonly string[]): Child[] {
    if (prompts.length > 0) {
      const buttons = prompts
        .slice(0, PROMPTS)
        .map(each => requestButton(each, () => this.actions.ask(each)));
      return [h('ul', {}, ...buttons.map(each => h('li', {}, each)))];
    }
    const hint = 'Insert two cells: a small table, and a question about it';
    return [
      h('p', {}, 'There are no variables and no files to ask about: load data, or begin with '),
      button('example', 'an example', hint, () => this.actions.insertExample())
    ];
  }
}

/** The buttons of a row; one that leads to a cell only while that is there. */
class RowPart implements Part<Row> {
  readonly element = keep(h('span', { class: 'ipyagent-row-buttons' }));

  private slot = new Slot(this.element);

  constructor(
    private actions: PanelActions,
    private hasCell: (id: string) => boolean
  ) {}

  update({ buttons }: Row, block: HTMLElement): void {
    place(this.element, block.querySelector('.ia-row') ?? block);
    const isGone = ({ name, of }: RowButton): boolean => name === 'jump' && !this.hasCell(of);
    const draw = (each: RowButton): HTMLElement => {
      const { name, label, title, of } = each;
      const gone = isGone(each) && h('small', {}, 'its cell is gone');
      return gone || button(name, label, title, () => void this.actions[name](of));
    };
    this.slot.show([buttons, buttons.map(isGone)], () => buttons.map(draw));
  }
}

/** The description of a variable, while its row is open. */
class HeadPart extends Head implements Part<Shown> {
  private known = '';

  update(shown: Shown, block: HTMLElement): void {
    const fold = block.querySelector('details');
    if (fold === null) {
      return;
    }
    place(this.element, fold);
    const show = (): unknown => fold.open && void this.show(shown.name);
    fold.ontoggle = show;
    if (this.known !== shown.run_id) {
      this.known = shown.run_id;
      show();
    }
  }
}

/** A field that finds sessions, which are shown in place of the newest ones. */
class SearchPart implements Part<unknown> {
  readonly element: HTMLElement;

  private input = field('find-session', 'Find a session', 'Find a session by its prompts or name');

  constructor(
    private actions: PanelActions,
    private found: Card
  ) {
    this.element = keep(h('div', { class: 'ipyagent-find' }, this.input, found.element));
    this.input.addEventListener('input', () => void this.find());
    found.element.addEventListener('click', ({ target }) => {
      if (target instanceof HTMLButtonElement) {
        this.input.value = '';
        void this.find();
      }
    });
  }

  update(_: unknown, block: HTMLElement): void {
    place(this.element, block);
  }

  private async find(): Promise<void> {
    const { value } = this.input;
    const blocks = value.trim() === '' ? NOTHING : await this.actions.find(value.trim());
    if (value === this.input.value) {
      this.found.update({ type: 'snapshot', ...blocks });
    }
  }
}
