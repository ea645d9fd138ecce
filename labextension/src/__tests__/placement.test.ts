import { describe, it, expect } from 'vitest';

import { Inserted, placeOf } from '../lab/proposals/placement';
import type { Overview } from '../protocol';
import { CALL, request } from './story';

const CELLS = ['a', 'b', 'c', '1'];

const place = (
  name: string,
  given: Record<string, unknown>,
  asking: string | null = 'b',
  inserted: string[] = []
) => {
  const call = { ...CALL, name, request: request({ arguments: given }) };
  const found = placeOf(call, { cells: CELLS, agentCell: asking, inserted });
  return found && `${found.side} ${found.cellId}`;
};

describe('the place of a change', () => {
  it.each([
    ['c', 'changed c'],
    [0, 'changed a'],
    ['2', 'changed c'],
    // An id comes before a position.
    ['1', 'changed 1'],
    [4, null],
    [-1, null],
    ['gone', null]
  ])('of cell %j is %j', (cell, expected) => {
    expect(place('edit_cell', { cell })).toBe(expected);
  });
});

describe('the place of a new cell', () => {
  it.each([
    [0, 'before a'],
    [1, 'after a'],
    [4, 'after 1'],
    [5, null]
  ])('at %j is %j', (index, expected) => {
    expect(place('insert_cell', { index })).toBe(expected);
  });

  it.each([
    ['b', [], 'after b'],
    ['b', ['c'], 'after c'],
    // The user has moved the agent's cell down.
    ['c', ['a'], 'after c'],
    ['gone', [], 'after 1'],
    [null, [], 'after 1']
  ])('that %j asks for after %j is %j', (asking, inserted, expected) => {
    expect(place('insert_cell', {}, asking, inserted)).toBe(expected);
    expect(place('insert_cell', { index: null }, asking, inserted)).toBe(expected);
  });

  it('is below those of the same run only', () => {
    const overview = (id: string, live: boolean) => ({ runs: [{ id, live }] }) as Overview;
    const inserted = new Inserted();
    inserted.add(overview('r1', true), 'c1');
    inserted.add(overview('r2', true), 'c2');
    inserted.add(overview('r2', true), 'c3');
    inserted.add(overview('r2', false), 'c4');
    inserted.add(null, 'c5');
    expect([inserted.by('r1'), inserted.by('r2'), inserted.by('r3')]).toEqual([
      ['c1'],
      ['c2', 'c3'],
      []
    ]);
  });
});
