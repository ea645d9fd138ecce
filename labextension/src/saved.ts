/** The transcript that a notebook keeps beside its run; anything may stand in its place. */
import { Schema, Validator } from '@cfworker/json-schema';

import type { Transcript } from './protocol';
import schema from './transcript.schema.json';

/** The key of an object that stands for what the run has at a path. */
const AT = 'at';

/** The arguments of a call are never looked into: they may look like a reference themselves. */
const ARGUMENTS = 'arguments';

let validator: Validator | null = null;

/** The transcript in `given`, completed from `run`; null where it is none of this version. */
export function savedTranscript(given: unknown, run: unknown): Transcript | null {
  try {
    const whole = completed(given, run);
    validator ??= new Validator(schema as Schema, '2020-12');
    return validator.validate(whole).valid ? (whole as Transcript) : null;
  } catch {
    return null; // nested too deeply, or without an end
  }
}

function completed(value: unknown, run: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(each => completed(each, run));
  }
  if (!isObject(value)) {
    return value;
  }
  const path = reference(value);
  if (path !== null) {
    return at(run, path);
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, argumentsOr(name, each, run)])
  );
}

/** Arguments are always in the run. */
function argumentsOr(name: string, value: unknown, run: unknown): unknown {
  if (name !== ARGUMENTS) {
    return completed(value, run);
  }
  const path = isObject(value) ? reference(value) : null;
  return path === null ? undefined : at(run, path);
}

function reference(value: Record<string, unknown>): unknown[] | null {
  const path = value[AT];
  return Object.keys(value).length === 1 && Array.isArray(path) ? path : null;
}

/** What stands at the path; undefined where nothing does. */
function at(run: unknown, path: unknown[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined),
    run
  );
}

function hasOwn(value: unknown, key: unknown): key is string {
  const isKey = typeof key === 'string' || typeof key === 'number';
  return isKey && typeof value === 'object' && value !== null && Object.hasOwn(value, key);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
