/** The approvals that wait in open notebooks, and the cards that ask for them. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { approvalKey } from '../../model';
import type { PendingApproval } from '../../protocol';
import { revealText } from '../../view/reveal';
import { goTo, placeOf } from '../cells/cellLocations';
import type { Link } from '../kernel/link';
import type { ILinks } from '../kernel/links';
import { CardParts, scrollToPart } from './visibility';

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
export function listWaiting(links: ILinks, of: readonly Link[] = links.all): Waiting[] {
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

/**
 * Describe an approval by its tool and its notebook: arguments may be secret, and others may see
 * notifications.
 */
export function describeWaiting({ approval, panel }: Waiting): string {
  const what = revealText(approval.about).slice(0, ABOUT);
  return `ipyagent asks: ${what} in ${panel.title.label}`;
}

/** Return the places in a document that ask for an approval. */
export function facesOf(within: ParentNode, { approval_id }: PendingApproval): HTMLElement[] {
  return [...within.querySelectorAll<HTMLElement>(`[data-approval="${CSS.escape(approval_id)}"]`)];
}

/** Return the cell that asks; null if it is gone. */
export function askingCell(
  panel: NotebookPanel | null,
  approval: PendingApproval | null
): CodeCell | null {
  const cell = panel?.content.widgets.find(({ model }) => model.id === approval?.cell_id);
  return cell instanceof CodeCell ? cell : null;
}

/** Return the card in the cell that asks; null while it is not drawn. */
export function findCard(
  panel: NotebookPanel | null,
  approval: PendingApproval | null
): CardParts | null {
  const cell = askingCell(panel, approval);
  const form = cell && approval && facesOf(cell.outputArea.node, approval).at(0);
  const card = form?.closest<HTMLElement>('.ipyagent-tool, .ipyagent-plan');
  return form && card ? { card, form } : null;
}

/** Select the cell that asks, and scroll to its card. */
export async function showWaiting(
  { approval, panel }: Waiting,
  app: JupyterFrontEnd
): Promise<void> {
  const place = placeOf(approval.cell_id, [panel]);
  if (place !== null) {
    await goTo(place, app);
    const card = findCard(panel, approval);
    if (card !== null) {
      scrollToPart(card, card.card);
      card.form.scrollIntoView({ block: 'nearest' });
    }
  }
}
