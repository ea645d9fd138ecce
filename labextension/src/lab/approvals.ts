/** Approvals that wait: lists them, goes to them, and gives each one card with buttons. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import { approvalKey } from '../channel';
import type { PendingApproval } from '../protocol';
import { h, setText } from '../view/dom';
import { button } from '../view/form';
import { reveal } from '../view/reveal';
import { goTo, placeOf } from './cells';
import type { Link, Links } from './links';
import { areButtonsInSight, cardOf, focusCard, isInSight, scrollToCard } from './questionCard';

/** The id of the side panel. */
export const PANEL = 'ipyagent-panel';

/** The place of cards in a notebook. */
const OUTPUT = '.jp-OutputArea';

/** Maximal length of the call's description. */
const ABOUT = 80;

/** An approval that waits in an open notebook. */
export interface Waiting {
  readonly key: string;
  readonly approval: PendingApproval;
  readonly link: Link;
  readonly panel: NotebookPanel;
}

/**
 * List the approvals of a kernel, or of all kernels, oldest first, with the notebook that asks. A
 * plan that no cell asks about is not among them.
 */
export function listWaiting(links: Links, of: readonly Link[] = links.all): Waiting[] {
  return of.flatMap(link => {
    const panels = links.notebooks(link);
    const asked = link.overview?.approvals.filter(({ approval_id }) => approval_id !== '') ?? [];
    return asked.map(approval => ({
      key: approvalKey(approval),
      approval,
      link,
      panel: placeOf(approval.cell_id, panels)?.panel ?? panels[0]
    }));
  });
}

/** Return the approval of the current notebook that has waited longest. */
export function oldestWaiting(links: Links): Waiting | null {
  return (links.current && listWaiting(links, [links.current]).at(0)) ?? null;
}

/**
 * Describe an approval by its tool and its notebook: arguments may be secret, and others may see
 * notifications.
 */
export function describeWaiting({ approval, panel }: Waiting): string {
  const what = reveal(approval.about).slice(0, ABOUT);
  return `ipyagent asks: ${what} in ${panel.title.label}`;
}

/** Describe an approval to its user, who knows the run by its prompt. */
export function describeWithPrompt(waiting: Waiting): string {
  const { runs = [] } = waiting.link.overview ?? {};
  const run = runs.find(({ id }) => id === waiting.approval.run_id);
  const prompt = reveal(run?.prompt.trim().split('\n')[0] ?? '').slice(0, ABOUT);
  return `${describeWaiting(waiting)}${prompt === '' ? '' : `, for “${prompt}”`}`;
}

/** Return a selector of the forms that ask for an approval. */
function formOf({ run_id, approval_id }: PendingApproval): string {
  return `[data-run="${CSS.escape(run_id)}"][data-approval="${CSS.escape(approval_id)}"]`;
}

/** Select the cell that asks, and scroll to its card; without a cell, show the side panel. */
export async function showWaiting({ approval, panel }: Waiting, { app }: Links): Promise<void> {
  const place = placeOf(approval.cell_id, [panel]);
  if (place === null) {
    app.shell.activateById(PANEL);
    return;
  }
  await goTo(place, app);
  const form = panel.node.querySelector<HTMLElement>(`${OUTPUT} ${formOf(approval)}`);
  if (form !== null) {
    scrollToCard(form);
  }
}

/** Milliseconds between two checks of the page while something waits. */
const CHECK_MILLISECONDS = 100;

/** The places of cards, the preferred one first, and what cards elsewhere call them. */
const PLACES = [
  ['.ipyagent-proposal', 'at the proposed change'],
  [OUTPUT, 'in the agent’s cell'],
  [`#${PANEL}`, 'in the side panel']
];

/** The line in place of buttons. */
const LINE = 'ipyagent-elsewhere';

/** An open editor, or a reason or an answer that has begun. */
const INPUT = '.ipyagent-editor, .ipyagent-approval input:not(:placeholder-shown)';

/**
 * Gives each question one card with buttons; its other cards lead there. Checks the page while
 * something waits. Cards that it does not know of keep their buttons.
 */
export class QuestionCards {
  /** Emitted after each check. */
  readonly checked = new Signal<this, readonly Waiting[]>(this);

  private choices = new Map<string, HTMLElement>();
  private timer: number | null = null;

  constructor(private links: Links) {
    links.changed.connect(() => this.update());
  }

  /** Return the form with the buttons; null while none is displayed. */
  choiceOf({ key }: Waiting): HTMLElement | null {
    return this.choices.get(key) ?? null;
  }

  /** List the forms that are displayed, the preferred first, and first in the current notebook. */
  list({ approval }: Waiting): HTMLElement[] {
    const { panel } = this.links;
    const rank = (form: HTMLElement): number =>
      2 * preferenceOf(form) + (panel?.node.contains(form) === true ? 0 : 1);
    return [...document.querySelectorAll<HTMLElement>(formOf(approval))]
      .filter(form => preferenceOf(form) >= 0 && cardOf(form).getClientRects().length > 0)
      .sort((one, other) => rank(one) - rank(other));
  }

  /** Choose by what is in sight now. */
  chooseCards(): void {
    const waiting = listWaiting(this.links);
    const before = this.choices;
    this.choices = new Map();
    const lines = new Set<Element>();
    for (const each of waiting) {
      const forms = this.list(each);
      const choice = choose(forms, before.get(each.key));
      if (choice !== null) {
        this.choices.set(each.key, choice);
        forms.filter(form => form !== choice).forEach(form => lines.add(lead(form, choice)));
      }
    }
    const drawn = [...document.querySelectorAll<HTMLElement>(`.${LINE}`)];
    drawn.filter(line => !lines.has(line)).forEach(removeLine);
    this.checked.emit(waiting);
  }

  private update(): void {
    if (listWaiting(this.links).length > 0) {
      this.timer ??= window.setInterval(() => this.chooseCards(), CHECK_MILLISECONDS);
    } else if (this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
      this.chooseCards();
    }
  }
}

/** Return the rank of a card's place, 0 for the preferred one; -1 without a place. */
function preferenceOf(form: HTMLElement): number {
  return PLACES.findIndex(([selector]) => form.closest(selector) !== null);
}

/** Choose the card that is in use; else the first one that shows its buttons. */
function choose(
  forms: readonly HTMLElement[],
  before: HTMLElement | undefined
): HTMLElement | null {
  const last = forms.find(form => form === before) ?? forms.find(isInUse);
  if (last !== undefined && isInUse(last)) {
    return last;
  }
  const inCell = forms.find(form => form.closest(OUTPUT) !== null);
  return (
    forms.find(areButtonsInSight) ?? forms.find(isInSight) ?? last ?? inCell ?? forms.at(0) ?? null
  );
}

function isInUse(form: HTMLElement): boolean {
  return form.matches(':hover, :focus-within') || cardOf(form).querySelector(INPUT) !== null;
}

/** Show where the buttons are, in place of a card's own. */
function lead(form: HTMLElement, choice: HTMLElement): HTMLElement {
  const line = form.querySelector<HTMLElement>(`.${LINE}`) ?? addLine(form);
  setText(line.children[0] as HTMLElement, `Asked ${PLACES[preferenceOf(choice)][1]}`);
  line.onclick = () => {
    scrollToCard(choice);
    focusCard(choice);
  };
  return line;
}

function addLine(form: HTMLElement): HTMLElement {
  const show = button('show-question', 'Show', 'Show where it is asked', () => undefined);
  const line = h('p', { class: LINE }, h('span'), show);
  form.querySelector('.ipyagent-approval > .ipyagent-unseen')?.after(line);
  return line;
}

/** Give a card its buttons back. */
function removeLine(line: HTMLElement): void {
  if (line.contains(document.activeElement)) {
    focusCard(line);
  }
  line.remove();
}
