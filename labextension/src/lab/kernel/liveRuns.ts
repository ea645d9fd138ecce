/**
 * The live runs of this page's kernels. The MIME renderer draws them live, with working buttons,
 * wherever their saved form is in a notebook.
 */
import { Signal } from '@lumino/signaling';

import { Channel } from '../../channel';
import type { Link } from './link';

export class LiveRuns {
  /** Emitted when new runs are live. */
  readonly appeared = new Signal<this, void>(this);

  private entries = new Map<string, { link: Link; channel: Channel | null }>();

  /** Return the channel of a run, shared by all its views; null if it is not live. */
  channel(runId: string): Channel | null {
    const entry = this.entries.get(runId);
    if (entry === undefined) {
      return null;
    }
    if (entry.channel === null) {
      const channel = new Channel(message => entry.link.sendToRun(runId, message));
      entry.link.follow(runId, message => channel.receive(message));
      entry.channel = channel;
    }
    return entry.channel;
  }

  /** Update the list from the links' overviews. */
  update(links: readonly Link[]): void {
    const on = new Map(links.flatMap(link => link.live.map(({ id }) => [id, link] as const)));
    for (const [id, { link, channel }] of this.entries) {
      if (on.get(id) !== link) {
        this.entries.delete(id);
        link.unfollow(id);
        if (link.overview === null) {
          channel?.disconnect();
        }
      }
    }
    const fresh = [...on].filter(([id]) => !this.entries.has(id));
    fresh.forEach(([id, link]) => this.entries.set(id, { link, channel: null }));
    if (fresh.length > 0) {
      this.appeared.emit();
    }
  }
}

/** The page's live runs, shared by the renderer and the plugins. */
export const live = new LiveRuns();
