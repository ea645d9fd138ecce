import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { areAllButtonsInSight, areButtonsInSight, isInSight } from '../lab/questionCard';
import { h } from '../view/dom';

/** A page of 100 pixels on which a card and its form stand; jsdom lays nothing out. */
let onScreen: Map<Element, [top: number, bottom: number]>;
let cover: Element | null;

function place(element: HTMLElement, top: number, bottom: number): void {
  onScreen.set(element, [top, bottom]);
  element.getBoundingClientRect = () => ({ left: 0, right: 100, top, bottom }) as DOMRect;
}

function asked(top: number, bottom: number) {
  const form = h('div', {}, h('button'));
  const card = h('details', { class: 'ia-tool' }, form);
  place(card, top - 70, bottom);
  place(form, top, bottom);
  document.body.replaceChildren(card);
  return form;
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

test('a card on screen can be decided on', () => {
  const card = asked(70, 90);
  expect([isInSight(card), areButtonsInSight(card), areAllButtonsInSight(card)]).toEqual([
    true,
    true,
    true
  ]);
});

test('a form that is cut off at an edge is in sight, but not all of it', () => {
  const card = asked(80, 120);
  expect([areButtonsInSight(card), areAllButtonsInSight(card)]).toEqual([true, false]);
});

test('what lies below the edge, under something else or on a hidden page is not in sight', () => {
  expect(areButtonsInSight(asked(110, 130))).toBe(false);
  const card = asked(70, 90);
  cover = document.body;
  expect(isInSight(card)).toBe(false);
  cover = null;
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
  expect(isInSight(card)).toBe(false);
});
