/** The effects of a call, as rehearsed on a copy of the kernel. */
import type { EffectLine, Effects } from '../protocol';
import { changesOf } from './diff';
import { media } from './displays';
import { Child, h, textBox } from './dom';
import { reveal } from './reveal';
import type { Before } from './sanitize';

/** Draw a line for each variable and file; diffs, output and figures are folded. */
export function effectsOf(effects: Effects, before: Before): HTMLElement {
  const { title, lines } = effects;
  return h(
    'div',
    { class: 'ipyagent-effects', 'data-ipyagent': 'effects', 'aria-live': 'polite' },
    h('p', { class: 'ipyagent-effects-title' }, reveal(title)),
    lines.length === 0 ? null : h('ul', { class: 'ipyagent-effects-list' }, ...lines.map(row)),
    rehearsedResult(effects, before)
  );
}

function row({ change, text, diff }: EffectLine): HTMLElement {
  const word = change === 'other' ? null : `${change} `;
  const line = [h('span', { class: 'ipyagent-effects-change' }, word), reveal(text)];
  const fold = (): HTMLElement => h('details', {}, h('summary', {}, ...line), changesOf(diff));
  return h('li', { 'data-change': change }, ...(diff === '' ? line : [fold()]));
}

function rehearsedResult({ shown, shown_title }: Effects, before: Before): Child {
  if (shown === null) {
    return null;
  }
  const text = shown.output === '' ? shown.error : shown.output;
  const figures = shown.media.map(each => media(each, before));
  return h(
    'details',
    {},
    h('summary', {}, shown_title),
    text === '' ? null : textBox(reveal(text), 'ipyagent-output'),
    h('div', { class: 'ipyagent-media' }, ...figures)
  );
}
