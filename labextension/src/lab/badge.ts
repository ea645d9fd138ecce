/** The number of waiting approvals in the page's title: `(1) sales.ipynb`. */

export class Badge {
  private count = 0;
  private pageTitle = document.title;
  private title = document.title;

  constructor() {
    // JupyterLab rewrites the title when the current document changes.
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
    if (document.title !== this.title) {
      this.pageTitle = document.title;
    }
    const title = this.count > 0 ? `(${this.count}) ${this.pageTitle}` : this.pageTitle;
    if (document.title !== title) {
      document.title = title;
    }
    this.title = document.title;
  }
}
