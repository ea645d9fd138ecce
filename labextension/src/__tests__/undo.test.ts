/** The button on a finished card: first what taking the run back would do, then done. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { Ask } from '../protocol';
import { host, type Lab, type Reply } from '../view/host';
import { labWith } from './story';
import { UndoView } from '../view/followUp';

type Report = Reply<'undo'> | undefined;

let asked: unknown[];
let view: UndoView;

function draw(isRedo = false): void {
  view = new UndoView('r1', isRedo);
  document.body.replaceChildren(view.element);
}

function answer(report: Report | Promise<Report>): void {
  const ask = vi.fn((_, what: string, { run_id, dry_run }: Partial<Ask>) => {
    asked.push([what, run_id, dry_run]);
    return Promise.resolve(report);
  });
  host.lab = labWith({ ask: ask as Lab['ask'] });
}

async function press(name: string): Promise<void> {
  view.element.querySelector<HTMLElement>(`[data-ipyagent=${name}]`)?.click();
  await new Promise(resolve => setTimeout(resolve));
}

beforeEach(() => {
  asked = [];
  host.lab = null;
  draw();
});

describe('a run that can be taken back', () => {
  it('tells what that would do before it is done', async () => {
    answer({ restored: ['n would be as it was'], skipped: ['m stays'] });
    await press('undo');
    expect(view.element.textContent).toContain('n would be as it was');
    expect(view.element.querySelectorAll('[role=status] > ul > li')).toHaveLength(2);
    expect(view.element.textContent).toContain('m stays');
    answer({ restored: ['n is as it was'], skipped: [] });
    await press('undo-confirm');
    expect(view.element.textContent).toContain('n is as it was');
    expect(asked).toEqual([
      ['undo', 'r1', true],
      ['undo', 'r1', false]
    ]);
  });

  it('is left as it is where the user wants that', async () => {
    answer({ restored: ['n would be as it was'], skipped: [] });
    await press('undo');
    await press('undo-cancel');
    expect(view.element.textContent).toBe('Undo…');
    expect(asked).toHaveLength(1);
  });

  it('says how where no kernel hears it, a fresh one too, and can be asked again', async () => {
    await press('undo');
    expect(view.element.textContent).toContain('%load_ext ipyagent, then %agent undo r1');
    answer({ restored: ['n would be as it was'], skipped: [] });
    await press('undo');
    expect(view.element.textContent).toContain('n would be as it was');
  });

  it('says that it waits while the kernel runs something else', async () => {
    vi.useFakeTimers();
    let free: (report: Report) => void = vi.fn();
    answer(new Promise(resolve => (free = resolve)));
    view.element.querySelector<HTMLElement>('[data-ipyagent=undo]')?.click();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(view.element.textContent).toContain('A cell is running');
    free({ restored: ['n would be as it was'], skipped: [] });
    await vi.advanceTimersByTimeAsync(1_000);
    vi.useRealTimers();
    expect(view.element.textContent).toContain('n would be as it was');
    expect(view.element.textContent).not.toContain('waits');
  });

  it.each([
    [undefined, 'The connection to the kernel was lost.'],
    [{ restored: [], skipped: ['a cell is running; try again'] }, 'a cell is running; try again']
  ])('says why it cannot be now, and can be asked again', async (report, why) => {
    answer(report);
    await press('undo');
    expect(view.element.textContent).toBe(`${why}Undo…`);
    answer({ restored: ['n would be as it was'], skipped: [] });
    await press('undo');
    expect(view.element.textContent).toContain('n would be as it was');
    expect(view.element.querySelector('[data-ipyagent=undo-confirm]')).not.toBeNull();
  });
});

it('offers to put back what was taken back', async () => {
  draw(true);
  expect(view.element.textContent).toBe('Redo…');
  answer({ restored: ['n would be as it was'], skipped: [] });
  await press('undo');
  expect(view.element.textContent).toContain('Put it back');
});
