/** The parts of the page around a card that its view knows of: set by JupyterLab's extension. */

interface Host {
  /** The keys of buttons, by the buttons' names. */
  keys: Readonly<Partial<Record<string, string>>>;
  /** Inserts cells below the one with this element; returns null, or why it cannot. */
  insertCells: ((from: Element, sources: readonly string[]) => string | null) | null;
  /**
   * Runs an agent cell below the one with this element, with the model that its options name if that
   * is kept; returns null, or why it cannot.
   */
  askBelow: ((from: Element, prompt: string, isModelKept: boolean) => string | null) | null;
  /** Runs the cell with this element again, with the model; returns what became of it. */
  askAnew: ((from: Element) => Promise<string>) | null;
  /** Runs these cells of the notebook with this element; returns null, or why it cannot. */
  runCells: ((from: Element, ids: readonly string[]) => string | null) | null;
  /** Lets the user choose the model of the next prompts; returns whether one was chosen. */
  chooseModel: ((from: Element) => Promise<boolean>) | null;
  /**
   * Undoes a run of the notebook with this element, or reports what that would do; undefined without
   * a connection.
   */
  undo: ((from: Element, runId: string, isDry: boolean) => Promise<unknown> | undefined) | null;
}

export const host: Host = {
  keys: {},
  insertCells: null,
  askBelow: null,
  askAnew: null,
  runCells: null,
  chooseModel: null,
  undo: null
};
