/**
 * Kernels that have said that ipyagent is loaded, as this browser remembers them. A kernel that is
 * busy answers no question about itself, and a page that is loaded in mid-run has to know.
 */
const KEY = 'ipyagent:loaded';

/** Kernels remembered: those that ended elsewhere make room one day. */
const MOST = 50;

export interface Loaded {
  id: string;
  /** Whether it can listen while a cell occupies its main thread. */
  hasSubshells: boolean;
}

export function loaded(kernelId: string): Loaded | null {
  return remembered().find(({ id }) => id === kernelId) ?? null;
}

export function remember(kernel: Loaded): void {
  store([...remembered().filter(({ id }) => id !== kernel.id), kernel].slice(-MOST));
}

export function forget(kernelId: string): void {
  store(remembered().filter(({ id }) => id !== kernelId));
}

function store(kernels: Loaded[]): void {
  localStorage.setItem(KEY, JSON.stringify(kernels));
}

function remembered(): Loaded[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(found) ? found.filter(isLoaded) : [];
  } catch {
    return [];
  }
}

function isLoaded(value: unknown): value is Loaded {
  return typeof (value as Partial<Loaded> | null)?.id === 'string';
}
