/** The parts of the page around a card that its view knows of: set by JupyterLab's extension. */

interface Host {
  /** The keys of buttons, by the buttons' names. */
  keys: Readonly<Partial<Record<string, string>>>;
}

export const host: Host = { keys: {} };
