/**
 * Draws a saved run: its HTML, and what a page adds to it by the run's JSON. Both may be forged, so
 * only the JSON makes buttons, and code that they use never comes from what is drawn.
 */
import { isEnded, SavedCall, SavedRun } from './lab/outputs';
import { serveListings } from './view/copy';
import { h } from './view/dom';
import { EXPLORER, FollowUpView } from './view/followUp';
import { button } from './view/form';
import { host } from './view/host';
import { sanitizeCard } from './view/sanitize';
import { askAnew, cellSource, keepCells, runChanged, toCell, tryAgain } from './view/toCell';
import { serveLinks } from './view/trace';
import { UndoView } from './view/undo';

const RUNNERS = ['run_python', 'python_script', 'run_shell'];

/** Return the card of a run, which may be missing; `before` sanitizes its HTML first. */
export function savedCard(
  html: string,
  run: SavedRun | null,
  before: (html: string) => string
): HTMLElement {
  const fragment = sanitizeCard(html, 1, before);
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
  if (tools.length === calls.length) {
    calls.forEach((call, index) => addToCall(tools[index], call));
  }
  // The card of its plan follows it.
  if (isEnded(run) && run.stop_reason !== 'planned') {
    const row = actionsOf(card, run, calls);
    card.insertBefore(row, card.querySelector(':scope > .ia-footer'));
  }
}

function addToCall(drawn: HTMLElement, call: SavedCall): void {
  const source = sourceOf(call);
  // Sanitizers drop these, and leave classes.
  drawn.dataset.tool = call.call.name;
  drawn.dataset.state = call.status;
  drawn.querySelector('.ia-caption')?.append((source && toCell(() => source)) ?? '');
}

/** Return the code that a call ran as a cell; null if it ran none, or without success. */
function sourceOf({ call, status, dry_run, preview }: SavedCall): string | null {
  const hasRun = RUNNERS.includes(call.name) && (call.arguments.action ?? 'run') === 'run';
  const isKept = hasRun && status === 'success' && dry_run !== true && preview?.kind === 'code';
  return isKept ? cellSource(preview.text, preview.language) : null;
}

/** Return the row of what can be done with a run that has ended. */
function actionsOf(card: HTMLElement, run: SavedRun, calls: SavedCall[]): HTMLElement {
  const sources = calls.map(sourceOf).filter(source => source !== null);
  const keep = sources.length === 0 ? null : keepCells(run.id, sources);
  const followUp = new FollowUpView();
  const isUndone = (run.taken_back ?? []).length > 0;
  const canUndo = host.undo !== null && (isUndone || calls.some(hasChanged));
  const undo = canUndo ? new UndoView(run.id, isUndone).element : null;
  if (run.model.startsWith(EXPLORER)) {
    card.querySelectorAll('.ia-answer').forEach(each => followUp.link(each));
  }
  const changed = runChanged(isUndone ? [] : calls.flatMap(({ result }) => result?.cell ?? []));
  const anew = run.replayed ? askAnew() : null;
  const parts = [changed, keep, anew, undo, modelOf(run, followUp), followUp.element];
  const row = h('div', { class: 'ipyagent-own' }, ...parts);
  const ending = card.querySelector(':scope > :is(.ia-ending, .ia-error-card)');
  (ending ?? row).append(' ', wayOn(run, calls, followUp) ?? '');
  return row;
}

const LIMITS = ['max_steps', 'max_seconds', 'max_tokens'];

/** Return the button that goes on after a limit, or after a request without a reply. */
function wayOn(run: SavedRun, calls: SavedCall[], followUp: FollowUpView): HTMLElement | null {
  const last = run.steps.at(-1);
  const hasFailed = run.status === 'error' && run.stop_reason === 'error';
  const hasReply = (last?.finish_reason ?? '') !== '' || (last?.executions ?? []).length > 0;
  const isUnanswered = hasFailed && last !== undefined && !hasReply;
  // Nothing is done twice.
  const goesOn = LIMITS.includes(run.stop_reason ?? '') || (isUnanswered && calls.length > 0);
  return goesOn ? followUp.continueButton() : isUnanswered ? tryAgain() : null;
}

function hasChanged({ call, result, dry_run }: SavedCall): boolean {
  const { success, variables = [], files = [], lasting = [] } = result ?? {};
  const hasEdited =
    success === true && dry_run !== true && /^(?:edit|insert)_cell$/.test(call.name);
  return hasEdited || [variables, files, lasting].some(changes => changes.length > 0);
}

/** Return the button that chooses the model of the next prompts. */
function modelOf({ model }: SavedRun, followUp: FollowUpView): HTMLElement | null {
  const { chooseModel } = host;
  const hint = `Model: Choose the model of the next prompts, after ${model}`;
  const choose = async (): Promise<void> => {
    followUp.isModelKept &&= !(await chooseModel?.(followUp.element));
  };
  return chooseModel === null || model === ''
    ? null
    : button('model', 'Model', hint, () => void choose());
}
