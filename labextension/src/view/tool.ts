/** Draws a tool call: a summary line, and all details behind it. */
import type { Call, Late, Result } from '../protocol';
import { ApprovalView, Drawing } from './approval';
import { wholeCall } from './call';
import { media } from './displays';
import { Child, h, Slot, textBox } from './dom';
import { effectsOf } from './effects';
import { foldOf } from './footer';
import { ApprovalGate } from './gate';
import { questionText } from './question';
import { reveal } from './reveal';
import { ranBy, toCells } from './toCell';

/** A tool card. While it waits for a decision it is open and shows the whole call. */
export class ToolView {
  readonly element: HTMLElement;

  private details = h('details', { class: 'ipyagent-tool-details' });
  private line = new Slot(h('summary', { class: 'ipyagent-line' }));
  private keep = new Slot(h('div', { class: 'ipyagent-keep' }));
  private call = new Slot(h('div', { class: 'ipyagent-call' }));
  private result = new Slot(h('div', { class: 'ipyagent-result' }));
  private tail = new Slot(h('div'));
  private effects = new Slot(h('div'));
  private concern = new Slot(h('div'));
  private approval = new ApprovalView();
  private late = new Slot(h('div', { class: 'ipyagent-late', role: 'status' }));
  private media = new Slot(h('div', { class: 'ipyagent-media' }));
  private drawn: Call | null = null;
  /** The kernel's last `is_open`: a user's own folding holds until that changes. */
  private isOpen: boolean | null = null;
  private gate = new ApprovalGate({
    head: this.line.element,
    about: this.call.element,
    form: this.approval.element
  });

  constructor(private drawing: Drawing) {
    const body = h(
      'div',
      { class: 'ipyagent-body' },
      this.keep.element,
      this.call.element,
      this.result.element
    );
    this.details.append(this.line.element, body);
    const parts = [
      this.details,
      this.tail,
      this.effects,
      this.concern,
      this.approval,
      this.late,
      this.media
    ];
    const drawn = parts.map(part => (part instanceof HTMLElement ? part : part.element));
    this.element = h('div', { class: 'ipyagent-tool', 'data-ipyagent': 'tool' }, ...drawn);
  }

  update(call: Call): void {
    if (call !== this.drawn) {
      this.drawn = call;
      this.ask(call);
      this.late.showIf(call.late, lateNote);
      this.draw(call);
    }
    // A question is answered, not approved.
    const isGuarded = call.question === null && this.drawing.decide !== null;
    this.gate.update(isGuarded ? (call.approval?.id ?? null) : null);
  }

  private draw(call: Call): void {
    const { name, status, question, request, result, effects } = call;
    const { decide, before } = this.drawing;
    const asked = status === 'awaiting_approval';
    this.element.dataset.tool = name;
    this.element.dataset.state = status;
    this.element.classList.toggle('ipyagent-dry', call.is_dry);
    this.line.show(lineKey(call), () => line(call));
    this.keep.showIf(ranBy(call), source =>
      toCells('to-cell', 'To cell', 'Insert this code as a cell below', () => [source])
    );
    this.call.show([request, question, asked], () =>
      question === null
        ? [asked ? touchesNote(call) : null, ...wholeCall(request)]
        : questionText(question, !asked || decide === null)
    );
    // Drawn above the buttons while the call waits.
    const concern = asked && decide !== null ? '' : call.concern;
    this.effects.showIf(effects, each => effectsOf(each, before));
    // A saved run goes on no more.
    this.tail.showIf(decide === null && status === 'running' ? '' : call.live, lines =>
      textBox(reveal(lines), 'ipyagent-output ipyagent-tail')
    );
    this.result.show(
      [concern, call.remarks, result && { ...result, media: [] }, call.facts],
      () => [concern === '' ? null : concernNote(concern), ...outcome(call)]
    );
    this.media.show(result?.media, () => (result?.media ?? []).map(m => media(m, before)));
  }

  private ask(call: Call): void {
    const { decide } = this.drawing;
    if (call.is_open !== this.isOpen) {
      this.isOpen = call.is_open;
      this.details.open = call.is_open;
    }
    const warns = call.status === 'awaiting_approval' && decide !== null;
    this.concern.showIf(warns ? call.concern : '', concernNote);
    this.approval.askCall(call, decide);
  }
}

/** Return a status glyph with an accessible name. */
export function glyph({ glyph, status_text }: Pick<Call, 'glyph' | 'status_text'>): HTMLElement {
  const named = { role: 'img', 'aria-label': status_text, title: status_text };
  return h('span', { class: 'ipyagent-glyph', ...named }, glyph);
}

/** Return a note on what the code touches, shown above it. */
function touchesNote({ touches }: Call): HTMLElement | null {
  return touches === '' ? null : h('p', { class: 'ipyagent-touches' }, reveal(touches));
}

/** Return a note on why this call needs approval. */
function concernNote(concern: string): HTMLElement {
  return h('p', { class: 'ipyagent-concern' }, reveal(concern));
}

function line(call: Call): Child[] {
  const { badge, summary, outcome, verdict } = call;
  const part = (name: string, ...children: Child[]): HTMLElement =>
    h('span', { class: `ipyagent-${name}` }, ...children);
  return [
    glyph(call),
    part('tool-name', reveal(call.name)),
    badge === '' ? null : part('badge', badge),
    part('summary', reveal(summary)),
    outcome === '' ? null : part('first-line', '→ ', reveal(outcome)),
    verdict === '' ? null : part('decision', reveal(verdict)),
    part('duration', call.duration)
  ];
}

/** Return a note that a click came after the decision. */
export function lateNote({ decision, at }: Late): HTMLElement {
  const time = new Date(at).toTimeString().slice(0, 5);
  return h('p', { class: 'ipyagent-note' }, `Too late: already ${decision} at ${time}.`);
}

function outcome({ remarks, result, facts }: Call): Child[] {
  const lines = (texts: readonly string[]): Child[] =>
    texts.map(text => h('p', { class: 'ipyagent-note' }, reveal(text)));
  const forModel = result?.for_model ?? null;
  return [
    ...lines(remarks),
    ...(result === null ? [] : texts(result)),
    ...lines(facts),
    forModel === null ? null : foldOf(forModel, 'for-model', 'ipyagent-output')
  ];
}

function texts({ output, error, tone }: Result): Child[] {
  const failed = tone === 'error';
  const name = failed ? 'ipyagent-output ipyagent-error' : 'ipyagent-output';
  const box = (text: string): Child => textBox(reveal(text), name);
  // A failure without output shows its error there.
  const all = output === '' ? error : output;
  return [
    all === '' ? null : box(all),
    output !== '' && error !== '' ? h('p', { class: 'ipyagent-error' }, reveal(error)) : null
  ];
}

/** Return the key of the summary line. */
function lineKey(call: Call): unknown {
  const { glyph, status_text, name, badge, summary, outcome, verdict, duration } = call;
  return [glyph, status_text, name, badge, summary, outcome, verdict, duration];
}
