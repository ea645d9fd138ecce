/**
 * The modules that draw cards, by the hash of their text: one for all cards of a page. A file of its
 * own, as the loader's import of a module cannot be part of the extension's bundle.
 */
import type { Widget } from './widget';

/** Makes one widget with all its views. */
export type MakeWidget = () => Widget;

type Load = () => Promise<MakeWidget>;

const MODULES = Symbol.for('ipyagent.widgetModules');

/**
 * Return the modules of this page, by hash. They are global, as the loader and the extension are
 * separate bundles.
 */
export function widgetModules(): Map<string, Load> {
  const place = globalThis as { [MODULES]?: Map<string, Load> };
  return (place[MODULES] ??= new Map<string, Load>());
}
