/** Keeps approving buttons inactive until all of the call was visible. */
import type { AskedAbout } from './approval';
import { h, plural, setText } from './dom';
import { button, passFocus } from './form';
import { keep } from './morph';

/** Milliseconds on screen that count as visible, so that a call that just appeared does not. */
const GLANCE = 500;

const APPROVING = ['approve', 'always', 'folder', 'approve-run']
  .map(name => `[data-ipyagent="${name}"]`)
  .join();

/** The boxes with the call's text; exact arguments and effects need not be unfolded. */
const BOX = 'pre:not(.ia-exact *, .ia-effects *)';

const REASON = 'active once all of what is asked has been in sight';
/** Said after an early press. */
const EARLY = 'Look at all of it first, then press again.';

/** The DOM event that says that something may have been seen. */
export const SEEN = 'ipyagent:seen';

/** Observes the beginning of a call and the end of each of its boxes. */
export class Gate {
  private observer: IntersectionObserver | null = null;
  /** Parts that were not visible yet, with the timers of those that are on screen. */
  private unseen = new Map<Element, number | null>();
  /** The boxes, with a mark at the end of each, a bar below, and the text that was there. */
  private boxes = new Map<HTMLElement, readonly [end: HTMLElement, bar: FoldBar, text: string]>();
  /** The buttons, with their names and titles. */
  private buttons: { element: HTMLElement; name: string; title: string }[];

  /** `form` has the buttons. */
  constructor(
    private shown: AskedAbout,
    private form: HTMLElement
  ) {
    this.buttons = [...form.querySelectorAll<HTMLElement>(APPROVING)].map(element => {
      return { element, name: element.ariaLabel ?? '', title: element.title };
    });
    // All browsers have it; without layout nothing can be hidden.
    if (typeof IntersectionObserver === 'undefined') {
      return;
    }
    this.observer = new IntersectionObserver(
      entries => entries.forEach(e => this.onIntersection(e)),
      { threshold: [0, 0.5, 1] }
    );
    form.addEventListener('click', this.guard, true);
    this.watch(shown.head);
    this.update();
  }

  /** Observe new boxes, and forget removed ones. */
  update(): void {
    if (this.observer === null) {
      return;
    }
    const boxes = new Set(this.shown.body.querySelectorAll<HTMLElement>(BOX));
    this.boxes.forEach(([end, bar, text], box) => {
      if (!boxes.has(box) || box.textContent !== text) {
        this.forget(end);
        removeMarks(end, bar);
        this.boxes.delete(box);
      }
    });
    boxes.forEach(box => {
      if (!this.boxes.has(box)) {
        const end = keep(h('span', { class: 'ipyagent-end', 'aria-hidden': 'true' }));
        const text = box.textContent;
        box.append(end);
        this.boxes.set(box, [end, new FoldBar(box), text]);
        this.watch(end);
      }
    });
    this.draw();
  }

  /** Stop observing the page. */
  dispose(): void {
    this.unseen.forEach((_, part) => this.forget(part));
    this.observer?.disconnect();
    this.boxes.forEach(([end, bar]) => removeMarks(end, bar));
    this.form.removeEventListener('click', this.guard, true);
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

  private onIntersection(entry: IntersectionObserverEntry): void {
    const { target, isIntersecting, intersectionRatio } = entry;
    const timer = this.unseen.get(target);
    const isOnScreen = isIntersecting && intersectionRatio >= 0.5;
    if (isOnScreen && timer === null) {
      this.glanceAt(target);
    } else if (!isOnScreen && timer !== undefined) {
      window.clearTimeout(timer ?? undefined);
      this.unseen.set(target, null);
    }
  }

  /** Count a part on screen as seen after a moment, unless something lies over it then. */
  private glanceAt(part: Element): void {
    const end = (): void => {
      if (isCovered(part)) {
        this.glanceAt(part);
      } else {
        this.forget(part);
        this.draw();
      }
    };
    this.unseen.set(part, window.setTimeout(end, GLANCE));
  }

  /** Show on the buttons whether they are active. */
  private draw(): void {
    const isClosed = this.unseen.size > 0;
    this.buttons.forEach(({ element, name, title }) => {
      element.ariaLabel = isClosed ? `${name} (${REASON})` : name;
      element.title = isClosed ? `${title} · ${REASON}` : title;
      element.ariaDisabled = `${isClosed}`;
    });
    if (!isClosed && this.status?.textContent === EARLY) {
      setText(this.status, '');
    }
    this.form.dispatchEvent(new Event(SEEN, { bubbles: true, composed: true }));
  }

  private get status(): HTMLElement | null {
    return this.form.querySelector('.ipyagent-sent');
  }

  /** When a button is pressed too early, say so, and scroll to the first unseen part. */
  private guard = (event: Event): void => {
    if (this.unseen.size > 0 && (event.target as Element).closest(APPROVING) !== null) {
      event.stopPropagation();
      event.preventDefault();
      if (this.status !== null) {
        setText(this.status, EARLY);
      }
      if ((event as MouseEvent).detail > 0) {
        passFocus(this.form); // no shortcut works within
      }
      const [part] = [...this.unseen].find(([, timer]) => timer === null) ?? [null];
      if (part !== null) {
        bringIntoSight(part);
      }
    }
  };
}

function removeMarks(end: Element, bar: FoldBar): void {
  bar.dispose();
  end.remove();
}

/** Scroll to a part; in a box that scrolls itself, on by a page. */
function bringIntoSight(part: Element): void {
  for (let at = part.parentElement; at !== null; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) {
      at.open = true;
    }
  }
  const box = part.closest('pre');
  const rest = box === null ? 0 : box.scrollHeight - box.clientHeight - box.scrollTop;
  if (box !== null && rest > 1) {
    box.scrollTop += Math.min(rest, 0.9 * box.clientHeight);
    box.scrollIntoView({ block: 'nearest' });
  } else {
    part.scrollIntoView({ block: 'nearest' });
  }
}

/** Return whether a part is gone, something lies over it, or the page is hidden. */
function isCovered(part: Element): boolean {
  if (!part.isConnected) {
    return true;
  }
  const { left, right, top, bottom } = part.getBoundingClientRect();
  const middle = (from: number, to: number, end: number): number =>
    (Math.max(from, 0) + Math.min(to, end)) / 2;
  const root = part.getRootNode() as Document | ShadowRoot;
  const hit = root.elementFromPoint(
    middle(left, right, window.innerWidth),
    middle(top, bottom, window.innerHeight)
  );
  // Parts of a card may lie over each other, such as a box's text over the mark at its end.
  const card = part.closest('.ipyagent-card') ?? part;
  const isOnTop = hit !== null && (hit.contains(part) || card.contains(hit));
  return !isOnTop || document.visibilityState !== 'visible';
}

/** Pixels from the end that count as the end: less than a line. */
const INSET = 12;

/** A bar below a scrolling box with the number of hidden lines; a press unfolds the box. */
class FoldBar {
  private bar: HTMLButtonElement | null = null;
  private resized: ResizeObserver;

  constructor(private box: HTMLElement) {
    this.resized = new ResizeObserver(this.update);
    this.resized.observe(box);
    box.addEventListener('scroll', this.update);
  }

  /** Remove the bar. */
  dispose(): void {
    this.resized.disconnect();
    this.box.removeEventListener('scroll', this.update);
    this.remove();
  }

  private update = (): void => {
    const { scrollHeight, scrollTop, clientHeight } = this.box;
    if (scrollHeight - clientHeight <= INSET) {
      this.remove();
      return;
    }
    this.bar ??= this.add();
    const below = scrollHeight - scrollTop - clientHeight;
    this.bar.classList.toggle('ipyagent-passed', below <= INSET);
    const height = parseFloat(getComputedStyle(this.box).lineHeight) || INSET;
    const text = plural(Math.ceil(below / height), 'more line');
    if (below > INSET && this.bar.textContent !== `↓ ${text}`) {
      this.bar.textContent = `↓ ${text}`;
      this.bar.setAttribute('aria-label', `${text}: show all`);
    }
  };

  private add(): HTMLButtonElement {
    const press = (): void => {
      this.box.dataset.unfolded = '';
      this.box.focus({ preventScroll: true });
      this.update();
    };
    const bar = keep(button('more', '', '', press));
    // Focusable, so that keys can scroll it.
    this.box.tabIndex = 0;
    this.box.after(bar);
    return bar;
  }

  private remove(): void {
    this.bar?.remove();
    this.bar = null;
  }
}
