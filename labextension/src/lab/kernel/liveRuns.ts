/**
 * The runs that are on in the kernels of this page. The MIME renderer draws one of them alive
 * wherever its saved form stands in a notebook, with buttons that work.
 */
import { Signal } from '@lumino/signaling';

import { Channel } from '../../channel';
import type { Link } from './link';

interface Entry {
  link: Link;
  channel: Channel | null;
}

export class LiveRuns {
  /** Emitted when runs are on that were not before. */
  readonly appeared = new Signal<this, void>(this);

  private entries = new Map<string, Entry>();

  /** The connection to a run; null if it is not on. Whoever draws it shares it with all others. */
  channel(runId: string): Channel | null {
    const entry = this.entries.get(runId);
    if (entry === undefined) {
      return null;
    }
    return (entry.channel ??= followed(runId, entry.link));
  }

  /** Take note of what the links tell now. */
  update(links: readonly Link[]): void {
    const on = new Map(links.flatMap(link => link.live.map(({ id }) => [id, link] as const)));
    for (const [id, { link, channel }] of this.entries) {
      if (on.get(id) !== link) {
        this.entries.delete(id);
        link.leave(id);
        if (link.overview === null) {
          channel?.cut();
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

/** Those of this page: the renderer and the plugins share this module. */
export const live = new LiveRuns();

function followed(runId: string, link: Link): Channel {
  const channel = new Channel(message => link.tell(runId, message));
  link.follow(runId, message => channel.receive(message));
  return channel;
}
