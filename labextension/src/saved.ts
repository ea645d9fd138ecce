/**
 * A saved run of any version, or whatever else stands in its place, as a run that can be drawn.
 * Every field is read: what is missing or of another kind becomes what a run begins with.
 */
import type {
  Block,
  Display,
  FileChange,
  ImageContent,
  Message,
  PlanStep,
  Preview,
  Question,
  Run,
  Step,
  TokenUsage,
  ToolCall,
  ToolExecution,
  ToolResult,
  ToolStatus,
  TruncatedOutput,
  VariableChange
} from './protocol';

/** What `given` says, or undefined where it does not fit. */
type Read<T> = (given: unknown) => T | undefined;
type Fields<T> = { readonly [Name in keyof T]: Read<T[Name]> };

/** Arguments nested deeper than this are not those of any tool. */
const MAX_DEPTH = 200;

/** How often something did not fit while the present run was read. */
let misfits = 0;

const MISFITS = 'Parts of this run were saved by another version of ipyagent and are not shown.';

/** The run in `given`, with a note where a part of it is left out; null where there is none. */
export function savedRun(given: unknown): Run | null {
  misfits = 0;
  const found = isObject(given) && Array.isArray(given.steps) ? run(given) : undefined;
  if (found === undefined) {
    return null;
  }
  return misfits === 0 ? found : { ...found, notes: [...found.notes, MISFITS] };
}

const text: Read<string> = given => (typeof given === 'string' ? given : undefined);
const flag: Read<boolean> = given => (typeof given === 'boolean' ? given : undefined);
const number: Read<number> = given =>
  typeof given === 'number' && Number.isFinite(given) ? given : undefined;

/** The same, and `otherwise` where it does not fit. */
function or<T>(read: Read<T>, otherwise: T): (given: unknown) => T {
  return given => {
    const found = given === undefined ? undefined : read(given);
    misfits += found === undefined && given !== undefined && given !== null ? 1 : 0;
    return found ?? otherwise;
  };
}

function orNull<T>(read: Read<T>): (given: unknown) => T | null {
  return or<T | null>(read, null);
}

function oneOf<T extends string>(...words: T[]): Read<T> {
  return given => words.find(word => word === given);
}

function listOf<T>(read: Read<T>): (given: unknown) => T[] {
  const item = orNull(read);
  const list = (given: unknown): T[] | undefined =>
    Array.isArray(given) ? given.map(item).filter(each => each !== null) : undefined;
  return or(list, []);
}

function recordOf<T>(read: Read<T>): (given: unknown) => Record<string, T> {
  return given => {
    const entries = Object.entries(isObject(given) ? given : {});
    const known = entries.map(([name, value]) => [name, read(value)] as const);
    return Object.fromEntries(known.filter(([, value]) => value !== undefined)) as Record<
      string,
      T
    >;
  };
}

function object<T extends object>(fields: Fields<T>): Read<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return given =>
    isObject(given)
      ? (Object.fromEntries(names.map(name => [name, fields[name](given[name])])) as T)
      : undefined;
}

function isObject(given: unknown): given is Record<string, unknown> {
  return typeof given === 'object' && given !== null && !Array.isArray(given);
}

/** JSON as it is, as far down as arguments go. */
function json(given: unknown, depth = 0): unknown {
  if (typeof given !== 'object' || given === null) {
    return given;
  }
  if (depth > MAX_DEPTH) {
    return '…';
  }
  return Array.isArray(given)
    ? given.map(value => json(value, depth + 1))
    : Object.fromEntries(Object.entries(given).map(([name, v]) => [name, json(v, depth + 1)]));
}

const image = object<ImageContent>({
  type: () => 'image',
  media_type: or(text, ''),
  data: or(text, ''),
  width: orNull(number),
  height: orNull(number)
});

const call = object<ToolCall>({
  type: () => 'tool_call',
  id: or(text, ''),
  name: or(text, ''),
  arguments: recordOf(value => json(value)),
  parse_error: orNull(text),
  item_id: orNull(text),
  thought_signature: orNull(text)
});

const BLOCKS: Readonly<Record<string, Read<Block>>> = {
  text: object({ type: () => 'text' as const, text: or(text, '') }),
  thinking: object({
    type: () => 'thinking' as const,
    thinking: or(text, ''),
    signature: or(text, ''),
    id: or(text, ''),
    encrypted_content: or(text, ''),
    summary: listOf(given => (isObject(given) ? given : undefined))
  }),
  image,
  tool_call: call
};

/** Kinds that are never drawn, a service's own among them, are left out without a word. */
const blocks: Read<Block[]> = given =>
  Array.isArray(given)
    ? given
        .filter(isKnown)
        .map(block => BLOCKS[block.type](block))
        .filter(each => each !== undefined)
    : undefined;

function isKnown(given: unknown): given is { type: string } {
  return isObject(given) && typeof given.type === 'string' && Object.hasOwn(BLOCKS, given.type);
}

const USAGE: Fields<TokenUsage> = {
  prompt_tokens: or(number, 0),
  completion_tokens: or(number, 0),
  cache_read_tokens: or(number, 0),
  cache_creation_tokens: or(number, 0)
};
const NO_USAGE = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cache_read_tokens: 0,
  cache_creation_tokens: 0
};

const message = object<Message>({
  role: or(oneOf('system', 'user', 'assistant'), 'assistant'),
  content: or(blocks, []),
  synthetic: or(flag, false),
  timestamp: or(text, ''),
  usage: orNull(object(USAGE))
});

const result = object<ToolResult>({
  success: or(flag, false),
  output: or(text, ''),
  error: orNull(text),
  advice: or(text, ''),
  images: listOf(image),
  displays: listOf(object<Display>({ data: recordOf(text), images_before: or(number, 0) })),
  files: listOf(
    object<FileChange>({ path: or(text, ''), before: orNull(text), after: orNull(text) })
  ),
  variables: listOf(
    object<VariableChange>({
      name: or(text, ''),
      change: or(oneOf('created', 'changed', 'deleted'), 'changed'),
      type: or(text, '')
    })
  ),
  truncated: orNull(
    object<TruncatedOutput>({
      tool_name: or(text, ''),
      path: orNull(text),
      original_chars: or(number, 0),
      original_lines: or(number, 0),
      created_at: or(text, '')
    })
  )
});

const STATUSES: ToolStatus[] = [
  'pending',
  'awaiting_approval',
  'running',
  'success',
  'failed',
  'denied',
  'cancelled',
  'unknown'
];

const execution: Read<ToolExecution> = given =>
  isObject(given) && isObject(given.call)
    ? object<ToolExecution>({
        call,
        sensitive: or(flag, false),
        status: or(oneOf(...STATUSES), 'unknown'),
        preview: orNull(
          object<Preview>({
            kind: or(oneOf('code', 'diff', 'arguments'), 'arguments'),
            text: or(text, ''),
            language: or(text, '')
          })
        ),
        question: orNull(object<Question>({ text: or(text, ''), choices: listOf(text) })),
        concern: orNull(text),
        scopes: listOf(oneOf('once', 'session', 'folder')),
        covers: orNull(text),
        touches: orNull(text),
        source: orNull(text),
        decision: orNull(oneOf('auto', 'approved', 'denied', 'expired')),
        decided_by: orNull(oneOf('policy', 'session', 'folder', 'button', 'prompt', 'magic')),
        reason: orNull(text),
        dry_run: or(flag, false),
        result: orNull(result),
        started_at: orNull(text),
        duration: orNull(number)
      })(given)
    : undefined;

const step = object<Step>({
  number: or(number, 0),
  closing: or(flag, false),
  message: orNull(message),
  finish_reason: orNull(text),
  usage: or(object(USAGE), NO_USAGE),
  cost_usd: orNull(number),
  thinking_seconds: orNull(number),
  executions: listOf(execution),
  notes: listOf(text)
});

const planStep: Read<PlanStep> = given =>
  isObject(given) && isObject(given.call)
    ? object<PlanStep>({ call, note: or(text, '') })(given)
    : undefined;

const run = object<Run>({
  id: or(text, ''),
  session_id: or(text, ''),
  trace_id: or(text, ''),
  parent_id: orNull(text),
  cell_id: orNull(text),
  agent: orNull(text),
  prompt: or(text, ''),
  context: or(text, ''),
  model: or(text, ''),
  confirm_mode: or(text, ''),
  max_steps: or(number, 0),
  verbose: or(number, 0),
  plan_id: orNull(text),
  plan: listOf(planStep),
  current_step_path: orNull(text),
  last_event: orNull(text),
  status: or(oneOf('draft', 'queued', 'running', 'done', 'error', 'cancelled'), 'cancelled'),
  stop_reason: orNull(
    oneOf(
      'finished',
      'max_steps',
      'max_seconds',
      'max_tokens',
      'max_usd',
      'timeout',
      'context_overflow',
      'content_filter',
      'planned',
      'denied',
      'unattended',
      'empty',
      'interrupted',
      'error'
    )
  ),
  error: orNull(text),
  steps: listOf(step),
  notes: listOf(text),
  started_at: or(text, ''),
  duration: orNull(number)
});
