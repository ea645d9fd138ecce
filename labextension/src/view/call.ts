/** Draws a call in full, as it is approved. */
import type { Argument, CallRequest, Preview } from '../protocol';
import { diffOf } from './diff';
import { Child, h, textBox } from './dom';
import { highlight } from './highlight';
import { hiddenAsEscapes, reveal, revealWithin } from './reveal';

/**
 * Return the preview of a call, and the arguments that it does not show. The exact arguments of a
 * diff can be unfolded.
 */
export function wholeCall(request: CallRequest): Child[] {
  const { parse_error, preview, shown, is_exact_folded } = request;
  return [
    parse_error === '' ? null : h('p', { class: 'ipyagent-error' }, reveal(parse_error)),
    preview === null ? null : previewOf(preview),
    shown.length === 0 ? null : argumentList(shown),
    is_exact_folded ? exactly(request.arguments) : null
  ];
}

function exactly(given: Record<string, unknown>): HTMLElement {
  const json = hiddenAsEscapes(JSON.stringify(given, null, 2));
  return h(
    'details',
    { class: 'ipyagent-exact' },
    h('summary', {}, 'exactly what is sent'),
    textBox(reveal(json))
  );
}

function previewOf(preview: Preview): HTMLElement {
  return h(
    'div',
    { class: 'ipyagent-preview', 'data-kind': preview.kind },
    h('div', { class: 'ipyagent-caption' }, reveal(preview.caption)),
    preview.kind === 'diff' ? diffOf(preview.text) : codeOf(preview)
  );
}

function codeOf({ text, language }: Preview): HTMLElement {
  return textBox(revealWithin(h('code', {}, highlight(text, language))));
}

function argumentList(shown: readonly Argument[]): HTMLElement {
  const rows = shown.map(({ name, value }) =>
    h('div', {}, h('dt', {}, reveal(name)), h('dd', {}, textBox(reveal(value))))
  );
  return h('dl', { class: 'ipyagent-arguments' }, ...rows);
}
