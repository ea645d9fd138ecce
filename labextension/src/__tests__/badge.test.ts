import { beforeEach, describe, expect, it } from 'vitest';

import { Badge } from '../lab/badge';

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('the title of the page', () => {
  let badge: Badge;

  beforeEach(() => {
    document.title = '(2) sales.ipynb';
    badge = new Badge();
  });

  it('tells how much waits, and is what it was when nothing waits', () => {
    badge.show(1);
    expect(document.title).toBe('(1) (2) sales.ipynb');
    badge.show(3);
    expect(document.title).toBe('(3) (2) sales.ipynb');
    badge.show(0);
    expect(document.title).toBe('(2) sales.ipynb');
  });

  it('keeps telling it when the page writes another one', async () => {
    badge.show(1);
    document.title = 'other.ipynb';
    await settled();
    expect(document.title).toBe('(1) other.ipynb');
    badge.show(0);
    await settled();
    expect(document.title).toBe('other.ipynb');
  });
});
