/** Renders a saved run without a kernel; while the run is live, the view is live too. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { type Channel, RUN } from './channel';
import { live } from './lab/links';
import { type Bundle, isEnded, runOf } from './lab/outputs';
import { savedCard } from './saved';
import { Card } from './view/card';
import { h } from './view/dom';
import { typeset } from './view/formulas';

const NO_HTML = 'This run was saved without its HTML, so it cannot be drawn.';

class RunRenderer extends Widget implements IRenderMime.IRenderer {
  private view: Card | null = null;
  private bundle: Bundle = {};
  private channel: Channel | null = null;

  constructor(private sanitizer: IRenderMime.ISanitizer) {
    super();
    live.changed.connect(this.revive);
  }

  renderModel({ data }: IRenderMime.IMimeModel): Promise<void> {
    this.bundle = data;
    this.redraw();
    return Promise.resolve();
  }

  dispose(): void {
    live.changed.disconnect(this.revive);
    this.view?.dispose();
    super.dispose();
  }

  /** Switch to the live view when the saved run turns out to be live. */
  private revive = (): void => {
    const channel = channelOf(this.bundle);
    if (channel !== null && channel !== this.channel) {
      this.redraw();
    }
  };

  private redraw(): void {
    this.view?.dispose();
    this.node.replaceChildren(this.draw());
    typeset(this.node);
  }

  private draw(): Node {
    const { bundle } = this;
    const [run, html] = [runOf(bundle), bundle['text/html']];
    const channel = (this.channel = channelOf(bundle));
    if (channel !== null) {
      this.view = new Card(channel);
      return this.view.element;
    }
    return typeof html === 'string'
      ? savedCard(this.sanitizer.sanitize(html), run)
      : h('p', {}, NO_HTML);
  }
}

/** Return the channel of a live run. */
function channelOf(bundle: Bundle): Channel | null {
  const run = runOf(bundle);
  return run === null || isEnded(run) ? null : live.channel(run.id);
}

/** `safe` lets untrusted notebooks show runs: all is sanitized here, by JupyterLab and by us. */
export const rendererFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [RUN],
  createRenderer: ({ sanitizer }) => new RunRenderer(sanitizer)
};

/** The MIME extension, ranked before HTML, which other front ends draw. */
const extension: IRenderMime.IExtension = {
  id: 'ipyagent:run',
  rendererFactory,
  rank: 10,
  dataType: 'json'
};

export default extension;
