/** A bar at the lower edge of a box that says how much of it is out of sight. */
import { button } from './form';
import { plural } from './dom';

/** From the end, to be at it: less than a line. */
const INSET = 12;

/** Is there while text is out of sight; a press unfolds the box. */
export class FoldBar {
  private bar: HTMLButtonElement | null = null;
  private resized: ResizeObserver;

  constructor(private box: HTMLElement) {
    this.resized = new ResizeObserver(this.update);
    this.resized.observe(box);
    box.addEventListener('scroll', this.update);
  }

  /** Take the bar away. */
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
    const bar = button('more', '', '', () => {
      this.box.classList.add('ipyagent-unfolded');
      this.box.focus({ preventScroll: true });
      this.update();
    });
    // What can be scrolled can be scrolled by keys.
    this.box.tabIndex = 0;
    this.box.after(bar);
    return bar;
  }

  private remove(): void {
    this.bar?.remove();
    this.bar = null;
  }
}
