/**
 * The cells of an open notebook as the kernel's tools read and change them, each change as one undo
 * step. No JupyterLab.
 */
import type { YCellType, YCodeCell, YNotebook } from '@jupyter/ydoc';

import type { CellSource } from '../view/host';

/** The part of JupyterLab's documents that its interface leaves out. */
export type Notebook = Pick<
  YNotebook,
  'cells' | 'deleteCell' | 'insertCells' | 'transact' | 'undoManager'
>;

type History = Notebook['undoManager'];

/** The origin of our changes in undo histories. */
const ORIGIN = 'ipyagent';

/** Change the list of cells, as one step of the notebook's undo history. */
function changeNotebook<T>(notebook: Notebook, change: () => T): T {
  return asOneStep([notebook.undoManager], () => {
    let changed: T | undefined;
    notebook.transact(() => (changed = change()));
    return changed as T;
  });
}

/**
 * Change a cell's source, as one step in the undo histories of the notebook and the cell's editor.
 */
function changeCell(notebook: Notebook, cell: YCellType, change: () => void): void {
  const histories = [...new Set([notebook.undoManager, cell.undoManager])].filter(each => !!each);
  histories.forEach(history => history.addTrackedOrigin(ORIGIN));
  asOneStep(histories, () => notebook.transact(change, false, ORIGIN));
  histories.forEach(history => history.removeTrackedOrigin(ORIGIN));
  linkSteps(histories);
}

/** Make a change one undo step: others within half a second would join it. */
function asOneStep<T>(histories: History[], change: () => T): T {
  histories.forEach(history => history.stopCapturing());
  const changed = change();
  histories.forEach(history => history.stopCapturing());
  return changed;
}

/**
 * Link a step that several histories have: when one undoes it, the others forget it. Undone twice,
 * with a redo in between, it would leave neither the old text nor the new.
 */
function linkSteps(histories: History[]): void {
  const steps = new Map(histories.map(history => [history, history.undoStack.at(-1)]));
  steps.forEach((step, history) =>
    history.on('stack-item-popped', ({ stackItem }) => {
      if (stackItem === step) {
        steps.delete(history);
        steps.forEach(
          (same, other) => (other.undoStack = other.undoStack.filter(each => each !== same))
        );
        steps.clear();
      }
    })
  );
}

export type Kind = 'code' | 'markdown' | 'raw';

/** An output in the notebook format. */
export type Output = YCodeCell['outputs'][number];

type Bundle = Record<string, unknown>;

/** The part of an output's text that is sent; models read less. */
const START = /^.{0,1000}/su;

/** Return all cells, in order, as they are sent to the kernel. */
export function readCells(notebook: Notebook) {
  return notebook.cells.map(cell => ({
    id: cell.getId(),
    kind: cell.cell_type,
    source: cell.getSource(),
    locked: isLocked(cell),
    execution_count: isCode(cell) ? cell.execution_count : null,
    outputs: isCode(cell) ? cell.getOutputs().map(summarizeOutput) : []
  }));
}

/** Insert cells from that index on, as one step; return their ids. */
export function insertCells(
  notebook: Notebook,
  index: number,
  kind: Kind,
  sources: readonly CellSource[]
): string[] {
  const { length } = notebook.cells;
  if (index < 0 || index > length) {
    throw new Error(`there is no position ${index}: the notebook has ${length} cells`);
  }
  // New cells of JupyterLab are trusted too: they have no outputs.
  const given = sources.map(each => (typeof each === 'string' ? { kind, source: each } : each));
  const cells = given.map(each => ({
    cell_type: each.kind,
    source: normalizeLineEnds(each.source),
    metadata: each.kind === 'code' ? { trusted: true } : {}
  }));
  return changeNotebook(notebook, () => notebook.insertCells(index, cells)).map(cell =>
    cell.getId()
  );
}

/** Replace a cell's source, if it is unchanged since it was read. */
export function replaceSource(
  notebook: Notebook,
  id: string,
  before: string,
  source: string
): void {
  const cell = findEditable(notebook, id, before);
  const after = normalizeLineEnds(source);
  const [start, end] = commonEnds(before, after);
  changeCell(notebook, cell, () => {
    // Replace only the difference, which keeps the cursor where it is.
    cell.updateSource(start, before.length - end, after.slice(start, after.length - end));
  });
}

/** Delete a cell, if its source is unchanged since it was read. */
export function removeCell(notebook: Notebook, id: string, before: string): void {
  const cell = findEditable(notebook, id, before);
  changeNotebook(notebook, () => notebook.deleteCell(notebook.cells.indexOf(cell)));
}

/** Return the code cell with that id and source. */
export function codeCell(notebook: Notebook, id: string, before: string): YCodeCell {
  const cell = findUnchanged(notebook, id, before);
  if (!isCode(cell)) {
    throw new Error(`a ${cell.cell_type as Kind} cell has no outputs`);
  }
  return cell;
}

/** Set the outputs of an execution; as after any, undo leaves them alone. */
export function setOutputs(cell: YCodeCell, outputs: Output[], count: number | null): void {
  cell.transact(() => {
    cell.setOutputs(outputs.map(joinStreamText));
    cell.setExecutionCount(count);
  }, false);
}

function findUnchanged(notebook: Notebook, id: string, before: string): YCellType {
  const cell = notebook.cells.find(each => each.getId() === id);
  if (cell === undefined) {
    throw new Error('the cell is gone');
  }
  if (cell.getSource() !== before) {
    throw new Error('the cell has changed since it was read');
  }
  return cell;
}

function findEditable(notebook: Notebook, id: string, before: string): YCellType {
  const cell = findUnchanged(notebook, id, before);
  if (isLocked(cell)) {
    throw new Error('the cell is locked: its metadata says that it is not editable');
  }
  return cell;
}

function isCode(cell: YCellType): cell is YCodeCell {
  return cell.cell_type === 'code';
}

function isLocked(cell: YCellType): boolean {
  return cell.getMetadata('editable') === false;
}

/** Use \n alone: editors count a line end as one character, and would diverge from the document. */
function normalizeLineEnds(source: string): string {
  return source.replace(/\r\n?/g, '\n');
}

/** Return an output with its text, and only the MIME types of its figures, to limit the size. */
function summarizeOutput(output: Output): Output {
  const { output_type, name, ename, evalue, traceback, text, data } = output as Bundle;
  const texts = Object.entries((data ?? {}) as Bundle).map(([kind, value]) => [
    kind,
    kind === 'text/plain' ? truncate(value) : ''
  ]);
  const kinds = data === undefined ? {} : { data: Object.fromEntries(texts) as Bundle };
  const frames = Array.isArray(traceback) ? { traceback: traceback.filter(isNear).slice(-10) } : {};
  const fields = { output_type, name, ename, evalue: truncate(evalue), text: truncate(text) };
  return { ...fields, ...frames, ...kinds } as Output;
}

/** Return whether a part of a traceback is short, and not of an installed package. */
function isNear(part: unknown): boolean {
  return typeof part === 'string' && part.length < 5_000 && !/(?:site|dist)-packages/.test(part);
}

/** Return the part of a text that is sent. */
function truncate(text: unknown): unknown {
  const whole = Array.isArray(text) ? text.join('') : text;
  return typeof whole === 'string' ? START.exec(whole)?.[0] : undefined;
}

/** Join a stream's lines: the shared model would put commas between them. */
function joinStreamText(output: Output): Output {
  const { text } = output as { text?: string | string[] };
  return Array.isArray(text) ? { ...output, text: text.join('') } : output;
}

/** Return the numbers of equal characters at the start and at the end. */
function commonEnds(before: string, after: string): [start: number, end: number] {
  // By characters: half of one would be another one.
  const [old, now] = [before, after].map(text => Array.from(text));
  const most = Math.min(old.length, now.length);
  let start = 0;
  while (start < most && old[start] === now[start]) {
    start++;
  }
  let end = 0;
  while (end < most - start && old.at(-1 - end) === now.at(-1 - end)) {
    end++;
  }
  return [old.slice(0, start).join('').length, old.slice(old.length - end).join('').length];
}

/** The changes that the user wants to run once they are made, in the steps that propose them. */
export class WantedRuns {
  private steps = new Map<string, string>();

  /** Run a change when it is made in this step: later, another call may make the same one. */
  add(change: string, step: string): void {
    this.steps.set(change, step);
  }

  /** Return whether a change that is made now is to run, once; `steps` are the current ones. */
  take(change: string, steps: readonly string[]): boolean {
    const step = this.steps.get(change);
    this.steps.delete(change);
    return step !== undefined && steps.includes(step);
  }
}
