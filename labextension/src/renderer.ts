/** The saved run: a MIME renderer that needs no kernel; where its run is still on, it is live. */
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import type { Channel } from './channel';
import { live } from './lab/live';
import { MIME_TYPE } from './mimetype';
import { isOver, NOTHING } from './model';
import type { Run } from './protocol';
import { savedRun } from './saved';
import { note } from './view/step';
import { RunView } from './view/run';

const UNKNOWN =
  'This run was saved by another version of ipyagent and cannot be drawn by this one.';

class RunRenderer extends Widget implements IRenderMime.IRenderer {
  private view: RunView | null = null;
  private run: Run | null = null;
  private channel: Channel | null = null;
  private release = (): void => undefined;
  private clean: (html: string) => string;

  constructor({ sanitizer }: IRenderMime.IRendererOptions) {
    super();
    this.clean = html => sanitizer.sanitize(html);
    live.appeared.connect(this.revive);
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.run = savedRun(model.data[MIME_TYPE]);
    this.redraw();
    return Promise.resolve();
  }

  dispose(): void {
    live.appeared.disconnect(this.revive);
    this.release();
    this.view?.dispose();
    super.dispose();
  }

  /** The run that was drawn as it was saved may turn out to be on. */
  private revive = (): void => {
    const channel = channelOf(this.run);
    if (channel !== null && channel !== this.channel) {
      this.redraw();
    }
  };

  private redraw(): void {
    this.release();
    this.release = () => undefined;
    this.view?.dispose();
    this.node.replaceChildren(this.draw());
  }

  /** What is no run is said to be none, and its text forms are still in the notebook. */
  private draw(): HTMLElement {
    const { run } = this;
    if (run === null) {
      return note(UNKNOWN);
    }
    const channel = (this.channel = channelOf(run));
    const view = (this.view = new RunView(channel, this.clean));
    this.release = channel?.subscribe(state => view.update(state)) ?? this.release;
    view.update(channel?.state.run ? channel.state : { ...NOTHING, run });
    return view.element;
  }
}

/** That of a run which is on. */
function channelOf(run: Run | null): Channel | null {
  return run === null || isOver(run) ? null : live.channel(run.id);
}

/**
 * `safe`: everything is sanitized here, by JupyterLab's sanitizer and then by ours, so untrusted
 * notebooks show their runs too.
 */
export const rendererFactory: IRenderMime.IRendererFactory = {
  safe: true,
  mimeTypes: [MIME_TYPE],
  createRenderer: options => new RunRenderer(options)
};
