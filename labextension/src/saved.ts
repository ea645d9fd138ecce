/**
 * Draws a saved run: its HTML, and what a page adds to it by the run's JSON. Both may be forged, so
 * only the JSON makes buttons, and code that they use never comes from what is drawn.
 */
import { isEnded, SavedCall, SavedRun } from './lab/outputs';
import type { Offers } from './protocol';
import { h } from './view/dom';
import { EXPLORER, FollowUpView, UndoView } from './view/followUp';
import { button } from './view/form';
import { host } from './view/host';
import { sanitizeCard } from './view/sanitize';
import { askAnew, keepCells, runChanged, serveListings, toCell, tryAgain } from './view/toCell';
import { serveLinks } from './view/trace';

/** The offers beside a run that an earlier version saved: none. */
const NO_OFFERS: Offers = { sources: [], cells: [], go_on: null, undo: null };

/** Return the card of a run, which may be missing. */
export function savedCard(html: string, run: SavedRun | null): HTMLElement {
  const fragment = sanitizeCard(html);
  // Earlier versions had no card in their HTML.
  const card =
    fragment.querySelector<HTMLElement>('.ipyagent-card') ??
    h('div', { class: 'ipyagent-card' }, fragment);
  serveListings(card);
  serveLinks(card);
  try {
    if (run !== null) {
      addOwn(card, run);
    }
  } catch {
    // A damaged run has its HTML.
  }
  return card;
}

function addOwn(card: HTMLElement, run: SavedRun): void {
  const tools = card.querySelectorAll<HTMLElement>('.ia-tool');
  const calls = run.steps.flatMap(({ executions }) => executions ?? []);
  const offers = run.offers ?? NO_OFFERS;
  if (tools.length === calls.length) {
    calls.forEach((call, index) => addToCall(tools[index], call, offers.sources.at(index) ?? ''));
  }
  // The card of its plan follows it.
  if (isEnded(run) && run.stop_reason !== 'planned') {
    const row = actionsOf(card, run, offers);
    card.insertBefore(row, card.querySelector(':scope > .ia-footer'));
  }
}

function addToCall(drawn: HTMLElement, { call, status }: SavedCall, source: string): void {
  // Sanitizers drop these, and leave classes.
  drawn.dataset.tool = call.name;
  drawn.dataset.state = status;
  drawn.querySelector('.ia-caption')?.append((source && toCell(() => source)) ?? '');
}

/** Return the row of what can be done with a run that has ended. */
function actionsOf(
  card: HTMLElement,
  run: SavedRun,
  { sources, cells, go_on, undo }: Offers
): HTMLElement {
  const followUp = new FollowUpView();
  if (run.model.startsWith(EXPLORER)) {
    card.querySelectorAll('.ia-answer').forEach(each => followUp.link(each));
  }
  const parts = [
    runChanged(cells),
    keepCells(run.id, sources.filter(Boolean)),
    run.replayed ? askAnew() : null,
    host.lab && undo && new UndoView(run.id, undo === 'redo').element,
    modelOf(run, followUp),
    followUp.element
  ];
  const row = h('div', { class: 'ipyagent-own' }, ...parts);
  const waysOn = { continue: () => followUp.continueButton(), 'try-again': tryAgain };
  const ending = card.querySelector(':scope > :is(.ia-ending, .ia-error-card)');
  (ending ?? row).append(' ', (go_on && waysOn[go_on]()) ?? '');
  return row;
}

/** Return the button that chooses the model of the next prompts. */
function modelOf({ model }: SavedRun, followUp: FollowUpView): HTMLElement | null {
  const { lab } = host;
  const hint = `Model: Choose the model of the next prompts, after ${model}`;
  const choose = async (): Promise<void> => {
    followUp.isModelKept &&= !(await lab?.chooseModel(followUp.element));
  };
  return lab && model !== '' ? button('model', 'Model', hint, () => void choose()) : null;
}
