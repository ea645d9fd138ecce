/** Views of a changing list, kept by key, with their input and open details. */

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

  /** Move only views that are out of place: a moved field would lose the cursor. */
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
