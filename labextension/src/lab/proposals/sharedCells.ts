/** The cells of an open notebook as the kernel's tools read and change them. */
import type { YCellType, YCodeCell } from '@jupyter/ydoc';

import { changeCell, changeNotebook, Notebook } from './history';

export type Kind = 'code' | 'markdown' | 'raw';

/** As notebooks have them. */
export type Output = YCodeCell['outputs'][number];

type Bundle = Record<string, unknown>;

/** What is told of a text among the outputs: more than a model is. */
const START = /^.{0,1000}/su;

/** A cell as it is told. */
export interface ToldCell {
  id: string;
  kind: Kind;
  source: string;
  /** The person does not want it to be changed. */
  locked: boolean;
  execution_count: number | null;
  outputs: Output[];
}

/** All cells, in order. */
export function readCells(notebook: Notebook): ToldCell[] {
  return notebook.cells.map(cell => ({
    id: cell.getId(),
    kind: cell.cell_type,
    source: cell.getSource(),
    locked: isLocked(cell),
    execution_count: isCode(cell) ? cell.execution_count : null,
    outputs: isCode(cell) ? cell.getOutputs().map(inWords) : []
  }));
}

/** Put a new cell at that position, and say what its id is. */
export function insertCell(notebook: Notebook, index: number, kind: Kind, source: string): string {
  const { length } = notebook.cells;
  if (index < 0 || index > length) {
    throw new Error(`there is no position ${index}: the notebook has ${length} cells`);
  }
  // As JupyterLab's own new cells: without outputs there is nothing to distrust.
  const metadata = kind === 'code' ? { trusted: true } : {};
  const cell = { cell_type: kind, source: inLines(source), metadata };
  return changeNotebook(notebook, () => notebook.insertCell(index, cell)).getId();
}

/** Give a cell another source, if it still has the one that it had when it was read. */
export function replaceSource(
  notebook: Notebook,
  id: string,
  before: string,
  source: string
): void {
  const cell = unchanged(notebook, id, before);
  if (isLocked(cell)) {
    throw new Error('the cell is locked: its metadata says that it is not editable');
  }
  const after = inLines(source);
  const [start, end] = difference(before, after);
  changeCell(notebook, cell, () => {
    // Only what differs, so that a cursor elsewhere in the cell stays where it is.
    cell.updateSource(start, before.length - end, after.slice(start, after.length - end));
  });
}

/** Take a cell away, if it still has the source that it had when it was read. */
export function removeCell(notebook: Notebook, id: string, before: string): void {
  const cell = unchanged(notebook, id, before);
  if (isLocked(cell)) {
    throw new Error('the cell is locked: its metadata says that it is not editable');
  }
  changeNotebook(notebook, () => notebook.deleteCell(notebook.cells.indexOf(cell)));
}

/** The code cell with that id and source. */
export function codeCell(notebook: Notebook, id: string, before: string): YCodeCell {
  const cell = unchanged(notebook, id, before);
  if (!isCode(cell)) {
    throw new Error(`a ${cell.cell_type as Kind} cell has no outputs`);
  }
  return cell;
}

/** Put there what running the cell gave; as after any run, undo leaves it alone. */
export function setOutputs(cell: YCodeCell, outputs: Output[], count: number | null): void {
  cell.transact(() => {
    cell.setOutputs(outputs.map(whole));
    cell.setExecutionCount(count);
  }, false);
}

function unchanged(notebook: Notebook, id: string, before: string): YCellType {
  const cell = notebook.cells.find(each => each.getId() === id);
  if (cell === undefined) {
    throw new Error('the cell is gone');
  }
  if (cell.getSource() !== before) {
    throw new Error('the cell has changed since it was read');
  }
  return cell;
}

function isCode(cell: YCellType): cell is YCodeCell {
  return cell.cell_type === 'code';
}

function isLocked(cell: YCellType): boolean {
  return cell.getMetadata('editable') === false;
}

/** An editor counts each end of a line as one character: with two, it and the document part. */
function inLines(source: string): string {
  return source.replace(/\r\n?/g, '\n');
}

/** An output in words, and the names of all else: figures would be too much for a message. */
function inWords(output: Output): Output {
  const { output_type, name, ename, evalue, text, data } = output as Bundle;
  const told = Object.entries((data ?? {}) as Bundle).map(([kind, value]) => [
    kind,
    kind === 'text/plain' ? start(value) : ''
  ]);
  const kinds = data === undefined ? {} : { data: Object.fromEntries(told) as Bundle };
  const said = { output_type, name, ename, evalue: start(evalue), text: start(text) };
  return { ...said, ...kinds } as Output;
}

/** No more of a text than anybody is told. */
function start(text: unknown): unknown {
  const whole = Array.isArray(text) ? text.join('') : text;
  return typeof whole === 'string' ? START.exec(whole)?.[0] : undefined;
}

/** A stream's text in one piece: the shared model would put commas between its lines. */
function whole(output: Output): Output {
  const { text } = output as { text?: string | string[] };
  return Array.isArray(text) ? { ...output, text: text.join('') } : output;
}

/** How many characters at the start and at the end are the same in both. */
function difference(before: string, after: string): [start: number, end: number] {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) {
    start++;
  }
  start -= splits(before, start) || splits(after, start) ? 1 : 0;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) {
    end++;
  }
  const parts = splits(before, before.length - end) || splits(after, after.length - end);
  return [start, end - (parts ? 1 : 0)];
}

/** Whether a character of two units, such as an emoji, would be cut there. */
function splits(text: string, at: number): boolean {
  return at > 0 && at < text.length && (text.codePointAt(at - 1) ?? 0) > 0xffff;
}
