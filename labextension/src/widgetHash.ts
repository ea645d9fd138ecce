/** The hash of the built widget module, as `ipyagent.ui.card` has it: `build.mjs` writes it. */
export const WIDGET_HASH = '';
