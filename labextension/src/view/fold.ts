/** A bar below a scrolling box with the number of hidden lines. */
import { button } from './form';
import { plural } from './dom';
import { keep } from './morph';

/** Pixels from the end that count as the end: less than a line. */
const INSET = 12;

/** Shows the bar while text is hidden; a press unfolds the box. */
export class FoldBar {
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
