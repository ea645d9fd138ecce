/** Draws the HTML of a card as a page can: with names, roles, and buttons. */
import { h } from './dom';
import { host } from './host';
import { listing } from './toCell';

/** The names by which scripts find the parts of a card. */
const NAMES = {
  run: '.ipyagent-card',
  tool: '.ia-tool',
  answer: '.ia-answer > .ia-markdown',
  thinking: '.ia-thinking',
  plan: '.ia-plan-steps',
  'plan-step': '.ia-plan-steps > li',
  todos: '.ia-todos',
  effects: '.ia-effects',
  'user-text': '.ia-user-text'
};

const STATES = ['running', 'waiting', 'done', 'partial', 'failed', 'cancelled'];

/** Changes there are read out. */
const SPOKEN = '.ia-state, p.ia-waiting, .ia-effects';

/** Blocks that get the direction of their first letter; plain text has its own rules. */
const OWN_DIRECTION = 'ul, ol, blockquote, table';

/** The class of a number that comes from a call: its step, and its place there. */
export const PLACE = /(?:^| )ia-at-(\d+)-(\d+)(?!\S)/;

/** Return whether it is the name of a part of a card. */
export function isName(name = ''): boolean {
  return Object.hasOwn(NAMES, name);
}

/** Draw a part of a card; its first step has that number. */
export function dress(root: DocumentFragment, number: number): void {
  const select = (selector: string): NodeListOf<HTMLElement> => root.querySelectorAll(selector);
  select('.ia-markdown:not(.ia-display)').forEach(dressText);
  select('.ia-display').forEach(dressBasics);
  select('code[class^="language-"]').forEach(nameLanguage);
  select('.ipyagent-card').forEach(dressCard);
  Object.entries(NAMES).forEach(([name, selector]) =>
    select(selector).forEach(part => (part.dataset.ipyagent = name))
  );
  select('.ia-step, .ia-answer').forEach((step, index) => {
    step.role = 'group';
    step.ariaLabel = step.matches('.ia-answer') ? 'Answer' : `Step ${number + index}`;
  });
  select('.ia-glyph').forEach(glyph => {
    glyph.role = 'img';
    glyph.ariaLabel = glyph.title;
    glyph.ariaHidden = String(glyph.title === '');
  });
  if (host.lab !== null) {
    select('.ia-name').forEach(nameVariable);
  }
  select('pre, .ia-display').forEach(box => (box.tabIndex = 0));
  select(SPOKEN).forEach(each => (each.ariaLive = 'polite'));
  select('details[open]').forEach(fold => (fold.dataset.open = ''));
}

/** Make the name of a variable a button; within a line that is one, for the mouse alone. */
function nameVariable(name: HTMLElement): void {
  name.title = `Show ${name.textContent}`;
  if (name.closest('summary') === null) {
    Object.assign(name, { role: 'button', tabIndex: 0 });
    name.dataset.lmSuppressShortcuts = 'true';
  }
}

/** Make a number a link, if it comes from a call. */
function linkNumber(number: HTMLElement): void {
  number.tabIndex = 0;
  if (PLACE.test(number.className)) {
    number.role = 'link';
    number.dataset.lmSuppressShortcuts = 'true';
  }
}

function dressCard(card: HTMLElement): void {
  card.dataset.state = STATES.find(state => card.classList.contains(`ia-${state}`)) ?? '';
  card.role = 'article';
  card.ariaLabel = 'Run of ipyagent';
}

/** Draw a text of the model. */
export function dressText(root: ParentNode): void {
  dressBasics(root);
  root.querySelectorAll('table').forEach(makeScrollable);
  root.querySelectorAll('pre').forEach(label);
  root.querySelectorAll<HTMLElement>('.ia-traced').forEach(linkNumber);
}

/** Draw code and colored cells of texts and outputs. */
function dressBasics(root: ParentNode): void {
  root.querySelectorAll('code[class^="language-"]').forEach(nameLanguage);
  root.querySelectorAll('[bgcolor]').forEach(colorCell);
  root.querySelectorAll<HTMLElement>(OWN_DIRECTION).forEach(block => (block.dir = 'auto'));
}

/** Put a table into a box, which the keyboard can scroll. */
function makeScrollable(table: Element): void {
  const attributes = { role: 'group', 'aria-label': 'Table', tabindex: '0' };
  const box = h('div', { class: 'ipyagent-table', ...attributes });
  table.replaceWith(box);
  box.append(table);
}

/** Color a table's cell, with text that can be read on it: no color hides what stands there. */
function colorCell(element: Element): void {
  const color = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/.exec(
    element.getAttribute('bgcolor') ?? ''
  );
  element.removeAttribute('bgcolor');
  if (color !== null && element instanceof HTMLTableCellElement) {
    const [red, green, blue] = color.slice(1).map(each => parseInt(each, 16));
    const isLight = 0.3 * red + 0.59 * green + 0.11 * blue > 140;
    element.style.background = color[0];
    element.style.color = isLight ? 'black' : 'white';
  }
}

/** Name the language of code; its class goes. */
function nameLanguage(code: Element): void {
  if (code.matches('pre > code')) {
    code.setAttribute('data-language', code.className.replace('language-', ''));
  }
  code.removeAttribute('class');
}

/** Add the language and a copy button to a code block. */
function label(block: HTMLElement): void {
  const code = block.querySelector<HTMLElement>(':scope > code');
  if (code !== null) {
    const box = listing(code.dataset.language ?? '');
    block.replaceWith(box);
    box.append(block);
    block.tabIndex = 0; // keys can scroll it
  }
}
