/** One tool call: a line that says all, and everything behind it. */
import type { Late } from '../model';
import type { Choice, ToolExecution, ToolResult, ToolStatus } from '../protocol';
import { approvalForm } from './approval';
import { wholeCall } from './call';
import { media } from './displays';
import { Child, h, Slot } from './dom';
import { callFacts, OPEN } from './facts';
import { argumentSummary, count, duration, firstLine, plural } from './format';
import { reveal } from './reveal';

/** A call, what surrounds it, and how to decide on it (null where nobody is asked). */
export interface ToolItem {
  readonly execution: ToolExecution;
  readonly approvalId: string | null;
  /** What had been decided before this page's answer came. */
  readonly late: Late | null;
  readonly verbose: number;
  readonly confirmMode: string;
  readonly decide: ((approvalId: string, decision: Choice, reason: string) => void) | null;
}

const STATUS: Record<ToolStatus, readonly [glyph: string, words: string]> = {
  pending: ['…', 'pending'],
  awaiting_approval: ['?', 'awaiting approval'],
  running: ['▶', 'running'],
  success: ['✓', 'succeeded'],
  failed: ['✗', 'failed'],
  denied: ['⊘', 'denied'],
  cancelled: ['■', 'cancelled'],
  unknown: ['!', 'unknown outcome']
};

const BY_A_PERSON = ['button', 'prompt', 'magic'];

/** A tool card. While it waits for a decision it is open and shows the whole call. */
export class ToolView {
  readonly element: HTMLElement;

  private details = h('details', { class: 'ipyagent-tool-details' });
  private line = new Slot(h('summary', { class: 'ipyagent-line' }));
  private call = new Slot(h('div', { class: 'ipyagent-call' }));
  private result = new Slot(h('div', { class: 'ipyagent-result' }));
  private approval = new Slot(h('div'));
  private late = new Slot(h('div', { class: 'ipyagent-late', role: 'status' }));
  private media = new Slot(h('div', { class: 'ipyagent-media' }));
  private drawn: ToolExecution | null = null;
  private asked: boolean | null = null;

  constructor() {
    const body = h('div', { class: 'ipyagent-body' }, this.call.element, this.result.element);
    this.details.append(this.line.element, body);
    const parts = [this.details, this.approval.element, this.late.element, this.media.element];
    this.element = h('div', { class: 'ipyagent-tool', 'data-ipyagent': 'tool' }, ...parts);
  }

  update(item: ToolItem): void {
    this.ask(item);
    this.late.show(item.late, () => lateNote(item.late));
    if (item.execution === this.drawn) {
      return;
    }
    this.drawn = item.execution;
    const { call, preview, status } = item.execution;
    this.element.dataset.tool = call.name;
    this.element.dataset.state = status;
    this.line.show(lineKey(item), () => line(item));
    this.call.show([call, preview], () => wholeCall(item.execution));
    this.result.show(resultKey(item), () => outcome(item));
    this.media.show(item.execution.result, () => media(item.execution));
  }

  private ask({ execution, approvalId, decide, verbose }: ToolItem): void {
    const asked = execution.status === 'awaiting_approval';
    if (asked !== this.asked) {
      this.asked = asked;
      this.details.open = asked || verbose >= OPEN;
    }
    const id = asked && decide !== null ? approvalId : null;
    this.approval.show(id, () =>
      id === null ? [] : [approvalForm(execution.call.name, (...said) => decide?.(id, ...said))]
    );
  }
}

/** "approved by you", "denied: too broad", "auto (confirm-sensitive)"; "" while undecided. */
export function decisionText(
  { decision, decided_by, reason }: ToolExecution,
  mode: string
): string {
  switch (decision) {
    case 'auto':
      return `auto (${reason ?? mode})`;
    case 'approved':
      return withReason(
        decided_by === 'session' ? 'approved for this session' : 'approved by you',
        reason
      );
    case 'denied':
      return withReason(
        BY_A_PERSON.includes(decided_by ?? '') ? 'denied by you' : 'denied',
        reason
      );
    case 'expired':
      return withReason('expired', reason);
    default:
      return '';
  }
}

function line({ execution, confirmMode, decide }: ToolItem): Child[] {
  const [glyph, words] = STATUS[execution.status];
  const decided = execution.decision === 'auto' ? '' : decisionText(execution, confirmMode);
  const verdict = verdictOf(execution, decide !== null) || decided;
  const said = execution.status === 'denied' ? '' : firstLine(headline(execution.result));
  const seconds = execution.duration;
  return [
    h('span', { class: 'ipyagent-glyph', role: 'img', 'aria-label': words, title: words }, glyph),
    h('span', { class: 'ipyagent-tool-name' }, reveal(execution.call.name)),
    execution.dry_run ? h('span', { class: 'ipyagent-badge' }, 'dry run') : null,
    h('span', { class: 'ipyagent-summary' }, reveal(argumentSummary(execution))),
    said === '' ? null : h('span', { class: 'ipyagent-first-line' }, `→ ${said}`),
    verdict === '' ? null : h('span', { class: 'ipyagent-decision' }, verdict),
    h('span', { class: 'ipyagent-duration' }, seconds === null ? '' : duration(seconds))
  ];
}

/** What a status says by itself, whatever was decided. */
function verdictOf({ status }: ToolExecution, isLive: boolean): string {
  if (status === 'awaiting_approval' && !isLive) {
    return 'never decided';
  }
  return status === 'unknown' ? STATUS.unknown[1] : '';
}

function lateNote(late: Late | null): Child[] {
  if (late === null) {
    return [];
  }
  const time = new Date(late.at).toTimeString().slice(0, 5);
  return [h('p', { class: 'ipyagent-note' }, `Too late: already ${late.decision} at ${time}.`)];
}

function outcome({ execution, confirmMode, verbose }: ToolItem): Child[] {
  const { result } = execution;
  const decided = decisionText(execution, confirmMode);
  const output = shownOutput(result);
  const failed = result?.success === false;
  const known = callFacts(execution, verbose);
  return [
    decided === '' ? null : h('p', { class: 'ipyagent-note' }, decided),
    output === '' ? null : h('pre', { class: outputClass(failed), tabindex: '0' }, output),
    failed && result.error !== output ? h('p', { class: 'ipyagent-error' }, result.error) : null,
    result?.truncated ? h('p', { class: 'ipyagent-note' }, cutText(result.truncated)) : null,
    known === '' ? null : h('p', { class: 'ipyagent-note' }, reveal(known))
  ];
}

function outputClass(failed: boolean): string {
  return failed ? 'ipyagent-pre ipyagent-output ipyagent-error' : 'ipyagent-pre ipyagent-output';
}

function shownOutput(result: ToolResult | null): string {
  return result?.output ?? '';
}

/** What a result says first: of a failure its reason, since a traceback ends with it. */
function headline(result: ToolResult | null): string {
  return result?.success === false ? (result.error ?? result.output) : shownOutput(result);
}

function cutText({
  original_chars,
  original_lines,
  path
}: NonNullable<ToolResult['truncated']>): string {
  const size = `Cut from ${plural(original_lines, 'line')}, ${count(original_chars)} characters.`;
  return path === null ? size : `${size} All of it: ${path}`;
}

function withReason(verdict: string, reason: string | null): string {
  return reason === null || reason === '' ? verdict : `${verdict}: ${reason}`;
}

function lineKey({ execution, confirmMode, decide }: ToolItem): unknown {
  return [{ ...execution, preview: null }, confirmMode, decide === null];
}

function resultKey({ execution, confirmMode }: ToolItem): unknown {
  const { decision, decided_by, reason, result, started_at } = execution;
  return [decision, decided_by, reason, result, started_at, confirmMode];
}
