/** The parts of the page around a card that its view knows of: set by JupyterLab's extension. */

interface Host {
  /** The keys of buttons, by the buttons' names. */
  keys: Readonly<Partial<Record<string, string>>>;
  /** Inserts cells below the one with this element; returns null, or why it cannot. */
  insertCells: ((from: Element, sources: readonly string[]) => string | null) | null;
  /** Runs an agent cell below the one with this element; returns null, or why it cannot. */
  askBelow: ((from: Element, prompt: string) => string | null) | null;
}

export const host: Host = { keys: {}, insertCells: null, askBelow: null };
