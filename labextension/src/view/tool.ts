/** Draws a tool call: a summary line, and all details behind it. */
import type { Call, Result } from '../protocol';
import { ApprovalView, Drawing } from './approval';
import { wholeCall } from './call';
import { media } from './displays';
import { Child, h, Slot, textBox } from './dom';
import { effectsOf } from './effects';
import { foldOf } from './footer';
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
  private approval: ApprovalView;
  private media = new Slot(h('div', { class: 'ipyagent-media' }));
  private drawn: Call | null = null;
  /** The kernel's last `is_open`: a user's own folding holds until that changes. */
  private isOpen: boolean | null = null;

  constructor(private drawing: Drawing) {
    const { keep, call, result, tail, effects, concern, media } = this;
    const body = [keep, call, result].map(({ element }) => element);
    this.details.append(this.line.element, h('div', { class: 'ipyagent-body' }, ...body));
    this.approval = new ApprovalView(drawing.decide, this.line.element, call.element);
    const parts = [tail, effects, concern, this.approval, media].map(({ element }) => element);
    const attributes = { class: 'ipyagent-tool', 'data-ipyagent': 'tool' };
    this.element = h('div', attributes, this.details, ...parts);
  }

  update(call: Call): void {
    if (call !== this.drawn) {
      this.drawn = call;
      this.draw(call);
    }
    this.approval.askCall(call);
  }

  private draw(call: Call): void {
    const { name, status, question, request, result, effects } = call;
    const { before } = this.drawing;
    const asked = status === 'awaiting_approval';
    this.element.dataset.tool = name;
    this.element.dataset.state = status;
    this.element.classList.toggle('ipyagent-dry', call.is_dry);
    const { badge, summary, outcome, verdict: decision, duration } = call;
    const first = outcome === '' ? '' : `→ ${outcome}`;
    const words = { 'tool-name': name, badge, summary, 'first-line': first, decision, duration };
    this.line.show([call.glyph, call.status_text, words], () => lineOf(call, words));
    if (call.is_open !== this.isOpen) {
      this.isOpen = call.is_open;
      this.details.open = call.is_open;
    }
    this.keep.showIf(ranBy(call), source =>
      toCells('to-cell', 'To cell', 'Insert this code as a cell below', () => [source])
    );
    this.call.show([request, question, asked], () =>
      question === null
        ? [asked ? touchesNote(call) : null, ...wholeCall(request)]
        : questionText(question, !asked)
    );
    // Drawn above the buttons while the call waits.
    const [warning, concern] = asked ? [call.concern, ''] : ['', call.concern];
    this.concern.showIf(warning, concernNote);
    this.effects.showIf(effects, each => effectsOf(each, before));
    this.tail.showIf(call.live, lines => textBox(reveal(lines), 'ipyagent-output ipyagent-tail'));
    this.result.show(
      [concern, call.remarks, result && { ...result, media: [] }, call.facts],
      () => [concern === '' ? null : concernNote(concern), ...details(call)]
    );
    this.media.show(result?.media, () => (result?.media ?? []).map(m => media(m, before)));
  }
}

type Glyph = Pick<Call, 'glyph' | 'status_text'>;

/** Return a status glyph with an accessible name. */
export function glyph({ glyph, status_text }: Glyph): HTMLElement {
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

/** Return a glyph, and the words of a line that are there, each in a span of its class. */
export function lineOf(step: Glyph, words: Record<string, string>): Child[] {
  const parts = Object.entries(words).filter(([, text]) => text !== '');
  return [
    glyph(step),
    ...parts.map(([name, text]) => h('span', { class: `ipyagent-${name}` }, reveal(text)))
  ];
}

function details({ remarks, result, facts }: Call): Child[] {
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

/** Return what a call put out, and its error. */
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
