/** The whole of a call, as it is approved: nothing hidden, nothing cut. */
import type { Preview, ToolExecution } from '../protocol';
import { diffOf } from './diff';
import { Child, h } from './dom';
import { plural, valueText } from './format';
import { highlight } from './highlight';
import { reveal, revealWithin } from './reveal';

/** A longer argument starts folded when the preview has shown its effect already. */
const LONG_ARGUMENT = 300;

/** The preview of a call and every argument that the preview does not show word for word. */
export function wholeCall({ call, preview }: Pick<ToolExecution, 'call' | 'preview'>): Child[] {
  const drawn = preview === null || preview.kind === 'arguments' ? null : preview;
  const rest = Object.entries(call.arguments).filter(([, value]) => value !== drawn?.text);
  return [
    call.parse_error === null
      ? null
      : h('p', { class: 'ipyagent-error' }, reveal(call.parse_error)),
    drawn === null ? null : previewOf(drawn),
    rest.length === 0 ? null : argumentList(rest, drawn !== null)
  ];
}

function previewOf(preview: Preview): HTMLElement {
  const lines = preview.text.split('\n').length;
  const label = preview.kind === 'diff' ? 'changes' : preview.language;
  return h(
    'div',
    { class: 'ipyagent-preview', 'data-kind': preview.kind },
    h('div', { class: 'ipyagent-caption' }, `${label} · ${plural(lines, 'line')}`),
    preview.kind === 'diff' ? diffOf(preview.text) : codeOf(preview)
  );
}

function codeOf({ text, language }: Preview): HTMLElement {
  return h(
    'pre',
    { class: 'ipyagent-pre' },
    revealWithin(h('code', {}, highlight(text, language)))
  );
}

function argumentList(entries: [string, unknown][], fold: boolean): HTMLElement {
  const rows = entries.map(([name, value]) =>
    h('div', {}, h('dt', {}, reveal(name)), h('dd', {}, argument(valueText(value), fold)))
  );
  return h('dl', { class: 'ipyagent-arguments' }, ...rows);
}

function argument(text: string, fold: boolean): HTMLElement {
  const value = h('pre', { class: 'ipyagent-pre' }, reveal(text));
  if (!fold || text.length <= LONG_ARGUMENT) {
    return value;
  }
  const lines = plural(text.split('\n').length, 'line');
  return h('details', {}, h('summary', {}, `show all ${lines}`), value);
}
