import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Face, scrollToPart, Visibility } from '../lab/approvals/visibility';
import { h } from '../view/dom';

/** A page of 100 pixels on which parts stand at places; jsdom lays nothing out. */
let onScreen: Map<Element, [top: number, bottom: number]>;
let cover: Element | null;

function place(element: HTMLElement, top: number, bottom: number): void {
  onScreen.set(element, [top, bottom]);
  element.getBoundingClientRect = () =>
    ({
      left: 0,
      right: 100,
      top: onScreen.get(element)?.[0],
      bottom: onScreen.get(element)?.[1]
    }) as DOMRect;
}

function asked(): Face & { pre: HTMLElement; details: HTMLElement } {
  const form = h('div', {}, h('button'));
  const pre = h('pre');
  const details = h('details', { class: 'ipyagent-tool-details', open: '' }, pre);
  const card = h('div', {}, details, form);
  card.scrollIntoView = pre.scrollIntoView = form.scrollIntoView = vi.fn();
  place(card, 0, 90);
  place(pre, 10, 60);
  place(form, 70, 90);
  document.body.replaceChildren(card);
  return { card, form, pre, details };
}

function looked(parts: Face, ...moments: number[]): Visibility {
  const sight = new Visibility('a');
  moments.forEach(now => sight.record(parts, now));
  return sight;
}

beforeEach(() => {
  onScreen = new Map();
  cover = null;
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('visible');
  document.elementFromPoint = (_, y) => {
    const hit = [...onScreen].filter(([, [top, bottom]]) => y >= top && y <= bottom && y < 100);
    return cover ?? hit.at(-1)?.[0] ?? null;
  };
});

afterEach(() => vi.restoreAllMocks());

test('a card is seen when all of it was on screen for half a second', () => {
  const parts = asked();
  expect(looked(parts, 0).firstUnseen(parts)).toBe(parts.card);
  expect(looked(parts, 0, 400).firstUnseen(parts)).toBe(parts.card);
  expect(looked(parts, 0, 100, 500).firstUnseen(parts)).toBeNull();
});

test('what lies below the edge, under something else or on a hidden page was not seen', () => {
  const parts = asked();
  place(parts.form, 110, 130);
  expect(looked(parts, 0, 500).firstUnseen(parts)).toBe(parts.form);
  place(parts.form, 70, 90);
  cover = document.body;
  expect(looked(parts, 0, 500).firstUnseen(parts)).toBe(parts.card);
  cover = null;
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
  expect(looked(parts, 0, 500).firstUnseen(parts)).toBe(parts.card);
});

test('the buttons have to be on screen now, the rest at any time', () => {
  const parts = asked();
  const sight = looked(parts, 0, 500);
  place(parts.card, -200, 90);
  sight.record(parts, 600);
  expect(sight.firstUnseen(parts)).toBeNull();
  place(parts.form, 110, 130);
  sight.record(parts, 700);
  expect(sight.firstUnseen(parts)).toBe(parts.form);
});

test('a fold is opened, and what was in it has to be seen', () => {
  const parts = asked();
  parts.details.removeAttribute('open');
  const sight = looked(parts, 0, 500);
  expect(sight.firstUnseen(parts)).toBe(parts.card);
  scrollToPart(parts, parts.card);
  expect(parts.details.hasAttribute('open')).toBe(true);
  sight.record(parts, 1_000);
  expect(sight.firstUnseen(parts)).toBe(parts.card);
  sight.record(parts, 1_500);
  expect(sight.firstUnseen(parts)).toBeNull();
});

test('code that scrolls in the card has to be seen to its end', () => {
  const parts = asked();
  const height = (value: number) => ({ value, configurable: true });
  Object.defineProperty(parts.pre, 'scrollHeight', height(120));
  Object.defineProperty(parts.pre, 'clientHeight', height(50));
  const sight = looked(parts, 0, 500);
  expect(sight.firstUnseen(parts)).toBe(parts.pre);
  scrollToPart(parts, parts.pre);
  scrollToPart(parts, parts.pre);
  sight.record(parts, 1_000);
  sight.record(parts, 1_500);
  expect(sight.firstUnseen(parts)).toBeNull();
});
