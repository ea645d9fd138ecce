/** The side panel: approvals, plan, runs, variables and sessions of the current notebook. */
import { Child, h, Slot } from '../../view/dom';
import { requestButton } from '../../view/followUp';
import { button } from '../../view/form';
import { ModelPicker } from '../../view/modelPicker';
import { reveal } from '../../view/reveal';
import { keepHtml, Before } from '../../view/sanitize';
import { ApprovalsSection } from './approvals';
import type { PanelActions, PanelState } from './controller';
import { runs, sessions, variables } from './lists';
import { PlanSection } from './plan';
import { ListSection } from './section';

export class PanelView {
  readonly element: HTMLElement;

  private head = new Slot(h('div', { class: 'ipyagent-panel-head' }));
  private picker: ModelPicker;
  private empty = new Slot(h('div', { class: 'ipyagent-panel-empty' }));
  private foot = new Slot(h('div', { class: 'ipyagent-panel-foot' }));
  private sections: { readonly element: HTMLElement; update(state: PanelState): void }[];

  /** `before` sanitizes HTML before our sanitizer does. */
  constructor(
    private actions: PanelActions,
    before: Before = keepHtml
  ) {
    this.picker = new ModelPicker(chosen => actions.models(chosen));
    this.sections = [
      new ApprovalsSection(actions, before),
      new PlanSection(),
      new ListSection('run', 'Runs', runs(actions)),
      new ListSection('variable', 'Variables touched', variables),
      new ListSection('session', 'Sessions', sessions(actions))
    ];
    this.element = h(
      'div',
      { class: 'ipyagent-run ipyagent-panel', 'data-ipyagent': 'panel' },
      this.head.element,
      this.empty.element,
      ...this.sections.map(({ element }) => element),
      this.foot.element
    );
  }

  update(state: PanelState): void {
    const { notebook, overview, prompts, canAdd } = state;
    this.head.show([notebook, overview?.model], () => this.headOf(notebook, overview?.model ?? ''));
    const isEmpty = overview === null || overview.runs.length === 0;
    this.empty.element.hidden = !isEmpty;
    const key = [notebook === null, overview === null, prompts, canAdd];
    this.empty.show(isEmpty && key, () => (isEmpty ? this.welcome(state) : []));
    this.sections.forEach(section => section.update(state));
    const usage = overview?.usage ?? [];
    this.foot.element.hidden = usage.length === 0;
    this.foot.show(usage, () => [
      h('span', {}, 'This session'),
      h('span', { 'data-ipyagent': 'panel-cost' }, usage.join(' · '))
    ]);
  }

  /** Return prompts to try, or without data an example. */
  private startWith(prompts: readonly string[]): Child[] {
    if (prompts.length > 0) {
      const items = prompts.map(each =>
        h(
          'li',
          {},
          requestButton(each, () => this.actions.ask(each))
        )
      );
      return [h('p', {}, 'Try one of these:'), h('ul', {}, ...items)];
    }
    const hint = 'Insert two cells: a small table, and a question about it';
    return [
      h('p', {}, 'There are no variables and no files to ask about: load data, or begin with '),
      button('example', 'an example', hint, () => this.actions.insertExample())
    ];
  }

  private headOf(notebook: string | null, model: string): Child[] {
    this.picker.update(model);
    const { element, drawer } = this.picker;
    return [
      h('h2', {}, reveal(notebook ?? 'ipyagent')),
      model === '' ? null : h('p', { class: 'ipyagent-note' }, 'Next answers: ', element),
      model === '' ? null : drawer
    ];
  }

  /** Return the first steps for a new user. */
  private welcome({ notebook, overview, prompts, canAdd }: PanelState): Child[] {
    if (notebook === null) {
      return [h('p', {}, 'Open a notebook: what its agent does is shown here.')];
    }
    const what = overview === null ? 'No agent yet: add an agent cell.' : 'No runs yet.';
    const start = overview === null || prompts === null ? [] : this.startWith(prompts);
    const how = overview === null ? '%load_ext ipyagent' : '%%agent';
    const before = overview === null ? 'Or run ' : 'Write a cell that begins with ';
    const after = overview === null ? ' in a cell of this notebook.' : ', and what you want below.';
    return [
      h('p', {}, what),
      ...start,
      canAdd
        ? button('add-cell', 'Add an agent cell', 'Add an agent cell to this notebook', () =>
            this.actions.add()
          )
        : null,
      h('p', { class: 'ipyagent-note' }, before, h('code', {}, how), after)
    ];
  }
}
