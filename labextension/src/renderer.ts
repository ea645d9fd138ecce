/** Renders a saved run without a kernel; while the run is live, the view is live too. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { type Channel, isOver, RUN, TRANSCRIPT } from './channel';
import { live } from './lab/links';
import type { Transcript } from './protocol';
import { savedTranscript } from './saved';
import { RunView } from './view/run';
import { sanitize } from './view/sanitize';
import { note } from './view/step';

const UNKNOWN =
  'This run was saved by another version of ipyagent and cannot be drawn by this one.';

class RunRenderer extends Widget implements IRenderMime.IRenderer {
  private view: RunView | null = null;
  private transcript: Transcript | null = null;
  private html = '';
  private channel: Channel | null = null;
  private clean: (html: string) => string;

  constructor({ sanitizer }: IRenderMime.IRendererOptions) {
    super();
    this.clean = html => sanitizer.sanitize(html);
    live.appeared.connect(this.revive);
  }

  renderModel({ data }: IRenderMime.IMimeModel): Promise<void> {
    this.html = typeof data['text/html'] === 'string' ? data['text/html'] : '';
    this.transcript = savedTranscript(data[TRANSCRIPT], data[RUN], this.html);
    this.redraw();
    return Promise.resolve();
  }

  dispose(): void {
    live.appeared.disconnect(this.revive);
    this.view?.dispose();
    super.dispose();
  }

  /** Switch to the live view when the saved run turns out to be live. */
  private revive = (): void => {
    const channel = channelOf(this.transcript);
    if (channel !== null && channel !== this.channel) {
      this.redraw();
    }
  };

  private redraw(): void {
    this.view?.dispose();
    this.node.replaceChildren(this.draw());
  }

  /** Draw the view; a run of another version is drawn as the HTML beside it. */
  private draw(): Node {
    const { transcript } = this;
    if (transcript === null) {
      return this.html === '' ? note(UNKNOWN) : sanitize(this.html, this.clean);
    }
    const channel = (this.channel = channelOf(transcript));
    this.view = new RunView(channel, this.clean);
    this.view.update(channel?.transcript ?? transcript);
    return this.view.element;
  }
}

/** Return the channel of a live run. */
function channelOf(transcript: Transcript | null): Channel | null {
  return transcript === null || isOver(transcript) ? null : live.channel(transcript.run_id);
}

/** `safe` lets untrusted notebooks show runs: all is sanitized here, by JupyterLab and by us. */
export const rendererFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [TRANSCRIPT],
  createRenderer: options => new RunRenderer(options)
};

/** The MIME extension, ranked before HTML, which other front ends draw. */
const extension: IRenderMime.IExtension = {
  id: 'ipyagent:run',
  rendererFactory,
  rank: 10,
  dataType: 'json'
};

export default extension;
