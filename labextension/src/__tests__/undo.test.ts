/** The button on a finished card: first what taking the run back would do, then done. */
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { host, type Lab } from '../view/host';
import { labWith } from './story';
import { UndoView } from '../view/undo';

type Report = Awaited<ReturnType<Lab['undo']>>;

let asked: { runId: string; isDry: boolean }[];
let view: UndoView;

function draw(isRedo = false): void {
  view = new UndoView('r1', isRedo);
  document.body.replaceChildren(view.element);
}

function answer(report: Report | Promise<Report>): void {
  const undo: Lab['undo'] = (_, runId, isDry) => {
    asked.push({ runId, isDry });
    return Promise.resolve(report);
  };
  host.lab = labWith({ undo });
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
      { runId: 'r1', isDry: true },
      { runId: 'r1', isDry: false }
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
