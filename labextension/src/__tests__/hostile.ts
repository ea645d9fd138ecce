/** Runs in which every text is hostile. */
import type { Run, ToolExecution } from '../protocol';
import { RUN } from './story';

function call(make: () => string): ToolExecution {
  const pictures = [
    { type: 'image' as const, media_type: make(), data: make(), width: null, height: null },
    { type: 'image' as const, media_type: 'image/png', data: make(), width: null, height: null }
  ];
  const mimes = [
    'text/html',
    'text/markdown',
    'image/svg+xml',
    'application/json',
    'image/png',
    make()
  ];
  return {
    ...RUN.steps[1].executions[0],
    call: {
      type: 'tool_call',
      id: make(),
      name: make(),
      arguments: { [make()]: make(), b: [make()] },
      parse_error: make(),
      item_id: make(),
      thought_signature: make()
    },
    preview: { kind: 'code', text: make(), language: 'python' },
    concern: make(),
    source: make(),
    decision: 'denied',
    reason: make(),
    result: {
      success: false,
      output: make(),
      error: `${make()}!`,
      images: pictures,
      displays: mimes.map(mime => ({ data: { [mime]: make() } })),
      files: [{ path: make(), before: make(), after: make() }],
      variables: [{ name: make(), change: 'created', type: make() }],
      truncated: {
        tool_name: make(),
        original_chars: 1,
        original_lines: 1,
        path: make(),
        created_at: make()
      }
    }
  };
}

/** A run in which every text that is drawn is what `text` says, or one more of its texts. */
export function hostile(text: string | (() => string)): Run {
  const make = typeof text === 'string' ? () => text : text;
  const diff = { kind: 'diff' as const, text: `-${make()}\n+${make()}`, language: make() };
  const asked = {
    ...call(make),
    status: 'awaiting_approval' as const,
    preview: diff,
    result: null
  };
  const written = { todos: [{ content: make() }, { content: make(), status: 'completed' }] };
  const listed = { ...asked.call, name: 'todo_write', arguments: written };
  const todos = { ...asked, call: listed, status: 'success' as const, preview: null };
  const question = { text: make(), choices: [make(), make()] };
  const answered = { ...call(make), question, decision: 'approved' as const };
  const content = [
    {
      type: 'thinking' as const,
      thinking: make(),
      signature: make(),
      id: make(),
      encrypted_content: make(),
      summary: []
    },
    { type: 'text' as const, text: make() },
    { type: 'image' as const, media_type: make(), data: make(), width: null, height: null }
  ];
  const said = { synthetic: false, timestamp: make(), usage: null };
  const message = { role: 'assistant' as const, content, ...said };
  const executions = [call(make), asked, answered, todos];
  const step = { ...RUN.steps[0], message, finish_reason: make(), notes: [make()], executions };
  const texts = {
    prompt: make(),
    context: make(),
    model: make(),
    confirm_mode: make(),
    error: make(),
    trace_id: make(),
    plan_id: make(),
    plan: [
      { call: call(make).call, note: make() },
      { call: { ...call(make).call, id: 'next' }, note: make() }
    ],
    verbose: 3
  };
  return { ...RUN, ...texts, notes: [make()], steps: [step] };
}
