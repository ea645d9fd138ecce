/** The saved run: a MIME renderer that needs no kernel. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { complete, NOTHING } from './model';
import type { Run } from './protocol';
import { note } from './view/step';
import { RunView } from './view/run';

export const MIME_TYPE = 'application/vnd.ipyagent.run+json';

class RunRenderer extends Widget implements IRenderMime.IRenderer {
  private view = new RunView(null);

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const data: unknown = model.data[MIME_TYPE];
    this.node.replaceChildren(this.draw(data));
    return Promise.resolve();
  }

  dispose(): void {
    this.view.dispose();
    super.dispose();
  }

  /** A run of another version is said to be one, and its text forms are still in the notebook. */
  private draw(data: unknown): HTMLElement {
    try {
      this.view.update({ ...NOTHING, run: complete(data as Run) });
      return this.view.element;
    } catch {
      return note(
        'This run was saved by another version of ipyagent and cannot be drawn by this one.'
      );
    }
  }
}

/** `safe`: everything is sanitized here, so untrusted notebooks show their runs too. */
export const rendererFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [MIME_TYPE],
  createRenderer: () => new RunRenderer()
};
