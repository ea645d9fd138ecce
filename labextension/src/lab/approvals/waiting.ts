/** The approvals that wait in open notebooks, and the way to them. */
import type { NotebookPanel } from '@jupyterlab/notebook';

import { approvalKey } from '../../model';
import type { PendingApproval } from '../../protocol';
import { revealText } from '../../view/reveal';
import { goTo, placeOf } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import type { Links } from '../kernel/links';
import { faceOf, scrollToFace } from './visibility';

/** The id of the side panel. */
export const PANEL = 'ipyagent-panel';

/** The place of cards in a notebook. */
export const OUTPUT = '.jp-OutputArea';

/** Maximal length of the call's description. */
const ABOUT = 80;

/** An approval that waits in an open notebook. */
export interface Waiting {
  readonly key: string;
  readonly approval: PendingApproval;
  readonly link: Link;
  readonly panel: NotebookPanel;
}

/** List the approvals of a kernel, or of all kernels, oldest first, with the notebook that asks. */
export function listWaiting(links: Links, of: readonly Link[] = links.all): Waiting[] {
  return of.flatMap(link => {
    const panels = links.notebooks(link);
    return (link.overview?.approvals ?? []).map(approval => ({
      key: approvalKey(approval),
      approval,
      link,
      panel: placeOf(approval.cell_id, panels)?.panel ?? panels[0]
    }));
  });
}

/** Return the approval of the current notebook that has waited longest. */
export function oldestWaiting(links: Links): Waiting | null {
  return (links.current && listWaiting(links, [links.current]).at(0)) ?? null;
}

/**
 * Describe an approval by its tool and its notebook: arguments may be secret, and others may see
 * notifications.
 */
export function describeWaiting({ approval, panel }: Waiting): string {
  const what = revealText(approval.about).slice(0, ABOUT);
  return `ipyagent asks: ${what} in ${panel.title.label}`;
}

/** Return a selector of the forms that ask for an approval. */
export function formOf({ run_id, approval_id }: PendingApproval): string {
  return `[data-run="${CSS.escape(run_id)}"] [data-approval="${CSS.escape(approval_id)}"]`;
}

/** Select the cell that asks, and scroll to its card; without a cell, show the side panel. */
export async function showWaiting({ approval, panel }: Waiting, { app }: Links): Promise<void> {
  const place = placeOf(approval.cell_id, [panel]);
  if (place === null) {
    app.shell.activateById(PANEL);
    return;
  }
  await goTo(place, app);
  const form = panel.node.querySelector<HTMLElement>(`${OUTPUT} ${formOf(approval)}`);
  if (form !== null) {
    scrollToFace(faceOf(form));
  }
}
