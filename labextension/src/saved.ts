/**
 * Draws a saved run: its HTML, and what a page adds to it by the run's JSON. Both may be forged, so
 * only the JSON makes buttons, and code that they use never comes from what is drawn.
 */
import { isEnded, SavedCall, SavedRun, SavedStep } from './lab/outputs';
import type { AnswerNumber } from './protocol';
import { h } from './view/dom';
import { EXPLORER, FollowUpView } from './view/followUp';
import { button } from './view/form';
import { highlight } from './view/highlight';
import { host } from './view/host';
import { renderMarkdown } from './view/markdown';
import { maths } from './view/maths';
import { Before, sanitizeCard } from './view/sanitize';
import { askAnew, ranBy, toCells } from './view/toCell';
import { UndoView } from './view/undo';

/** The names by which scripts find parts of a card: sanitizers drop them, and leave classes. */
const NAMES = {
  tool: '.ia-tool',
  answer: '.ia-answer > .ia-markdown',
  thinking: '.ia-thinking',
  plan: '.ia-plan-steps',
  'plan-step': '.ia-plan-steps > li',
  todos: '.ia-todos',
  effects: '.ia-effects',
  'user-text': '.ia-user-text'
};

const STATES = ['running', 'waiting', 'done', 'partial', 'failed', 'cancelled'];

/** Return the card of a run, which may be missing; `before` sanitizes its HTML first. */
export function savedCard(html: string, run: SavedRun | null, before: Before): HTMLElement {
  const fragment = sanitizeCard(html, before);
  // Earlier versions had no card in their HTML.
  const card =
    fragment.querySelector<HTMLElement>('.ipyagent-card') ??
    h('div', { class: 'ipyagent-card' }, fragment);
  name(card);
  try {
    if (run !== null) {
      addOwn(card, run, before);
    }
  } catch {
    // A damaged run has its HTML.
  }
  return card;
}

/** Add names and roles, and let the keyboard scroll what scrolls. */
function name(card: HTMLElement): void {
  card.dataset.ipyagent = 'run';
  card.dataset.state = STATES.find(state => card.classList.contains(`ia-${state}`)) ?? '';
  card.role = 'article';
  card.ariaLabel = 'Run of ipyagent';
  for (const [name, selector] of Object.entries(NAMES)) {
    card.querySelectorAll<HTMLElement>(selector).forEach(part => (part.dataset.ipyagent = name));
  }
  card.querySelectorAll<HTMLElement>('.ia-glyph').forEach(glyph => {
    glyph.role = 'img';
    glyph.ariaLabel = glyph.title;
    glyph.ariaHidden = String(glyph.title === '');
  });
  card.querySelectorAll<HTMLElement>('pre, .ia-display').forEach(box => (box.tabIndex = 0));
  card.querySelectorAll<HTMLElement>('.ia-latex').forEach(box => {
    box.replaceChildren(maths(box.title, true) ?? box.textContent);
    box.title = '';
  });
}

function addOwn(card: HTMLElement, run: SavedRun, before: Before): void {
  const steps = card.querySelectorAll<HTMLElement>('.ia-step, .ia-answer');
  const tools = card.querySelectorAll<HTMLElement>('.ia-tool');
  const calls = run.steps.flatMap(({ executions }) => executions ?? []);
  if (steps.length === run.steps.length) {
    run.steps.forEach((step, index) => addToStep(steps[index], step, run, before));
  }
  if (tools.length === calls.length) {
    calls.forEach((call, index) => addToCall(tools[index], call));
  }
  if (isEnded(run)) {
    const row = actionsOf(card, run, calls);
    card.insertBefore(row, card.querySelector(':scope > .ia-footer'));
  }
}

/** Draw the text of a step with its formulas, and with its code as it was written. */
function addToStep(drawn: HTMLElement, step: SavedStep, run: SavedRun, before: Before): void {
  const isAnswer = drawn.matches('.ia-answer');
  const texts = step.message?.content.filter(({ type }) => type === 'text') ?? [];
  const block = drawn.querySelector(':scope > .ia-markdown');
  drawn.role = 'group';
  drawn.ariaLabel = isAnswer ? 'Answer' : `Step ${step.number}`;
  if (texts.length > 0 && !(isAnswer && run.value_text)) {
    const numbers = isAnswer && block !== null ? numbersOf(block, run) : [];
    const text = texts.map(({ text }) => text).join('');
    block?.replaceChildren(renderMarkdown(text, before, numbers));
  }
}

/** Return the numbers of an answer, each with the title that its HTML gives it. */
function numbersOf(drawn: Element, { numbers = [] }: SavedRun): AnswerNumber[] {
  const marked = [...drawn.querySelectorAll<HTMLElement>('.ia-traced')];
  return numbers.map(number => {
    const isMarked = marked[0]?.textContent === number.text;
    return { ...number, title: (isMarked ? marked.shift()?.title : null) ?? number.trace };
  });
}

function addToCall(drawn: HTMLElement, call: SavedCall): void {
  const code = drawn.querySelector('.ia-caption + pre > code');
  drawn.dataset.tool = call.call.name;
  drawn.dataset.state = call.status;
  if (code !== null && call.preview?.kind === 'code') {
    code.replaceChildren(highlight(code.textContent, call.preview.language));
    const source = sourceOf(call);
    const insert =
      source && toCells('to-cell', 'To cell', 'Insert this code as a cell below', () => [source]);
    code.closest('pre')?.previousElementSibling?.append(insert ?? '');
  }
}

/** Return the code that a call ran, as a cell. */
function sourceOf({ call, status, dry_run, preview }: SavedCall): string | null {
  const request = { preview: preview ?? null, arguments: call.arguments };
  return ranBy({ name: call.name, status, is_dry: dry_run ?? false, request });
}

/** Return the row of what can be done with a run that has ended. */
function actionsOf(card: HTMLElement, run: SavedRun, calls: SavedCall[]): HTMLElement {
  const sources = calls.map(sourceOf).filter(source => source !== null);
  const all = 'Insert all code that succeeded as cells below';
  const keep =
    sources.length === 0 ? null : toCells('keep-cells', 'Keep as cells', all, () => sources);
  const [undo, followUp] = [new UndoView(), new FollowUpView()];
  const isUndone = (run.taken_back ?? []).length > 0;
  const canUndo = host.undo !== null && (isUndone || calls.some(hasChanged));
  undo.update(canUndo ? run.id : null, isUndone);
  followUp.update(true);
  if (run.model.startsWith(EXPLORER)) {
    card.querySelectorAll('.ia-answer').forEach(each => followUp.link(each));
  }
  const anew = run.replayed ? askAnew() : null;
  const parts = [keep, anew, undo.element, modelOf(run, followUp), followUp.element];
  return h('div', { class: 'ipyagent-own' }, ...parts);
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
