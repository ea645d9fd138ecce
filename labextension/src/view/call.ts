/** The whole of a call, as it is approved: nothing hidden, nothing cut. */
import type { Preview, ToolExecution } from '../protocol';
import { diffOf } from './diff';
import { Child, h } from './dom';
import { plural, valueText } from './format';
import { highlight } from './highlight';
import { hiddenAsEscapes, reveal, revealWithin } from './reveal';

/** What a diff of these tools shows; their other arguments stand below it. */
const IN_DIFF: Readonly<Record<string, readonly string[]>> = {
  edit_file: ['old_string', 'new_string'],
  write_file: ['content'],
  edit_cell: ['source']
};

/**
 * The preview of a call and every argument that the preview does not show. What a diff shows in
 * other words can be unfolded as it is sent.
 */
export function wholeCall({ call, preview }: Pick<ToolExecution, 'call' | 'preview'>): Child[] {
  const drawn = preview === null || preview.kind === 'arguments' ? null : preview;
  const inDiff = (drawn?.kind === 'diff' && IN_DIFF[call.name]) || [];
  const rest = Object.entries(call.arguments).filter(
    ([name, value]) => value !== drawn?.text && !inDiff.includes(name)
  );
  return [
    call.parse_error === null
      ? null
      : h('p', { class: 'ipyagent-error' }, reveal(call.parse_error)),
    drawn === null ? null : previewOf(drawn),
    rest.length === 0 ? null : argumentList(rest),
    inDiff.length === 0 ? null : exactly(call.arguments)
  ];
}

function exactly(given: Record<string, unknown>): HTMLElement {
  const json = hiddenAsEscapes(JSON.stringify(given, null, 2));
  return h(
    'details',
    { class: 'ipyagent-exact' },
    h('summary', {}, 'exactly what is sent'),
    h('pre', { class: 'ipyagent-pre' }, reveal(json))
  );
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

function argumentList(entries: [string, unknown][]): HTMLElement {
  const rows = entries.map(([name, value]) =>
    h('div', {}, h('dt', {}, reveal(name)), h('dd', {}, argument(valueText(value))))
  );
  return h('dl', { class: 'ipyagent-arguments' }, ...rows);
}

function argument(text: string): HTMLElement {
  return h('pre', { class: 'ipyagent-pre' }, reveal(text));
}
