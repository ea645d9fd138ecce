/**
 * What a kernel and the pages that show its notebooks say to each other, beside the cells' widgets:
 * see `ipyagent/kernel/pages.py` and `ipyagent/ui/desk.py`.
 */
import type {
  FrontEndMessage,
  KernelMessage,
  Run,
  RunStatus,
  StopReason,
  ToolExecution,
  ToolStatus
} from '../protocol';

/** A run in one line. */
export interface RunSummary {
  id: string;
  /** The cell in which it is drawn, or that asked for it. */
  cell_id: string | null;
  live: boolean;
  prompt: string;
  model: string;
  status: RunStatus;
  stop_reason: StopReason | null;
  steps: number;
  tokens: number;
  cost_usd: number | null;
  started_at: string;
  duration: number | null;
}

/** A question that waits: about a call, or about a whole plan. */
export interface PendingApproval {
  approval_id: string;
  run_id: string;
  cell_id: string | null;
  execution: ToolExecution | null;
  plan: Run | null;
}

/** A plan that waits while no cell asks about it. */
export interface WaitingPlan {
  run_id: string;
  cell_id: string | null;
  plan: Run;
}

/** How far a plan is. */
export interface PlanProgress {
  run_id: string;
  status: RunStatus;
  steps: { tool: string; note: string; status: ToolStatus }[];
}

/** A conversation of the workspace, and when it went on last (ISO 8601). */
export interface SessionSummary {
  id: string;
  name: string;
  current: boolean;
  ended: boolean;
  at: string;
}

/** What became of a variable last. */
export interface VariableChange {
  name: string;
  change: string;
  type: string;
  run_id: string;
}

/** A notebook at a glance: what is listed is the newest there is of it. */
export interface Overview {
  /** That would answer now; null where the settings name none. */
  model: string | null;
  session: { id: string; name: string } | null;
  sessions: SessionSummary[];
  /** Oldest first. */
  runs: RunSummary[];
  approvals: PendingApproval[];
  waiting: WaitingPlan | null;
  /** The newest run's plan and tasks, these as a call writes them. */
  plan: PlanProgress | null;
  todos: unknown[];
  variables: VariableChange[];
  /** What all runs of the session took. */
  usage: { runs: number; tokens: number; cost_usd: number | null };
}

/** A request of the kernel: the page answers with a value, or with an error's text. */
export interface Request {
  op: 'request';
  /** Of the request: the `id` of the reply. Other details may have an `id` of their own. */
  number: number;
  what: string;
  [detail: string]: unknown;
}

export type ToPage =
  | { op: 'overview'; overview: Overview }
  | { op: 'run'; run_id: string; message: KernelMessage }
  | { op: 'reply'; id: number; value: unknown }
  | { op: 'ping' | 'again' | 'bye' }
  | { op: 'left'; subshells: string[] }
  | Request;

export type ToKernel =
  | { kind: 'follow'; run_id: string }
  | { kind: 'to_run'; run_id: string; message: FrontEndMessage }
  | { kind: 'ask'; id: number; what: 'bundle'; run_id?: string; cell_id?: string }
  | { kind: 'shows'; notebooks: string[]; clients: string[] }
  | { kind: 'here' }
  | { kind: 'reply'; id: number; value?: unknown; error?: string };
