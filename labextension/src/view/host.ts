/** The parts of the page around a card that its view knows of: set by JupyterLab's extension. */

import type { Ask, NewCell, Protocol } from '../protocol';

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

type Replies = Protocol['replies'];

/** The kernel's reply, or why there is none; null if it has nothing to say. */
export type Reply<What extends keyof Replies> =
  (Partial<Replies[What]> & { problem?: string }) | null;

/** The services of JupyterLab for a card, by one of the card's elements. */
export interface Lab {
  /** Inserts cells below the element's; returns null, or why it cannot. */
  insertCells(from: Element, sources: readonly CellSource[]): string | null;
  /**
   * Asks the kernel; returns undefined without a connection, and resolves with it if that was lost.
   */
  ask<What extends keyof Replies>(
    from: Element,
    what: What,
    about: Partial<Ask>
  ): Promise<Reply<What> | undefined> | undefined;
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
  /** Returns an editor for code of a MIME type; null without one. */
  edit(code: string, mimeType: string): TextEditor | null;
  /** Lets the user choose the model of the next prompts; returns whether one was chosen. */
  chooseModel(from: Element): Promise<boolean>;
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
