/** What the panel draws, and what a person can do in it. */
import type { Answer } from '../../channel';
import type { Overview, WaitingPlan } from '../../protocol';

export interface PanelState {
  /** The notebook's name; null while none is open. */
  readonly notebook: string | null;
  /** Null where no agent is. */
  readonly overview: Overview | null;
  /** Whether the kernel hears what is decided now. */
  readonly isReachable: boolean;
  /** The cells of the kernel's open notebooks. */
  readonly cells: ReadonlySet<string>;
  /** Whether an agent cell can be added from here. */
  readonly canAdd: boolean;
  /** Whether the person can be asked to allow notifications. */
  readonly canNotify: boolean;
}

export interface PanelActions {
  decide(runId: string, approvalId: string, answer: Answer): void;
  /** Decide on a plan that no cell asks about. */
  settle(waiting: WaitingPlan, word: 'approve' | 'deny', reason: string): void;
  stop(runId: string): void;
  jump(cellId: string): void;
  resume(sessionId: string): void;
  add(): void;
  notify(): void;
}
