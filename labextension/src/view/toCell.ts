/** Buttons that copy code of a run, make it cells of the notebook, or run a cell again. */
import { h, NO_SHORTCUTS } from './dom';
import { button } from './form';
import { type CellSource, host, type Lab } from './host';

/** Milliseconds for which a button confirms. */
const LABEL_MILLISECONDS = 2_000;

/** Code without a language is mostly Python here. */
const PYTHON = /^(?:i?python3?|py)?$/i;
const SHELL = /^(?:bash|sh|shell)$/i;

/** Return the source of a cell that runs code; null for languages that no cell runs. */
export function cellSource(code: string, language: string): string | null {
  const source = code.trimEnd();
  return PYTHON.test(language) ? source : SHELL.test(language) ? `%%bash\n${source}` : null;
}

/** Return a button that inserts a cell below; null where there is no notebook to change. */
export function toCell(source?: () => string): HTMLElement | null {
  const hint = 'Insert this code as a cell below';
  return inLab('to-cell', 'To cell', hint, source && ((_, from) => insert(from, [source()])));
}

/** Insert cells below a card; return what became of it. */
export function insert(
  from: Element,
  sources: readonly CellSource[],
  done = 'Inserted below'
): Promise<string> {
  return Promise.resolve(host.lab?.insertCells(from, sources) ?? done);
}

/** Return a button that keeps a run as plain cells, or all its code where no kernel has it. */
export function keepCells(runId: string, sources: readonly string[]): HTMLElement | null {
  if (sources.length === 0) {
    return null;
  }
  const hint = 'Insert the code that led to the results as plain cells below';
  return inLab('keep-cells', 'Keep as cells', hint, async (lab, from) => {
    const { cells = [] } = (await lab.ask(from, 'freeze', { run_id: runId })) ?? {};
    return cells.length > 0
      ? insert(from, cells, 'Inserted below, unverified')
      : insert(from, sources, 'Inserted all code below');
  });
}

/** Return a button that runs a replayed cell again, with the model; null outside of a notebook. */
export function askAnew(): HTMLElement | null {
  const hint = 'Run this cell again, and ask the model';
  return inLab('ask-anew', 'Ask anew', hint, (lab, from) => lab.runAgain(from, true));
}

/** Return a button that runs the cell of a failed run again; null outside of a notebook. */
export function tryAgain(): HTMLElement | null {
  const hint = 'Run this cell again';
  return inLab('try-again', 'Try again', hint, (lab, from) => lab.runAgain(from, false));
}

/** Return a button that runs the cells that a run has changed; null where there are none. */
export function runChanged(ids: readonly string[]): HTMLElement | null {
  const hint = 'Run the cells that were changed, in the order of the notebook';
  return ids.length === 0
    ? null
    : inLab('run-changed', 'Run what changed', hint, (lab, from) =>
        Promise.resolve(lab.runCells(from, ids) ?? 'Running')
      );
}

/** Return a button that acts on the notebook around it; null where there is none to change. */
function inLab(
  name: string,
  label: string,
  hint: string,
  act?: (lab: Lab, from: HTMLElement) => Promise<string>
): HTMLElement | null {
  const { lab } = host;
  const place = lab && confirmingButton(name, label, hint, act && (from => act(lab, from)));
  place?.classList.add('ipyagent-in-cell');
  return place;
}

/** Return a button that shows for a moment what its action says; without one, others act for it. */
export function confirmingButton(
  name: string,
  label: string,
  description: string,
  act?: (from: HTMLElement) => Promise<string>
): HTMLElement {
  const press = (): unknown => act && void confirmResult(element, act(place));
  const element = button(name, label, description, press);
  const place = h('span', { ...NO_SHORTCUTS, role: 'status' }, element);
  return place;
}

/** Show for a moment on a button what became of its action. */
export async function confirmResult(element: HTMLElement, result: Promise<string>): Promise<void> {
  const { dataset, textContent, ariaLabel } = element;
  const label = (dataset.label ??= textContent);
  const name = (dataset.name ??= ariaLabel ?? '');
  const text = await result;
  const shown = { textContent: label, ariaLabel: name };
  Object.assign(element, { textContent: text, ariaLabel: text });
  window.setTimeout(() => Object.assign(element, shown), LABEL_MILLISECONDS);
}

const BUTTON = '.ipyagent-listing-head button';

/** Return a box for a code block, with its language and buttons, which `serveListings` serves. */
export function listing(language: string): HTMLElement {
  const label = h('span', { class: 'ipyagent-listing-language' }, language);
  const copy = confirmingButton('copy', 'Copy', 'Copy this code');
  const insert = cellSource('', language) === null ? null : toCell();
  const head = h('div', { class: 'ipyagent-listing-head' }, label, insert, copy);
  return h('div', { class: 'ipyagent-listing' }, head);
}

/** Serve the buttons of all code blocks in a card. */
export function serveListings(card: HTMLElement): void {
  card.addEventListener('click', ({ target }) => {
    const button = (target as Element).closest<HTMLElement>(BUTTON);
    const block = button?.closest('.ipyagent-listing')?.querySelector('pre');
    if (button && block) {
      const isCopy = button.dataset.ipyagent === 'copy';
      void confirmResult(button, isCopy ? copyText(block) : insertCell(button, block));
    }
  });
}

function insertCell(button: HTMLElement, block: HTMLElement): Promise<string> {
  const language = block.querySelector<HTMLElement>('[data-language]')?.dataset.language ?? '';
  return insert(button, [cellSource(block.textContent, language) ?? '']);
}

/** Copy text; where the clipboard is not allowed, select it for the user instead. */
async function copyText(block: HTMLElement): Promise<string> {
  try {
    await navigator.clipboard.writeText(block.textContent);
    return 'Copied';
  } catch {
    getSelection()?.selectAllChildren(block);
    return 'Now press Ctrl+C';
  }
}
