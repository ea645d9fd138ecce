/** Reads the transcript of a saved run, which may be damaged or forged. */
import { Schema, Validator } from '@cfworker/json-schema';

import { isObject } from './channel';
import type { Transcript } from './protocol';
import schema from './transcript.schema.json';

/** The key of a reference: an object that stands for the run's value at a path. */
const AT = 'at';

/**
 * The field with a call's arguments, in which no references are resolved: they may look like some.
 */
const ARGUMENTS = 'arguments';

/** An image of the HTML beside a run, and what stands for it in the run: its number. */
const IMAGE = /<img src="data:image\/\w+;base64,([^"]+)"/g;
const REFERENCE = /^html:(\d{1,9})$/;

let validator: Validator | null = null;

/** The run that a transcript refers to, and the images of the HTML beside it. */
interface Source {
  run: unknown;
  images: string[];
}

/**
 * Return the transcript in `given`, with references to `run`, whose images may stand in `html`,
 * resolved; null if it is invalid.
 */
export function savedTranscript(given: unknown, run: unknown, html = ''): Transcript | null {
  try {
    const images = [...html.matchAll(IMAGE)].map(([, data]) => data);
    // Text is saved unchanged, while other JSON is indented; earlier versions saved an object.
    const json: unknown = typeof given === 'string' ? JSON.parse(given) : given;
    const whole = fillDefaults(resolveReferences(json, { run, images }), schema);
    validator ??= new Validator(schema as Schema, '2020-12');
    // Earlier versions had the context at the top; their HTML shows it.
    const isDrawn = isObject(whole) && !('context' in whole) && validator.validate(whole).valid;
    return isDrawn ? (whole as unknown as Transcript) : null;
  } catch {
    return null; // too deeply nested, or not JSON
  }
}

/** A node of the schema. */
interface SchemaNode {
  $ref?: string;
  type?: string;
  const?: unknown;
  anyOf?: SchemaNode[];
  oneOf?: SchemaNode[];
  items?: SchemaNode;
  properties?: Partial<Record<string, SchemaNode>>;
}

const DEFINITIONS = schema.$defs as Record<string, SchemaNode>;

/** Add the fields that were left out because they are empty. */
function fillDefaults(value: unknown, place: SchemaNode): unknown {
  const { items, properties } = formOf(value, place);
  if (Array.isArray(value) && items !== undefined) {
    return value.map(each => fillDefaults(each, items));
  }
  if (!isObject(value) || properties === undefined) {
    return value;
  }
  const fields = Object.entries(properties).map(([name, field]): [string, unknown] => [
    name,
    Object.hasOwn(value, name) ? fillDefaults(value[name], field ?? {}) : emptyValueOf(field ?? {})
  ]);
  return { ...value, ...Object.fromEntries(fields.filter(([, each]) => each !== undefined)) };
}

/** Return the alternative of the schema that fits a value. */
function formOf(value: unknown, place: SchemaNode): SchemaNode {
  const forms: SchemaNode[] = [...formsOf(place).filter(({ type }) => type !== 'null'), {}];
  const kind = isObject(value) ? value.type : undefined;
  // A constant identifies an alternative.
  return forms.find(({ properties }) => properties?.type?.const === kind) ?? forms[0];
}

/** Return null where allowed, else the empty value of the type, or undefined. */
function emptyValueOf(place: SchemaNode): unknown {
  const types = formsOf(place).map(({ type }) => type);
  if (types.includes('null')) {
    return null;
  }
  return { string: '', boolean: false, array: [] as unknown[] }[types[0] ?? ''];
}

function formsOf(place: SchemaNode): SchemaNode[] {
  const { $ref, anyOf, oneOf } = place;
  if ($ref !== undefined) {
    return formsOf(DEFINITIONS[$ref.replace('#/$defs/', '')] ?? {});
  }
  return (anyOf ?? oneOf)?.flatMap(formsOf) ?? [place];
}

function resolveReferences(value: unknown, source: Source): unknown {
  if (Array.isArray(value)) {
    return value.map(each => resolveReferences(each, source));
  }
  if (!isObject(value)) {
    return value;
  }
  const path = referenceOf(value);
  if (path !== null) {
    return imageOrText(valueAt(source.run, path), source.images);
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, resolveField(name, each, source)])
  );
}

/** Return the image that a text stands for, or the value: texts as short are not referred to. */
function imageOrText(value: unknown, images: string[]): unknown {
  const found = typeof value === 'string' ? REFERENCE.exec(value) : null;
  return found === null ? value : images[Number(found[1])];
}

/** Arguments are always in the run. */
function resolveField(name: string, value: unknown, source: Source): unknown {
  if (name !== ARGUMENTS) {
    return resolveReferences(value, source);
  }
  const path = isObject(value) ? referenceOf(value) : null;
  return path === null ? undefined : valueAt(source.run, path);
}

function referenceOf(value: Record<string, unknown>): unknown[] | null {
  const path = value[AT];
  return Object.keys(value).length === 1 && Array.isArray(path) ? path : null;
}

/** Return the value at a path; undefined without one. */
function valueAt(run: unknown, path: unknown[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined),
    run
  );
}

function hasOwn(value: unknown, key: unknown): key is string {
  const isKey = typeof key === 'string' || typeof key === 'number';
  return isKey && typeof value === 'object' && value !== null && Object.hasOwn(value, key);
}
