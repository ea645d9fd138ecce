/** The parts of the page around a card that its view knows of: set by JupyterLab's extension. */

import type { NewCell, Undone } from '../protocol';

/** A cell, or the source of a code cell. */
export type CellSource = NewCell | string;

/** An editor of JupyterLab in the place of a field. */
export interface TextEditor {
  readonly element: HTMLElement;
  /** The element that gets the focus. */
  readonly content: HTMLElement;
  read(): string;
  dispose(): void;
}

/** The services of JupyterLab for a card, by one of the card's elements. */
export interface Lab {
  /** Inserts cells below the element's; returns null, or why it cannot. */
  insertCells(from: Element, sources: readonly CellSource[]): string | null;
  /** Returns a run of the notebook as plain cells; none if its kernel has none. */
  freeze(from: Element, runId: string): Promise<readonly NewCell[]>;
  /**
   * Runs an agent cell below the element's, with the model that its options name if that is kept;
   * returns null, or why it cannot.
   */
  askBelow(from: Element, prompt: string, isModelKept: boolean): string | null;
  /**
   * Runs the element's cell again, with the model also where a recording fits if it `isFresh`;
   * returns what became of it.
   */
  runAgain(from: Element, isFresh: boolean): Promise<string>;
  /** Runs these cells of the notebook; returns null, or why it cannot. */
  runCells(from: Element, ids: readonly string[]): string | null;
  /** Returns the description of a variable of the kernel as HTML. */
  describe(from: Element, name: string): Promise<string>;
  /** Returns names with which a mention may go on; none without a connection. */
  complete(from: Element, mention: string): Promise<readonly string[]>;
  /** Returns an editor for code of a MIME type; null without one. */
  edit(code: string, mimeType: string): TextEditor | null;
  /** Lets the user choose the model of the next prompts; returns whether one was chosen. */
  chooseModel(from: Element): Promise<boolean>;
  /**
   * Undoes a run of the notebook, or reports what that would do; undefined without a connection.
   */
  undo(
    from: Element,
    runId: string,
    isDry: boolean
  ): Promise<Partial<Undone> | null | undefined> | undefined;
}

interface Host {
  /** The keys of buttons, by the buttons' names. */
  keys: Readonly<Partial<Record<string, string>>>;
  /** Sets the formula that is the text of an element. */
  typeset: ((formula: HTMLElement) => unknown) | null;
  /** Null outside of JupyterLab. */
  lab: Lab | null;
}

export const host: Host = { keys: {}, typeset: null, lab: null };
