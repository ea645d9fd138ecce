/**
 * The modules that draw cards, by the hash of their text: one for all cards of a page, whichever of
 * its bundles or kernels has brought it.
 */
import type { Widget } from './widget';

/** Makes one widget with all its views. */
export type MakeWidget = () => Widget;

type Load = () => Promise<MakeWidget>;

const MODULES = Symbol.for('ipyagent.widgetModules');

/** Return the page's modules: the card's loader and the extension are bundled apart. */
export function widgetModules(): Map<string, Load> {
  const place = globalThis as { [MODULES]?: Map<string, Load> };
  return (place[MODULES] ??= new Map<string, Load>());
}
