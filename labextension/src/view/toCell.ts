/** Buttons that make code of a run cells of its notebook, or run its cell again. */
import { h } from './dom';
import { button } from './form';
import { host } from './host';

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
  return toCells('to-cell', 'To cell', hint, source && (() => [source()]));
}

/** Return a button that inserts cells below; null where there is no notebook to change. */
export function toCells(
  name: string,
  label: string,
  description: string,
  sources?: () => readonly string[]
): HTMLElement | null {
  if (host.insertCells === null) {
    return null;
  }
  const place = confirmingButton(
    name,
    label,
    description,
    sources && (() => insert(place, sources()))
  );
  place.classList.add('ipyagent-to-cell');
  return place;
}

/** Insert cells below a card; return what became of it. */
export function insert(from: Element, sources: readonly string[]): Promise<string> {
  return Promise.resolve(host.insertCells?.(from, sources) ?? 'Inserted below');
}

/** Return a button that runs a replayed cell again, with the model; null outside of a notebook. */
export function askAnew(): HTMLElement | null {
  const { askAnew: ask } = host;
  if (ask === null) {
    return null;
  }
  const hint = 'Run this cell again, and ask the model';
  const place: HTMLElement = confirmingButton('ask-anew', 'Ask anew', hint, () => ask(place));
  return place;
}

/** Return a button that runs the cells that a run has changed; null where there are none. */
export function runChanged(ids: readonly string[]): HTMLElement | null {
  const { runCells } = host;
  if (runCells === null || ids.length === 0) {
    return null;
  }
  const hint = 'Run the cells that were changed, in the order of the notebook';
  const place: HTMLElement = confirmingButton('run-changed', 'Run what changed', hint, () =>
    Promise.resolve(runCells(place, ids) ?? 'Running')
  );
  return place;
}

/** Return a button that shows for a moment what its action says; without one, others act for it. */
export function confirmingButton(
  name: string,
  label: string,
  description: string,
  act?: () => Promise<string>
): HTMLElement {
  const element = button(name, label, description, () => act && void confirmResult(element, act()));
  return h('span', { 'data-lm-suppress-shortcuts': 'true', role: 'status' }, element);
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
