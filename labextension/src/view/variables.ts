/** The variables that a call's code touched, in one line. */
import type { ToolResult } from '../protocol';

const NAMED = 10;

/** "created: df (DataFrame, 3 rows × 2 columns); deleted: x (int)"; "" where there are none. */
export function variablesText(result: ToolResult | null): string {
  // A run that an older version saved does not tell them.
  const all = result?.variables ?? [];
  const parts = new Map<string, string[]>();
  for (const { name, change, type } of all.slice(0, NAMED)) {
    const named = type === '' ? name : `${name} (${type})`;
    parts.set(change, [...(parts.get(change) ?? []), named]);
  }
  const said = [...parts].map(([change, names]) => `${change}: ${names.join(', ')}`);
  return [...said, ...(all.length > NAMED ? [`… ${all.length - NAMED} more`] : [])].join('; ');
}
