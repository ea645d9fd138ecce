/** Buttons that make code of a run cells of its notebook, or run its cell again. */
import { h } from './dom';
import { button, nameOf } from './form';
import { host } from './host';

/** Milliseconds for which a button confirms. */
const LABEL_MILLISECONDS = 2_000;

/** Code without a language is mostly Python here. */
const PYTHON = /^(?:i?python3?|py)?$/i;
const SHELL = /^(?:bash|sh|shell)$/i;

const RUNNERS = ['run_python', 'python_script', 'run_shell'];

/** Return the source of a cell that runs code; null for languages that no cell runs. */
function cellSource(code: string, language: string): string | null {
  const source = code.trimEnd();
  return PYTHON.test(language) ? source : SHELL.test(language) ? `%%bash\n${source}` : null;
}

/** The parts of a call, live or saved, that are needed. */
interface Ran {
  name: string;
  status: string;
  is_dry: boolean;
  request: {
    arguments: Record<string, unknown>;
    preview: { kind: string; text: string; language: string } | null;
  };
}

/** Return the cell for the code that a call ran; null if it ran none, or without success. */
export function ranBy({ name, status, is_dry, request }: Ran): string | null {
  const { preview, arguments: given } = request;
  const hasRun = RUNNERS.includes(name) && (given.action ?? 'run') === 'run';
  const isKept = hasRun && status === 'success' && !is_dry && preview?.kind === 'code';
  return isKept ? cellSource(preview.text, preview.language) : null;
}

/** Return a button that makes a code block a cell; null where that cannot be. */
export function blockToCell(code: string, language: string): HTMLElement | null {
  return cellSource('', language) === null
    ? null
    : toCells('to-cell', 'To cell', 'Insert this code as a cell below', () => [
        cellSource(code, language) ?? ''
      ]);
}

/** Return a button that inserts cells below; null where there is no notebook to change. */
export function toCells(
  name: string,
  label: string,
  description: string,
  sources: () => readonly string[]
): HTMLElement | null {
  const { insertCells } = host;
  if (insertCells === null) {
    return null;
  }
  const place: HTMLElement = confirmingButton(name, label, description, () =>
    Promise.resolve(insertCells(place, sources()) ?? 'Inserted below')
  );
  place.classList.add('ipyagent-to-cell');
  return place;
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

/** Return a button that shows for a moment what its action says. */
export function confirmingButton(
  name: string,
  label: string,
  description: string,
  act: () => Promise<string>
): HTMLElement {
  const place = h('span', { 'data-lm-suppress-shortcuts': 'true', role: 'status' });
  const element = button(name, label, description, () => {
    void act().then(text => {
      setLabel(element, text, text);
      window.setTimeout(() => setLabel(element, label, description), LABEL_MILLISECONDS);
    });
  });
  place.append(element);
  return place;
}

function setLabel(element: HTMLElement, label: string, description: string): void {
  element.textContent = label;
  element.setAttribute('aria-label', nameOf(label, description));
}
