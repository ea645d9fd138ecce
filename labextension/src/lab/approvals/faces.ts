/** Gives each question one face with buttons; its other faces lead there. */
import { Signal } from '@lumino/signaling';

import { h, setText } from '../../view/dom';
import { button } from '../../view/form';
import type { Links } from '../kernel/links';
import { areButtonsInSight, Face, faceOf, focusCard, isInSight, scrollToFace } from './visibility';
import { formOf, listWaiting, OUTPUT, PANEL, Waiting } from './waiting';

/** Milliseconds between two looks at the page while something waits. */
const LOOK_MILLISECONDS = 100;

/** The places of faces, the preferred first, and how other faces call them. */
const PLACES = [
  ['.ipyagent-proposal', 'at the proposed change'],
  [OUTPUT, 'in the agent’s cell'],
  [`#${PANEL}`, 'in the side panel']
];

/** The line in place of buttons. */
const LINE = 'ipyagent-elsewhere';

/** An open editor, or a reason or an answer that has begun. */
const INPUT = '.ipyagent-editor, .ipyagent-approval input:not(:placeholder-shown)';

/** Looks at the page while something waits. Faces that it does not know of keep their buttons. */
export class Faces {
  /** Emitted after each look. */
  readonly looked = new Signal<this, readonly Waiting[]>(this);

  private choices = new Map<string, Face>();
  private timer: number | null = null;

  constructor(private links: Links) {
    links.changed.connect(() => this.update());
  }

  /** Return the face with the buttons; null while none is displayed. */
  choiceOf({ key }: Waiting): Face | null {
    return this.choices.get(key) ?? null;
  }

  /** List the faces that are displayed, the preferred first, and first in the current notebook. */
  list({ approval }: Waiting): Face[] {
    const { panel } = this.links;
    const rank = ({ card }: Face): number =>
      2 * preferenceOf(card) + (panel?.node.contains(card) === true ? 0 : 1);
    return [...document.querySelectorAll<HTMLElement>(formOf(approval))]
      .map(faceOf)
      .filter(({ card }) => preferenceOf(card) >= 0 && card.getClientRects().length > 0)
      .sort((one, other) => rank(one) - rank(other));
  }

  /** Choose by what is in sight now. */
  chooseFaces(): void {
    const waiting = listWaiting(this.links);
    const before = this.choices;
    this.choices = new Map();
    const lines = new Set<Element>();
    for (const each of waiting) {
      const faces = this.list(each);
      const choice = choose(faces, before.get(each.key)?.form);
      if (choice !== null) {
        this.choices.set(each.key, choice);
        faces.filter(face => face !== choice).forEach(face => lines.add(lead(face, choice)));
      }
    }
    const drawn = [...document.querySelectorAll<HTMLElement>(`.${LINE}`)];
    drawn.filter(line => !lines.has(line)).forEach(removeLine);
    this.looked.emit(waiting);
  }

  private update(): void {
    if (listWaiting(this.links).length > 0) {
      this.timer ??= window.setInterval(() => this.chooseFaces(), LOOK_MILLISECONDS);
    } else if (this.timer !== null) {
      window.clearInterval(this.timer);
      this.timer = null;
      this.chooseFaces();
    }
  }
}

/** Return the rank of a card's place, 0 for the preferred one; -1 without a place. */
function preferenceOf(card: HTMLElement): number {
  return PLACES.findIndex(([selector]) => card.closest(selector) !== null);
}

/** A face in use keeps its buttons; else they are at the first face that shows them. */
function choose(faces: readonly Face[], before: HTMLElement | undefined): Face | null {
  const last = faces.find(({ form }) => form === before) ?? faces.find(isInUse);
  if (last !== undefined && isInUse(last)) {
    return last;
  }
  const card = faces.find(each => each.card.closest(OUTPUT) !== null);
  return (
    faces.find(areButtonsInSight) ?? faces.find(isInSight) ?? last ?? card ?? faces.at(0) ?? null
  );
}

function isInUse({ card, form }: Face): boolean {
  return form.matches(':hover, :focus-within') || card.querySelector(INPUT) !== null;
}

/** Show where the buttons are in place of a face's own. */
function lead({ form }: Face, choice: Face): HTMLElement {
  const line = form.querySelector<HTMLElement>(`.${LINE}`) ?? addLine(form);
  setText(line.children[0] as HTMLElement, `Asked ${PLACES[preferenceOf(choice.card)][1]}`);
  line.onclick = () => {
    scrollToFace(choice);
    focusCard(choice);
  };
  return line;
}

function addLine(form: HTMLElement): HTMLElement {
  const show = button('show-question', 'Show', 'Show where it is asked', () => undefined);
  const line = h('p', { class: LINE }, h('span'), show);
  form.querySelector('.ipyagent-approval > .ipyagent-unseen')?.after(line);
  return line;
}

/** Give a face its buttons back. */
function removeLine(line: HTMLElement): void {
  if (line.contains(document.activeElement)) {
    focusCard(faceOf(line));
  }
  line.remove();
}
