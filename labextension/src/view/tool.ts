/** One tool call: a line that says all, and everything behind it. */
import type { Late } from '../model';
import type { Answer, ToolExecution, ToolResult, ToolStatus } from '../protocol';
import { approvalForm } from './approval';
import { wholeCall } from './call';
import { media } from './displays';
import { Child, h, Slot } from './dom';
import { callFacts, OPEN } from './facts';
import { Decide, markAsked } from './form';
import { Gate } from './gate';
import { argumentSummary, count, duration, firstLine, plural } from './format';
import { questionForm, questionText } from './question';
import { reveal } from './reveal';
import type { Before } from './sanitize';
import { todoSummary } from './todos';
import { variablesText } from './variables';

/** A call, what surrounds it, and how to decide on it (null where nobody is asked). */
export interface ToolItem {
  readonly execution: ToolExecution;
  readonly approvalId: string | null;
  /** What had been decided before this page's answer came. */
  readonly late: Late | null;
  readonly verbose: number;
  readonly confirmMode: string;
  /** The call is one of a plan, and was not meant to run yet. */
  readonly isPlanned: boolean;
  readonly decide: ((approvalId: string, answer: Answer) => void) | null;
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
  private concern = new Slot(h('div'));
  private approval = new Slot(h('div'));
  private late = new Slot(h('div', { class: 'ipyagent-late', role: 'status' }));
  private media = new Slot(h('div', { class: 'ipyagent-media' }));
  private drawn: ToolExecution | null = null;
  private isPlanned = false;
  private asked: boolean | null = null;
  private gate: Gate | null = null;
  private gated: string | null = null;

  constructor(private before: Before) {
    const body = h('div', { class: 'ipyagent-body' }, this.call.element, this.result.element);
    this.details.append(this.line.element, body);
    const parts = [this.details, this.concern, this.approval, this.late, this.media];
    const drawn = parts.map(part => (part instanceof Slot ? part.element : part));
    this.element = h('div', { class: 'ipyagent-tool', 'data-ipyagent': 'tool' }, ...drawn);
  }

  update(item: ToolItem): void {
    this.ask(item);
    this.late.show(item.late, () => lateNote(item.late));
    if (item.execution !== this.drawn || item.isPlanned !== this.isPlanned) {
      this.draw(item);
    }
    this.guard(item);
  }

  private draw(item: ToolItem): void {
    this.drawn = item.execution;
    this.isPlanned = item.isPlanned;
    const { call, preview, question, status } = item.execution;
    this.element.dataset.tool = call.name;
    this.element.dataset.state = status;
    this.element.classList.toggle('ipyagent-dry', item.execution.dry_run);
    this.line.show(lineKey(item), () => line(item));
    const asked = status === 'awaiting_approval';
    this.call.show([call, preview, asked], () =>
      question === null
        ? [touchesNote(item.execution, asked), ...wholeCall(item.execution)]
        : questionText(question, !asked || item.decide === null)
    );
    this.result.show(resultKey(item), () => outcome(item));
    this.media.show(item.execution.result, () => media(item.execution, this.before));
  }

  /** What approves waits until the call was seen; a question is answered, not approved. */
  private guard({ execution, approvalId, decide }: ToolItem): void {
    const isAsked = execution.status === 'awaiting_approval' && execution.question === null;
    const id = isAsked && decide !== null ? approvalId : null;
    if (id !== this.gated) {
      this.gated = id;
      this.gate?.dispose();
      const [head, about, form] = [this.line.element, this.call.element, this.approval.element];
      this.gate = id === null ? null : new Gate({ head, about, form });
    }
    this.gate?.update();
  }

  private ask({ execution, approvalId, decide, verbose, isPlanned }: ToolItem): void {
    const asked = execution.status === 'awaiting_approval';
    if (asked !== this.asked) {
      this.asked = asked;
      // To be seen is all that a dry run is for.
      this.details.open = asked || verbose >= OPEN || (execution.dry_run && !isPlanned);
    }
    const { concern, question } = execution;
    this.concern.show(asked && concern, () => (asked ? [concernNote(concern)] : []));
    const id = asked && decide !== null ? approvalId : null;
    markAsked(this.approval.element, id);
    this.approval.show(id, () => {
      if (id === null) {
        return [];
      }
      const said: Decide = answer => decide?.(id, answer);
      return [question === null ? approvalForm(execution, said) : questionForm(question, said)];
    });
  }
}

/** "approved by you", "denied: too broad", "auto (confirm-sensitive)"; "" while undecided. */
export function decisionText(
  { decision, decided_by, reason, question }: ToolExecution,
  mode: string
): string {
  const by = BY_A_PERSON.includes(decided_by ?? '') ? ' by you' : '';
  switch (decision) {
    case 'auto':
      return `auto (${reason ?? mode})`;
    case 'approved':
      return withReason(
        question === null ? `approved ${standing(decided_by)}` : 'answered by you',
        reason
      );
    case 'denied':
      return withReason(`${question === null ? 'denied' : 'declined'}${by}`, reason);
    case 'expired':
      return withReason('expired', reason);
    default:
      return '';
  }
}

function standing(by: ToolExecution['decided_by']): string {
  return by === 'session' || by === 'folder' ? `for this ${by}` : 'by you';
}

/** A call that was only looked at: nothing ran, so nothing succeeded. */
const DRY = ['○', 'would run'] as const;

/** "You denied this call: too broad"; "" where another than the person did. */
function denialText({ decision, decided_by, reason, question }: ToolExecution): string {
  return decision === 'denied' && BY_A_PERSON.includes(decided_by ?? '') && question === null
    ? withReason('You denied this call', reason)
    : '';
}

/** The sign of a status, with its name for those who cannot see it. */
export function glyph(status: ToolStatus, isDry = false): HTMLElement {
  const [sign, words] = isDry && status === 'success' ? DRY : STATUS[status];
  const attributes = { class: 'ipyagent-glyph', role: 'img', 'aria-label': words, title: words };
  return h('span', attributes, sign);
}

/** The call in one line: its arguments, what it asks the person, how far the checklist is. */
function summary(execution: ToolExecution): string {
  return execution.question?.text ?? (todoSummary(execution) || argumentSummary(execution));
}

/** What code touches, as far as reading can tell; above the code, so that it is in sight. */
function touchesNote({ touches }: ToolExecution, asked: boolean): HTMLElement | null {
  const isSaid = asked && touches !== null && touches !== '';
  return isSaid ? h('p', { class: 'ipyagent-touches' }, reveal(touches)) : null;
}

/** Why a person is asked beside the tool itself. */
function concernNote(concern: string | null): HTMLElement | null {
  return concern === null ? null : h('p', { class: 'ipyagent-concern' }, '⚠ ', reveal(concern));
}

function line({ execution, confirmMode, decide, isPlanned }: ToolItem): Child[] {
  const decided = execution.decision === 'auto' ? '' : decisionText(execution, confirmMode);
  const verdict = verdictOf(execution, decide !== null) || decided;
  const isSaid = execution.status === 'denied' || isListed(execution);
  const said = isSaid ? '' : firstLine(headline(execution.result));
  const seconds = execution.duration;
  return [
    glyph(execution.status, execution.dry_run),
    h('span', { class: 'ipyagent-tool-name' }, reveal(execution.call.name)),
    execution.dry_run
      ? h('span', { class: 'ipyagent-badge' }, isPlanned ? 'planned' : 'dry run')
      : null,
    h('span', { class: 'ipyagent-summary' }, reveal(summary(execution))),
    said === '' ? null : h('span', { class: 'ipyagent-first-line' }, '→ ', reveal(said)),
    verdict === '' ? null : h('span', { class: 'ipyagent-decision' }, reveal(verdict)),
    h('span', { class: 'ipyagent-duration' }, seconds === null ? '' : duration(seconds))
  ];
}

/** The checklist is drawn as one: its call need not say it again. */
function isListed(execution: ToolExecution): boolean {
  return execution.result?.success === true && todoSummary(execution) !== '';
}

/** What a status says by itself, whatever was decided. */
function verdictOf({ status, question }: ToolExecution, isLive: boolean): string {
  if (status === 'awaiting_approval' && !isLive) {
    return question === null ? 'no decision recorded' : 'no answer recorded';
  }
  return status === 'unknown' ? STATUS.unknown[1] : '';
}

/** That a click came too late, and what had been decided. */
export function lateNote(late: Late | null): Child[] {
  if (late === null) {
    return [];
  }
  const time = new Date(late.at).toTimeString().slice(0, 5);
  return [h('p', { class: 'ipyagent-note' }, `Too late: already ${late.decision} at ${time}.`)];
}

function outcome({ execution, confirmMode, verbose }: ToolItem): Child[] {
  const { result, status, concern } = execution;
  const decided = decisionText(execution, confirmMode);
  // What is said to the model of a denial is not for the person, who denied it.
  const isDenied = status === 'denied';
  const output = isDenied ? '' : shownOutput(result);
  const failed = result?.success === false && !isDenied;
  const known = callFacts(execution, verbose);
  const touched = variablesText(result);
  return [
    status === 'awaiting_approval' ? null : concernNote(concern),
    decided === ''
      ? null
      : h('p', { class: 'ipyagent-note' }, reveal(denialText(execution) || decided)),
    output === '' ? null : h('pre', { class: outputClass(failed), tabindex: '0' }, reveal(output)),
    failed && result.error !== output
      ? h('p', { class: 'ipyagent-error' }, reveal(result.error ?? ''))
      : null,
    result?.truncated
      ? h('p', { class: 'ipyagent-note' }, reveal(cutText(result.truncated)))
      : null,
    touched === '' ? null : h('p', { class: 'ipyagent-note' }, reveal(touched)),
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

function lineKey({ execution, confirmMode, decide, isPlanned }: ToolItem): unknown {
  return [{ ...execution, preview: null }, confirmMode, decide === null, isPlanned];
}

function resultKey({ execution, confirmMode }: ToolItem): unknown {
  const { decision, decided_by, reason, result, started_at, status } = execution;
  return [decision, decided_by, reason, result, started_at, status, confirmMode];
}
