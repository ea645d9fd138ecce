/** Names after `@` in a field of a card: the kernel lists variables and files that fit. */
import { h } from './dom';
import { button } from './form';
import { host } from './host';
import { reveal } from './reveal';

/** A mention as the kernel parses it: `@` and a name, not within a word such as an address. */
const MENTION = /(?:^|[^\p{L}\p{N}_@])(@[\p{L}\p{N}_./-]*)$/u;

/** Return the mention at the end of a text; null if there is none. */
export function findMention(text: string): string | null {
  return MENTION.exec(text)?.[1] ?? null;
}

/** Return the list below a field, of names that fit: Tab takes the first one, a press each. */
export function nameList(field: HTMLTextAreaElement): HTMLElement {
  const list = h('div', { class: 'ipyagent-names', role: 'group', 'aria-label': 'Names' });
  let asked = 0;
  const mention = (): string | null => findMention(field.value.slice(0, field.selectionStart));
  const clear = (): void => {
    field.focus(); // before what has the focus goes
    list.replaceChildren();
  };
  const take = (name: string): void => {
    const { selectionStart: end } = field;
    field.setRangeText(name, end - (mention() ?? '').length, end, 'end');
    clear();
  };
  field.addEventListener('input', () => {
    const [number, typed] = [++asked, mention()];
    void (typed === null ? null : host.lab?.ask(field, 'complete', { text: typed }))?.then(
      reply => {
        if (number === asked) {
          const { names = [] } = reply ?? {};
          const draw = (name: string): HTMLElement =>
            button('name', reveal(name), `Insert ${name}`, () => take(name));
          list.replaceChildren(...names.filter(name => name !== typed).map(draw));
        }
      }
    );
    list.replaceChildren();
  });
  const onKey = (event: KeyboardEvent): void => {
    const first = list.querySelector('button');
    const act = { Escape: clear, Tab: () => first?.click(), ArrowDown: () => first?.focus() };
    const isInField = event.target === field && !event.shiftKey;
    if (event.key === 'Enter' && isInField) {
      asked += 1;
      list.replaceChildren();
    } else if (first !== null && event.key in act && (isInField || event.key === 'Escape')) {
      act[event.key as keyof typeof act]();
      event.preventDefault();
    }
  };
  field.addEventListener('keydown', onKey);
  list.addEventListener('keydown', onKey);
  return list;
}
