/**
 * What the kernel says and what it is told: the data of `ipyagent.schema`, as JSON.
 *
 * `tests/labextension/test_protocol.py` checks every name here against the Python classes.
 */

export interface TextContent {
  type: 'text';
  text: string;
}

export interface ImageContent {
  type: 'image';
  media_type: string;
  data: string;
  width: number | null;
  height: number | null;
}

export interface ThinkingContent {
  type: 'thinking';
  thinking: string;
  signature: string;
  id: string;
  encrypted_content: string;
  summary: Record<string, unknown>[];
}

export interface ToolCall {
  type: 'tool_call';
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  parse_error: string | null;
  item_id: string | null;
  thought_signature: string | null;
}

export interface ToolResultContent {
  type: 'tool_result';
  tool_use_id: string;
  content: (TextContent | ImageContent)[];
  is_error: boolean;
}

/** A newer kernel may send other kinds too; they are not drawn. */
export type Block = TextContent | ImageContent | ThinkingContent | ToolCall | ToolResultContent;

export interface TokenUsage {
  prompt_tokens: number;
  completion_tokens: number;
  cache_read_tokens: number;
  cache_creation_tokens: number;
}

export interface Message {
  role: 'system' | 'user' | 'assistant';
  content: Block[];
  synthetic: boolean;
  timestamp: string;
  usage: TokenUsage | null;
}

export interface ToolDefinition {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
}

/** MIME type to text; never drawn without sanitizing. */
export interface Display {
  data: Partial<Record<string, string>>;
  /** How many of the result's images were shown earlier. */
  images_before: number;
}

/** A variable that code left other than it was; `type` is what it is now, or was. */
export interface VariableChange {
  name: string;
  change: 'created' | 'changed' | 'deleted';
  type: string;
}

export interface TruncatedOutput {
  tool_name: string;
  path: string | null;
  original_chars: number;
  original_lines: number;
  created_at: string;
}

/** SHA-256 of a file's content before and after; null: no file. */
export interface FileChange {
  path: string;
  before: string | null;
  after: string | null;
}

export interface ToolResult {
  success: boolean;
  output: string;
  error: string | null;
  /** For the model alone; never drawn. */
  advice: string;
  images: ImageContent[];
  displays: Display[];
  /** How many tables the kernel keeps as objects; absent: none. */
  tables?: number;
  files: FileChange[];
  variables: VariableChange[];
  truncated: TruncatedOutput | null;
}

export type ToolStatus =
  | 'pending'
  | 'awaiting_approval'
  | 'running'
  | 'success'
  | 'failed'
  | 'denied'
  | 'cancelled'
  | 'unknown';

export type Decision = 'auto' | 'approved' | 'denied' | 'expired';

export type DecidedBy = 'policy' | 'session' | 'folder' | 'button' | 'prompt' | 'magic';

export type Scope = 'once' | 'session' | 'folder';

export interface Question {
  text: string;
  choices: string[];
}

export interface Preview {
  kind: 'code' | 'diff' | 'arguments';
  text: string;
  language: string;
}

export interface ToolExecution {
  call: ToolCall;
  sensitive: boolean;
  status: ToolStatus;
  preview: Preview | null;
  question: Question | null;
  concern: string | null;
  scopes: Scope[];
  covers: string | null;
  touches: string | null;
  source: string | null;
  decision: Decision | null;
  decided_by: DecidedBy | null;
  reason: string | null;
  dry_run: boolean;
  result: ToolResult | null;
  started_at: string | null;
  duration: number | null;
}

export type RunStatus = 'draft' | 'queued' | 'running' | 'done' | 'error' | 'cancelled';

export type StopReason =
  | 'finished'
  | 'max_steps'
  | 'max_seconds'
  | 'max_tokens'
  | 'max_usd'
  | 'timeout'
  | 'context_overflow'
  | 'content_filter'
  | 'planned'
  | 'denied'
  | 'unattended'
  | 'empty'
  | 'interrupted'
  | 'error';

export interface PlanStep {
  call: ToolCall;
  note: string;
}

export interface Step {
  number: number;
  closing: boolean;
  message: Message | null;
  finish_reason: string | null;
  usage: TokenUsage;
  cost_usd: number | null;
  thinking_seconds: number | null;
  executions: ToolExecution[];
  notes: string[];
}

export interface Run {
  id: string;
  session_id: string;
  trace_id: string;
  parent_id: string | null;
  cell_id: string | null;
  agent: string | null;
  prompt: string;
  context: string;
  model: string;
  confirm_mode: string;
  max_steps: number;
  verbose: number;
  plan_id: string | null;
  plan: PlanStep[];
  current_step_path: string | null;
  last_event: string | null;
  status: RunStatus;
  stop_reason: StopReason | null;
  error: string | null;
  steps: Step[];
  notes: string[];
  started_at: string;
  duration: number | null;
}

export interface RunStarted {
  type: 'run_started';
  run: Run;
  system_prompt: string | null;
  tools: ToolDefinition[] | null;
}

export interface PlanProposed {
  type: 'plan_proposed';
  run: Run;
  approval_id: string | null;
}

export interface StepStarted {
  type: 'step_started';
  step: number;
  closing: boolean;
  nudge: string | null;
}

export interface Compacted {
  type: 'compacted';
  step: number;
  summary: Message;
  before: string[];
  after: string[];
}

export interface RetryScheduled {
  type: 'retry_scheduled';
  step: number;
  attempt: number;
  of: number;
  delay: number;
  reason: string;
}

export interface MessageStarted {
  type: 'message_started';
  step: number;
}

export interface MessageDelta {
  type: 'message_delta';
  step: number;
  kind: 'text' | 'thinking';
  text: string;
}

export interface MessageFinished {
  type: 'message_finished';
  step: number;
  message: Message | null;
  finish_reason: string | null;
  usage: TokenUsage;
  cost_usd: number | null;
  thinking_seconds: number | null;
}

export interface ToolStarted {
  type: 'tool_started';
  step: number;
  execution: ToolExecution;
}

export interface ApprovalRequested {
  type: 'approval_requested';
  step: number;
  call_id: string;
  approval_id: string;
}

export interface ApprovalDecided {
  type: 'approval_decided';
  step: number;
  call_id: string;
  decision: Decision;
  by: DecidedBy;
  reason: string | null;
}

export interface ToolRunning {
  type: 'tool_running';
  step: number;
  call_id: string;
}

export interface ToolFinished {
  type: 'tool_finished';
  step: number;
  execution: ToolExecution;
}

export interface StepFinished {
  type: 'step_finished';
  step: number;
}

export interface Notice {
  type: 'notice';
  text: string;
}

export interface RunFinished {
  type: 'run_finished';
  status: RunStatus;
  stop_reason: StopReason;
  error: string | null;
  duration: number;
}

export type Event =
  | PlanProposed
  | RunStarted
  | StepStarted
  | Compacted
  | RetryScheduled
  | MessageStarted
  | MessageDelta
  | MessageFinished
  | ToolStarted
  | ApprovalRequested
  | ApprovalDecided
  | ToolRunning
  | ToolFinished
  | StepFinished
  | Notice
  | RunFinished;

/** The reply that is still streaming. */
export interface OpenMessage {
  step: number;
  text: string;
  thinking: string;
}

/** The whole state, in answer to `init` and `resync`; `seq` is the last message it includes. */
export interface SnapshotMessage {
  op: 'snapshot';
  seq: number;
  run: Run | null;
  open: OpenMessage | null;
  approvals: Record<string, string>;
  plan_approval: string | null;
  retry: RetryScheduled | null;
}

/** What happened since the message before. */
export interface EventsMessage {
  op: 'events';
  seq: number;
  events: Event[];
}

/** A decision came too late: the call (null: the plan) had been decided on by then. */
export interface LateMessage {
  op: 'late';
  call_id: string | null;
  decision: Decision | 'edited';
  at: string;
}

export type KernelMessage = SnapshotMessage | EventsMessage | LateMessage;

/** What a person says to a question: each is checked in `ipyagent.ui.clicks`. */
export type Answer =
  | { decision: 'approve' | 'always' | 'folder' | 'deny'; reason: string }
  | { decision: 'answer'; text: string }
  | { decision: 'edit'; plan: EditedStep[] };

export interface EditedStep {
  call: Pick<ToolCall, 'id' | 'name' | 'arguments'>;
  note: string;
}

export type FrontEndMessage =
  | { kind: 'init'; id: string }
  | { kind: 'resync' }
  | ({ kind: 'decide'; approval_id: string } & Answer)
  | { kind: 'stop' };
