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
    const whole = filled(completed(parsed(given), run), schema);
    validator ??= new Validator(schema as Schema, '2020-12');
    return validator.validate(whole).valid ? (whole as Transcript) : null;
  } catch {
    return null; // nested too deeply, or without an end
  }
}

/** Text is kept as it is, where other JSON is indented; earlier versions kept an object. */
function parsed(given: unknown): unknown {
  return typeof given === 'string' ? JSON.parse(given) : given;
}

/** A place in the schema. */
interface Place {
  $ref?: string;
  type?: string;
  const?: unknown;
  anyOf?: Place[];
  oneOf?: Place[];
  items?: Place;
  properties?: Partial<Record<string, Place>>;
}

const DEFINITIONS = schema.$defs as Record<string, Place>;

/** The value with the fields that were left out because there is nothing in them. */
function filled(value: unknown, place: Place): unknown {
  const { items, properties } = placeOf(value, place);
  if (Array.isArray(value) && items !== undefined) {
    return value.map(each => filled(each, items));
  }
  if (!isObject(value) || properties === undefined) {
    return value;
  }
  const fields = Object.entries(properties).map(([name, field]): [string, unknown] => [
    name,
    Object.hasOwn(value, name) ? filled(value[name], field ?? {}) : nothingOf(field ?? {})
  ]);
  return { ...value, ...Object.fromEntries(fields.filter(([, each]) => each !== undefined)) };
}

/** The one of several forms that a value has. */
function placeOf(value: unknown, place: Place): Place {
  const forms: Place[] = [...formsOf(place).filter(({ type }) => type !== 'null'), {}];
  const kind = isObject(value) ? value.type : undefined;
  return forms.find(({ properties }) => constantOf(properties) === kind) ?? forms[0];
}

/** The word by which one of several forms is known. */
function constantOf(properties: Place['properties']): unknown {
  return properties?.type?.const;
}

/** Null where that is allowed, else what is empty; undefined where there is no such value. */
function nothingOf(place: Place): unknown {
  const types = formsOf(place).map(({ type }) => type);
  if (types.includes('null')) {
    return null;
  }
  return { string: '', boolean: false, array: [] as unknown[] }[types[0] ?? ''];
}

function formsOf(place: Place): Place[] {
  const { $ref, anyOf, oneOf } = place;
  if ($ref !== undefined) {
    return formsOf(DEFINITIONS[$ref.replace('#/$defs/', '')] ?? {});
  }
  return (anyOf ?? oneOf)?.flatMap(formsOf) ?? [place];
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
