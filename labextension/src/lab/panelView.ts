/** The side panel: approvals, plan, runs, variables and sessions of the current notebook. */
import { Child, h, Slot } from '../view/dom';
import { requestButton } from '../view/followUp';
import { button } from '../view/form';
import { reveal } from '../view/reveal';
import type { PanelActions, PanelState } from './panel';
import {
  approvalsSection,
  listSection,
  Part,
  planSection,
  runs,
  sessions,
  variables
} from './panelSections';

export class PanelView {
  readonly element: HTMLElement;

  private head = new Slot(h('div', { class: 'ipyagent-panel-head' }));
  private empty = new Slot(h('div', { class: 'ipyagent-panel-empty' }));
  private foot = new Slot(h('div', { class: 'ipyagent-panel-foot' }));
  private sections: Part[];

  constructor(private actions: PanelActions) {
    this.sections = [
      approvalsSection(actions),
      planSection(),
      listSection('run', 'Runs', runs(actions)),
      listSection('variable', 'Variables touched', variables),
      listSection('session', 'Sessions', sessions(actions))
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
      const buttons = prompts.map(each => requestButton(each, () => this.actions.ask(each)));
      const items = buttons.map(each => h('li', {}, each));
      return [h('p', {}, 'Try one of these:'), h('ul', {}, ...items)];
    }
    const hint = 'Insert two cells: a small table, and a question about it';
    return [
      h('p', {}, 'There are no variables and no files to ask about: load data, or begin with '),
      button('example', 'an example', hint, () => this.actions.insertExample())
    ];
  }

  private headOf(notebook: string | null, model: string): Child[] {
    const hint = `${model}: Choose the model of the next prompts`;
    const next = button('model', reveal(model), hint, () => this.actions.chooseModel());
    next.ariaHasPopup = 'dialog';
    return [
      h('h2', {}, reveal(notebook ?? 'ipyagent')),
      model === '' ? null : h('p', { class: 'ipyagent-note' }, 'Next answers: ', next)
    ];
  }

  /** Return the first steps for a new user. */
  private welcome({ notebook, overview, prompts, canAdd }: PanelState): Child[] {
    if (notebook === null) {
      return [h('p', {}, 'Open a notebook: what its agent does is shown here.')];
    }
    const start = overview === null || prompts === null ? [] : this.startWith(prompts);
    const [what, before, how, after] =
      overview === null
        ? [
            'No agent yet: add an agent cell.',
            'Or run ',
            '%load_ext ipyagent',
            ' in a cell of this notebook.'
          ]
        : [
            'No runs yet.',
            'Write a cell that begins with ',
            '%%agent',
            ', and what you want below.'
          ];
    const hint = 'Add an agent cell to this notebook';
    const add = button('add-cell', 'Add an agent cell', hint, () => this.actions.add());
    return [
      h('p', {}, what),
      ...start,
      canAdd ? add : null,
      h('p', { class: 'ipyagent-note' }, before, h('code', {}, how), after)
    ];
  }
}
