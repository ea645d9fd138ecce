/** Transcripts in which every text is hostile. */
import type {
  Approval,
  Call,
  CallRequest,
  Choice,
  Effects,
  Plan,
  Step,
  Transcript,
  UserText
} from '../protocol';
import { CALL, TRANSCRIPT } from './story';

type Make = () => string;

const MIMES = ['text/html', 'text/markdown', 'image/svg+xml', 'application/json', 'image/png'];

function approval(make: Make): Approval {
  const choices = (['approve', 'always', 'folder', 'deny'] as const).map((answer): Choice => ({
    answer,
    label: make()
  }));
  return { id: make(), question: make(), choices, covers: make() };
}

function request(make: Make): CallRequest {
  return {
    arguments: { [make()]: make(), b: [make()] },
    preview: { kind: 'code', text: make(), language: 'python', caption: make() },
    shown: [{ name: make(), value: make() }],
    is_exact_folded: true,
    parse_error: make()
  };
}

function effects(make: Make): Effects {
  const line = { change: 'changed' as const, text: make(), diff: `-${make()}\n+${make()}` };
  const shown = { output: make(), error: '', tone: 'plain' as const, media: [], for_model: null };
  return { title: make(), lines: [line, { ...line, diff: '' }], shown_title: make(), shown };
}

function call(make: Make): Call {
  const image = { type: 'image' as const, label: make(), width: null, height: null };
  const display = (mime: string) => ({
    type: 'display' as const,
    data: { [mime]: make() },
    label: make()
  });
  const media = [
    { ...image, media_type: make(), data: make() },
    { ...image, media_type: 'image/png', data: make() },
    ...[...MIMES, make()].map(display)
  ];
  const words = {
    id: make(),
    name: make(),
    glyph: make(),
    status_text: make(),
    badge: make(),
    summary: make(),
    outcome: make(),
    verdict: make(),
    decision: make(),
    duration: make(),
    position: make(),
    touches: make(),
    concern: make()
  };
  return {
    ...CALL,
    ...words,
    effects: effects(make),
    request: request(make),
    remarks: [make()],
    result: { output: make(), error: make(), tone: 'error', media },
    facts: [make()]
  };
}

function plan(make: Make): Plan {
  const step = (id: string) => ({
    id,
    name: make(),
    status: 'pending' as const,
    glyph: make(),
    status_text: make(),
    summary: make(),
    note: make(),
    notes: [make()],
    verdict: make(),
    request: request(make),
    effects: effects(make),
    is_open: true
  });
  return {
    goal: make(),
    title: make(),
    hash: make(),
    steps: [step(make()), step('next')],
    hint: make(),
    approval: null,
    late: null
  };
}

function step(make: Make): Step {
  const diff = { kind: 'diff' as const, text: `-${make()}\n+${make()}`, caption: make() };
  const preview = { ...diff, language: make() };
  const asked: Call = {
    ...call(make),
    status: 'awaiting_approval',
    request: { ...request(make), preview },
    approval: approval(make),
    result: null
  };
  const question = { text: make(), choices: [make(), make()] };
  const label = make();
  return {
    number: 1,
    label,
    notes: [make()],
    waiting: { text: make(), seconds: null },
    thinking: { title: make(), text: make(), is_open: false },
    blocks: [make(), make()],
    text: make(),
    is_streaming: false,
    is_answer: true,
    images: [{ type: 'image', media_type: make(), data: make(), label, width: null, height: null }],
    calls: [call(make), asked, { ...call(make), question }, call(make)],
    facts: make(),
    user_texts: [userText(make)]
  };
}

function userText(make: Make): UserText {
  return { id: make(), label: make(), text: make() };
}

/** A transcript in which every text that is drawn is what `text` says, or one more of its texts. */
export function hostile(text: string | Make): Transcript {
  const make = typeof text === 'string' ? () => text : text;
  const todo = { status: 'pending' as const, glyph: make(), status_text: make(), text: make() };
  return {
    ...TRANSCRIPT,
    label: make(),
    header: {
      ...TRANSCRIPT.header,
      model: make(),
      badge: make(),
      state_text: make(),
      facts: [make()]
    },
    notes: [make()],
    plan: plan(make),
    steps: [step(make)],
    todos: [todo, { ...todo, status: 'completed' }],
    todos_at: 0,
    ending: { title: make(), text: make(), tone: 'error' },
    footer: {
      duration: make(),
      folds: [{ title: make(), text: make(), is_open: false }],
      facts: [make()],
      trace_id: make()
    },
    unsent: [userText(make)],
    say: { placeholder: make(), problem: make() }
  };
}

/** The same while it goes on. */
export function going(transcript: Transcript): Transcript {
  return { ...transcript, undo: false, header: { ...transcript.header, state: 'running' } };
}

/** The same with an approval of its plan that waits, and no steps yet. */
export function planned(transcript: Transcript): Transcript {
  const approval: Approval = {
    id: 'a',
    question: transcript.label,
    choices: [
      { answer: 'approve', label: transcript.label },
      { answer: 'deny', label: transcript.label }
    ],
    covers: ''
  };
  const plan = transcript.plan && { ...transcript.plan, approval };
  return { ...going(transcript), plan, steps: [] };
}
