import { describe, expect, it, vi } from 'vitest';

import { NOTHING } from '../model';
import type { ToolExecution } from '../protocol';
import { savedRun } from '../saved';
import { RunView } from '../view/run';
import { PLAN_RUN, RUN } from './story';

const LEFT_OUT = 'Parts of this run were saved by another version of ipyagent and are not shown.';

/** What may stand in any field of a file that others wrote. */
const ANYTHING: unknown[] = [
  null,
  true,
  1e308,
  '\u202e',
  [null],
  [[[]]],
  { toString: 1 },
  nested(10_000)
];

const QUESTION = { text: 'Which year?', choices: ['2023'] };

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) {
    value = level % 2 === 0 ? [value] : { a: value };
  }
  return value;
}

function drawn(given: unknown): string | null {
  const run = savedRun(given);
  if (run === null) {
    return null;
  }
  const view = new RunView(null);
  view.update({ ...NOTHING, run });
  view.dispose();
  return view.element.textContent;
}

/** Copies of `value`, each with one thing in it, at any depth, replaced. */
function* changed(value: unknown, by: unknown): Generator {
  yield by;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const other of changed(item, by)) {
        yield value.with(index, other);
      }
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) {
      for (const other of changed(item, by)) {
        yield { ...value, [name]: other };
      }
    }
  }
}

describe('a saved run', () => {
  it('of this version is itself', () => {
    expect(savedRun(RUN)).toMatchObject(RUN);
    expect(savedRun(PLAN_RUN)).toMatchObject(PLAN_RUN);
  });

  it('of an older version gets what that did not know of, and no note', () => {
    const later = ['question', 'concern', 'scopes', 'source'];
    const older = JSON.stringify(RUN.steps[0].executions, (key, value: unknown) =>
      later.includes(key) ? undefined : value
    );
    const executions = JSON.parse(older) as ToolExecution[];
    const run = savedRun({ ...RUN, steps: [{ ...RUN.steps[0], executions }] });
    expect(run?.steps[0].executions[0]).toEqual({ ...RUN.steps[0].executions[0], source: null });
    expect(run?.notes).toEqual(RUN.notes);
  });

  it('of a newer version is drawn as far as it is known, and says that it is', () => {
    const newer = { ...RUN.steps[0].executions[0], status: 'dreaming', decision: { by: 'vote' } };
    const text = drawn({ ...RUN, steps: [{ ...RUN.steps[0], executions: [newer] }], more: 1 });
    expect(text).toContain('inspect_variable');
    expect(text).toContain('unknown outcome');
    expect(text).toContain(LEFT_OUT);
  });

  it('leaves out blocks that are never drawn, without a word', () => {
    const message = {
      role: 'assistant',
      content: [{ type: 'cipher' }, { type: 'text', text: 'A' }]
    };
    const text = drawn({ ...RUN, notes: [], steps: [{ ...RUN.steps[0], message }] });
    expect(text).toContain('A');
    expect(text).not.toContain(LEFT_OUT);
  });

  it.each([undefined, null, 1, 'run', [], {}, { steps: 1 }, [RUN]])('%j is none', given => {
    expect(savedRun(given)).toBeNull();
  });

  it('is drawn with anything in any of its fields, and nothing is logged', () => {
    const logged = (['log', 'warn', 'error', 'info', 'debug'] as const).map(name =>
      vi.spyOn(console, name)
    );
    const [first, second] = RUN.steps;
    const steps = [{ ...first, executions: [{ ...second.executions[0], question: QUESTION }] }];
    const small = { ...RUN, steps, plan: PLAN_RUN.plan.slice(0, 1) };
    let count = 0;
    for (const anything of ANYTHING) {
      for (const run of [...changed(small, anything)]) {
        count += 1;
        // All are read, and some are drawn: drawing is slow in jsdom.
        if (savedRun(run) !== null && count % 7 === 0) {
          expect(drawn(run)).not.toBe('');
        }
      }
    }
    expect(count).toBeGreaterThan(500);
    logged.forEach(spy => {
      expect(spy).not.toHaveBeenCalled();
    });
  }, 60_000);
});
