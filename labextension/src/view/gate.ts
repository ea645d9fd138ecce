/** Approving stays inactive until all of what is approved has been in sight. */
import { FoldBar } from './fold';
import { h } from './dom';

/** Milliseconds on screen that count as seen; a call that came up just now was not read. */
export const GLANCE = 500;

const APPROVING = ['approve', 'always', 'folder', 'accept']
  .map(name => `[data-ipyagent="${name}"]`)
  .join();

/** The boxes that hold what is approved; what says the same once more need not be unfolded. */
const BOX = 'pre:not(.ipyagent-exact *)';

const REASON = 'Active once all of what is asked has been in sight';

/** Where a call is drawn: its first line, all of it, and the buttons that decide on it. */
export interface Places {
  readonly head: HTMLElement;
  readonly about: HTMLElement;
  readonly form: HTMLElement;
}

/** Watches the beginning of what is asked and the end of each of its boxes. */
export class Gate {
  private observer: IntersectionObserver | null = null;
  /** What was not seen yet, with the timer of what is on screen now. */
  private unseen = new Map<Element, number | null>();
  private ends = new Map<Element, HTMLElement>();
  private bars = new Map<Element, FoldBar>();
  private labels = new Map<HTMLElement, string>();

  constructor(private places: Places) {
    // Every browser has it; where nothing is laid out, nothing can be hidden.
    if (typeof IntersectionObserver === 'undefined') {
      return;
    }
    this.observer = new IntersectionObserver(entries => entries.forEach(e => this.note(e)), {
      threshold: [0, 0.5, 1]
    });
    places.form.addEventListener('click', this.guard, true);
    this.watch(places.head);
    this.update();
  }

  /** Take in boxes that are new, and forget those that are gone. */
  update(): void {
    if (this.observer === null) {
      return;
    }
    const boxes = new Set(this.places.about.querySelectorAll<HTMLElement>(BOX));
    this.ends.forEach((end, box) => {
      if (!boxes.has(box as HTMLElement)) {
        this.forget(end);
        this.ends.delete(box);
        this.bars.get(box)?.dispose();
        this.bars.delete(box);
      }
    });
    boxes.forEach(box => {
      if (!this.ends.has(box)) {
        const end = h('span', { class: 'ipyagent-end', 'aria-hidden': 'true' });
        box.append(end);
        this.ends.set(box, end);
        this.bars.set(box, new FoldBar(box));
        this.watch(end);
      }
    });
    this.draw();
  }

  /** Let go of the page. */
  dispose(): void {
    this.unseen.forEach(timer => timer !== null && window.clearTimeout(timer));
    this.unseen.clear();
    this.observer?.disconnect();
    this.bars.forEach(bar => bar.dispose());
    this.ends.forEach(end => end.remove());
    this.places.form.removeEventListener('click', this.guard, true);
  }

  private watch(part: Element): void {
    this.unseen.set(part, null);
    this.observer?.observe(part);
  }

  private forget(part: Element): void {
    window.clearTimeout(this.unseen.get(part) ?? undefined);
    this.unseen.delete(part);
    this.observer?.unobserve(part);
  }

  private note({ target, isIntersecting, intersectionRatio }: IntersectionObserverEntry): void {
    const timer = this.unseen.get(target);
    if (timer === undefined) {
      return;
    }
    if (!isIntersecting || intersectionRatio < 0.5) {
      window.clearTimeout(timer ?? undefined);
      this.unseen.set(target, null);
    } else if (timer === null) {
      const seen = (): void => {
        this.forget(target);
        this.draw();
      };
      this.unseen.set(target, window.setTimeout(seen, GLANCE));
    }
  }

  /** Say on the buttons whether they are active. */
  private draw(): void {
    const isClosed = this.unseen.size > 0;
    this.places.form.querySelectorAll<HTMLElement>(APPROVING).forEach(element => {
      const label = this.labels.get(element) ?? element.getAttribute('aria-label') ?? '';
      this.labels.set(element, label);
      element.setAttribute('aria-label', isClosed ? `${label} (${REASON.toLowerCase()})` : label);
      if (isClosed) {
        element.setAttribute('aria-disabled', 'true');
        element.title = REASON;
      } else {
        element.removeAttribute('aria-disabled');
        element.removeAttribute('title');
      }
    });
  }

  /** A press that comes too early shows what was not seen instead. */
  private guard = (event: Event): void => {
    if (this.unseen.size > 0 && (event.target as Element).closest(APPROVING) !== null) {
      event.stopPropagation();
      event.preventDefault();
      const [part] = [...this.unseen].find(([, timer]) => timer === null) ?? [null];
      for (let at = part?.parentElement ?? null; at !== null; at = at.parentElement) {
        if (at instanceof HTMLDetailsElement) {
          at.open = true;
        }
      }
      part?.scrollIntoView({ block: 'nearest' });
    }
  };
}
