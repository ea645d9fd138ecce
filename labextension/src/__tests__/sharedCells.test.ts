import { YNotebook } from '@jupyter/ydoc';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import {
  codeCell,
  insertCells,
  readCells,
  replaceSource,
  setOutputs,
  WantedRuns
} from '../lab/sharedCells';

let notebook: YNotebook;

// Yjs warns of how ydoc makes cells.
vi.spyOn(console, 'warn').mockReturnValue();

const sources = () => notebook.cells.map(cell => cell.getSource());
const cell = (index: number) => notebook.cells[index];
const type = (index: number, text: string) => cell(index).updateSource(0, 0, text);
const replace = (index: number, source: string) =>
  replaceSource(notebook, cell(index).getId(), cell(index).getSource(), source);

beforeEach(() => {
  notebook = YNotebook.create({
    disableDocumentWideUndoRedo: true,
    data: {
      cells: [
        { id: 'one', cell_type: 'code', source: 'x = 1', metadata: {}, outputs: [] },
        { id: 'two', cell_type: 'markdown', source: '# Two', metadata: {} }
      ],
      metadata: {},
      nbformat: 4,
      nbformat_minor: 5
    }
  });
  notebook.clearUndoHistory();
  notebook.cells.forEach(each => each.clearUndoHistory());
});

describe('the cells of a notebook', () => {
  it('are told with what they have', () => {
    const output = { output_type: 'stream', name: 'stdout', text: 'hello\n' };
    setOutputs(codeCell(notebook, 'one', 'x = 1'), [output], 3);
    expect(readCells(notebook)).toEqual([
      {
        id: 'one',
        kind: 'code',
        source: 'x = 1',
        locked: false,
        execution_count: 3,
        outputs: [output]
      },
      {
        id: 'two',
        kind: 'markdown',
        source: '# Two',
        locked: false,
        execution_count: null,
        outputs: []
      }
    ]);
  });

  it('are told in words: figures would be too much for a message', () => {
    const image = { 'image/png': 'A'.repeat(20_000_000), 'text/plain': ['<Fig', 'ure>'] };
    const outputs = [
      { output_type: 'display_data', data: image, metadata: {} },
      { output_type: 'stream', name: 'stdout', text: '🙂'.repeat(2_000_000) },
      {
        output_type: 'error',
        ename: 'E',
        evalue: 'e',
        traceback: ['Cell In[3]', '-'.repeat(9_000)]
      }
    ];
    setOutputs(codeCell(notebook, 'one', 'x = 1'), outputs, 3);
    expect(readCells(notebook)[0].outputs).toEqual([
      { output_type: 'display_data', data: { 'image/png': '', 'text/plain': '<Figure>' } },
      { output_type: 'stream', name: 'stdout', text: '🙂'.repeat(1_000) },
      { output_type: 'error', ename: 'E', evalue: 'e', traceback: ['Cell In[3]'] }
    ]);
  });

  it('are told to be locked where they are', () => {
    cell(1).setMetadata('editable', false);
    expect(readCells(notebook).map(({ locked }) => locked)).toEqual([false, true]);
  });

  it('get a new one at any position up to the end', () => {
    const [id] = insertCells(notebook, 0, 'raw', ['first']);
    insertCells(notebook, 3, 'code', ['last']);
    expect(sources()).toEqual(['first', 'x = 1', '# Two', 'last']);
    expect(cell(0).getId()).toBe(id);
    expect(cell(3).getMetadata('trusted')).toBe(true);
    expect(() => insertCells(notebook, 5, 'code', [''])).toThrow('the notebook has 4 cells');
    expect(() => insertCells(notebook, -1, 'code', [''])).toThrow('no position -1');
  });

  it('make the document dirty when they change', () => {
    notebook.dirty = false;
    replace(0, 'x = 2');
    expect(notebook.dirty).toBe(true);
  });
});

describe('a source', () => {
  it('is replaced only if it is what was read', () => {
    type(0, 'y = 0\n');
    expect(() => replaceSource(notebook, 'one', 'x = 1', 'x = 2')).toThrow(
      'the cell has changed since it was read'
    );
    expect(() => replaceSource(notebook, 'gone', 'x = 1', 'x = 2')).toThrow('the cell is gone');
    expect(sources()[0]).toBe('y = 0\nx = 1');
  });

  it('has the ends of lines that editors have, or they would be at different places in it', () => {
    insertCells(notebook, 2, 'code', ['a\r\nb\rc\n']);
    replace(0, 'x\r\n= 2\r');
    expect(sources()).toEqual(['x\n= 2\n', '# Two', 'a\nb\nc\n']);
  });

  it('is left alone where the cell is locked', () => {
    cell(0).setMetadata('editable', false);
    expect(() => replace(0, 'x = 2')).toThrow('the cell is locked');
    expect(sources()[0]).toBe('x = 1');
  });

  it.each([
    ['a\nb\nc', 'a\nB\nc', [{ retain: 2 }, { insert: 'B' }, { delete: 1 }]],
    ['aa', 'aaa', [{ retain: 2 }, { insert: 'a' }]],
    ['', 'new', [{ insert: 'new' }]],
    ['old', '', [{ delete: 3 }]]
  ])('%j becomes %j where they differ', (before, after, expected) => {
    replace(0, before);
    let seen: unknown;
    cell(0).changed.connect((_, { sourceChange }) => (seen = sourceChange));
    replace(0, after);
    expect(seen).toEqual(expected);
  });

  it.each([
    ['😀', '😁'],
    ['a😀b', 'a😁b'],
    ['😀😀', '😀'],
    ['\u{1f600}', '\u{1fa00}'],
    ['\u{1f600}x', '\u{1fa00}x']
  ])('of characters of two units, %j, becomes %j', (before, after) => {
    replace(0, before);
    replace(0, after);
    expect(sources()[0]).toBe(after);
    expect(notebook.undo()).toBe(true);
    expect(sources()[0]).toBe(before);
  });
});

describe('undo of the notebook', () => {
  it('takes back one change at a time, however quickly they came', () => {
    insertCells(notebook, 1, 'code', ['new']);
    replace(1, 'newer');
    replace(0, 'x = 2');
    const steps = [
      ['x = 1', 'newer', '# Two'],
      ['x = 1', 'new', '# Two'],
      ['x = 1', '# Two']
    ];
    steps.forEach(step => {
      notebook.undo();
      expect(sources()).toEqual(step);
    });
    expect(notebook.canUndo()).toBe(false);
    notebook.redo();
    notebook.redo();
    notebook.redo();
    expect(sources()).toEqual(['x = 2', 'newer', '# Two']);
  });

  it('takes back all cells that were inserted together at once', () => {
    insertCells(notebook, 2, 'code', ['last']);
    const ids = insertCells(notebook, 1, 'code', ['a = 1', 'b = 2\r\n']);
    expect(sources()).toEqual(['x = 1', 'a = 1', 'b = 2\n', '# Two', 'last']);
    expect([cell(1).getId(), cell(2).getId()]).toEqual(ids);
    notebook.undo();
    expect(sources()).toEqual(['x = 1', '# Two', 'last']);
  });

  it('leaves alone what the user typed right before and after', () => {
    type(0, 'a');
    replace(0, 'ax = 2');
    type(0, 'b');
    notebook.undo();
    expect(sources()[0]).toBe('bax = 1');
  });

  it('leaves the outputs of a cell alone', () => {
    replace(0, 'x = 2');
    setOutputs(codeCell(notebook, 'one', 'x = 2'), [], 7);
    notebook.undo();
    expect(readCells(notebook)[0]).toMatchObject({ source: 'x = 1', execution_count: 7 });
  });
});

describe("undo of the cell's own editor", () => {
  it('takes it back as well, and what was typed before it', () => {
    type(0, 'a');
    replace(0, 'changed');
    cell(0).undo();
    expect(sources()[0]).toBe('ax = 1');
    cell(0).undo();
    expect(sources()[0]).toBe('x = 1');
    cell(0).redo();
    cell(0).redo();
    expect(sources()[0]).toBe('changed');
  });

  it('and that of the notebook take back one change once', () => {
    insertCells(notebook, 1, 'code', ['new']);
    replace(0, 'changed');
    cell(0).undo();
    cell(0).redo();
    notebook.undo();
    expect(sources()).toEqual(['changed', '# Two']);
    cell(0).undo();
    expect(sources()).toEqual(['x = 1', '# Two']);
  });

  it('knows nothing of what the notebook took back', () => {
    type(0, 'a');
    replace(0, 'changed');
    notebook.undo();
    notebook.redo();
    notebook.undo();
    expect(sources()[0]).toBe('ax = 1');
    cell(0).undo();
    expect(sources()[0]).toBe('x = 1');
  });
});

describe('outputs', () => {
  it('are of code cells with the source that was run', () => {
    expect(() => codeCell(notebook, 'two', '# Two')).toThrow('a markdown cell has no outputs');
    expect(() => codeCell(notebook, 'one', 'x = 2')).toThrow('has changed since');
  });

  it('may have their text in lines', () => {
    const output = { output_type: 'stream', name: 'stdout', text: ['a\n', 'b\n'] };
    setOutputs(codeCell(notebook, 'one', 'x = 1'), [output], null);
    expect(readCells(notebook)[0].outputs).toEqual([{ ...output, text: 'a\nb\n' }]);
  });
});

describe('a change that is to run once it is made', () => {
  it('runs once, and not where a later step makes the same one', () => {
    const wanted = new WantedRuns();
    ['one', 'two'].forEach(change => wanted.add(change, 'run 1'));
    expect(wanted.take('one', ['other 2', 'run 1'])).toBe(true);
    expect(wanted.take('one', ['run 1'])).toBe(false);
    expect(wanted.take('two', ['run 2'])).toBe(false);
    expect(wanted.take('three', ['run 1'])).toBe(false);
  });
});
