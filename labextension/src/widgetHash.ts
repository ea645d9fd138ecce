/** The hash of the built widget module, as in `ipyagent.ui.card`; `build.mjs` writes it. */
export const WIDGET_HASH = '';
