import { describe, expect, it, vi } from 'vitest';

import type { Transcript } from '../protocol';
import { savedTranscript } from '../saved';
import { RunView } from '../view/run';
import { HTML, RUN, SAVED, TRANSCRIPT } from './story';

/** Values that any field of a forged file may have. */
const ANYTHING: unknown[] = [
  null,
  true,
  1e308,
  '\u202e',
  [null],
  [[[]]],
  { toString: 1 },
  { at: ['prompt'] },
  { at: ['steps'] },
  { at: ['nowhere', 1, '__proto__'] },
  { at: [{ toString: null }] },
  nested(10_000)
];

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) {
    value = level % 2 === 0 ? [value] : { a: value };
  }
  return value;
}

function draw(transcript: Transcript): string {
  const view = new RunView(null);
  view.update(transcript);
  view.dispose();
  return view.element.textContent;
}

/** Copies of `value`, each with one thing in it, at any depth, replaced. */
function* replaced(value: unknown, by: unknown): Generator {
  yield by;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const other of replaced(item, by)) {
        yield value.with(index, other);
      }
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) {
      for (const other of replaced(item, by)) {
        yield { ...value, [name]: other };
      }
    }
  }
}

const saved = JSON.parse(SAVED as string) as Record<string, unknown>;
const read = (changes: Record<string, unknown>) =>
  savedTranscript({ ...saved, ...changes }, RUN, HTML);

describe('a saved transcript', () => {
  it('is whole again with its run and the images of the HTML', () => {
    const whole = savedTranscript(SAVED, RUN, HTML);
    expect(whole).toEqual(TRANSCRIPT);
    const figure = whole?.steps[1].calls[0].result?.media.find(({ type }) => type === 'image');
    expect(figure?.type === 'image' && figure.data.length > 200).toBe(true);
    expect(JSON.stringify(SAVED).length).toBeLessThan(JSON.stringify(whole).length / 2);
  });

  it('of a newer version may have fields that are not known', () => {
    expect(read({ mood: 'good' })?.run_id).toBe(TRANSCRIPT.run_id);
  });

  it('is none where a field is missing, or is another than it should be', () => {
    const { header, ...rest } = saved;
    expect(savedTranscript(rest, RUN)).toBeNull();
    expect(read({ header: { ...(header as object), state: 'dreaming' } })).toBeNull();
    expect(read({ notes: 'one' })).toBeNull();
  });

  it('of an earlier version is none if it has a context that would not be shown', () => {
    expect(read({ context: { title: 'Sent with your prompt', text: 'x' } })).toBeNull();
  });

  it('is none without the run that it refers to', () => {
    expect(savedTranscript(SAVED, undefined)).toBeNull();
    expect(savedTranscript(SAVED, {})).toBeNull();
    expect(savedTranscript(SAVED, RUN)).toBeNull();
  });

  it.each([undefined, null, 1, 'run', [], {}, { steps: 1 }, [SAVED]])('%j is none', given => {
    expect(savedTranscript(given, RUN)).toBeNull();
  });

  it('takes arguments as they are, also where they look like a reference', () => {
    const run = { given: { at: ['secret'] }, secret: 'x' };
    const steps = structuredClone(TRANSCRIPT.steps) as unknown as {
      calls: { request: { arguments: unknown } }[];
    }[];
    steps.forEach(step => {
      step.calls.forEach(call => {
        call.request.arguments = { at: ['given'] };
      });
    });
    const whole = savedTranscript({ ...TRANSCRIPT, steps }, run);
    expect(whole?.steps[0].calls[0].request.arguments).toEqual({ at: ['secret'] });
  });

  it('is drawn or none with anything in any of its fields, and nothing is logged', () => {
    const logged = (['log', 'warn', 'error', 'info', 'debug'] as const).map(name =>
      vi.spyOn(console, name)
    );
    const steps = (saved.steps as unknown[]).slice(1, 2);
    const small = { ...saved, steps };
    let count = 0;
    let drawn = 0;
    for (const anything of ANYTHING) {
      for (const other of replaced(small, anything)) {
        count += 1;
        const transcript = savedTranscript(other, RUN, HTML);
        // All are read, and some are drawn: drawing is slow in jsdom.
        if (transcript !== null && count % 7 === 0) {
          drawn += 1;
          expect(draw(transcript)).not.toBe('');
        }
      }
    }
    expect(count).toBeGreaterThan(500);
    expect(drawn).toBeGreaterThan(10);
    logged.forEach(spy => {
      expect(spy).not.toHaveBeenCalled();
    });
  }, 60_000);
});
