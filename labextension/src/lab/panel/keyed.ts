/** Views of a list whose items come and go: what is typed or open in one of them stays. */

interface View<T> {
  readonly element: HTMLElement;
  update(item: T): void;
}

export class Keyed<T, V extends View<T>> {
  private views = new Map<string, V>();

  constructor(
    private parent: HTMLElement,
    private key: (item: T) => string,
    private make: (item: T) => V
  ) {}

  /** Draw `items` in order, each in the view of its key. */
  update(items: readonly T[]): void {
    const before = this.views;
    this.views = new Map(
      items.map(item => {
        const key = this.key(item);
        return [key, before.get(key) ?? this.make(item)] as const;
      })
    );
    before.forEach((view, key) => this.views.has(key) || view.element.remove());
    items.forEach(item => this.views.get(this.key(item))?.update(item));
    this.order();
  }

  /** Only what is not in its place is moved: a moved field would lose the cursor. */
  private order(): void {
    let next = this.parent.firstElementChild;
    for (const { element } of this.views.values()) {
      if (element === next) {
        next = next.nextElementSibling;
      } else {
        this.parent.insertBefore(element, next);
      }
    }
  }
}
