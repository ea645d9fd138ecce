/** How much waits for the person, before the title of the page: `(1) sales.ipynb`. */

export class Badge {
  private count = 0;
  private own = document.title;
  private shown = document.title;

  constructor() {
    // JupyterLab writes the title anew when the current document changes.
    new MutationObserver(() => this.update()).observe(document.head, {
      subtree: true,
      childList: true,
      characterData: true
    });
  }

  show(count: number): void {
    this.count = count;
    this.update();
  }

  private update(): void {
    if (document.title !== this.shown) {
      this.own = document.title;
    }
    const wanted = this.count > 0 ? `(${this.count}) ${this.own}` : this.own;
    if (document.title !== wanted) {
      document.title = wanted;
    }
    this.shown = document.title;
  }
}
