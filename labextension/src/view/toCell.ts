/** Buttons that make code of a run cells of its notebook, or run its cell again. */
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
  return toCells('to-cell', 'To cell', hint, source && (from => insert(from, [source()])));
}

/** Return a button that inserts cells below; null where there is no notebook to change. */
function toCells(...fields: Parameters<typeof confirmingButton>): HTMLElement | null {
  const place = host.lab && confirmingButton(...fields);
  place?.classList.add('ipyagent-to-cell');
  return place;
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
  return toCells('keep-cells', 'Keep as cells', hint, async from => {
    const { cells = [] } = (await host.lab?.ask(from, 'freeze', { run_id: runId })) ?? {};
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

function inLab(
  name: string,
  label: string,
  hint: string,
  act: (lab: Lab, from: HTMLElement) => Promise<string>
): HTMLElement | null {
  const { lab } = host;
  return lab && confirmingButton(name, label, hint, from => act(lab, from));
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
  setLabel(element, text, text);
  window.setTimeout(() => setLabel(element, label, name), LABEL_MILLISECONDS);
}

function setLabel(element: HTMLElement, label: string, name: string): void {
  element.textContent = label;
  element.ariaLabel = name;
}
