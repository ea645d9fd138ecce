/** A button with the name of a model, which opens a list to choose that of the next prompts. */
import { h, setText } from './dom';
import { button } from './form';
import { reveal, revealText } from './reveal';

/** Rows of the list that are seen at once. */
const MOST_ROWS = 8;

const NO_CONNECTION =
  'No connection to ipyagent in a kernel: in a cell, run %load_ext ipyagent, then %agent model NAME.';

/** The kernel's reply: why each model is listed, or the problem. */
interface Models {
  current: string;
  models: Record<string, string>;
  problem: string;
}

export class ModelPicker {
  readonly element: HTMLButtonElement;
  /** Below the button: the list while it is open, and what was chosen. */
  readonly drawer = h('div', { class: 'ipyagent-models' });

  private list: HTMLSelectElement | null = null;
  private status = h('span', { class: 'ipyagent-note', role: 'status' });

  /** `ask` asks the kernel for the models, after it has chosen one if one is named. */
  constructor(
    private ask: (chosen: string | null) => Promise<unknown>,
    private chosen: () => void = () => undefined
  ) {
    const hint = 'Choose the model of the next prompts';
    this.element = button('model', '', hint, () => void this.toggle());
    this.element.classList.add('ipyagent-model');
    this.element.setAttribute('aria-haspopup', 'listbox');
    this.element.setAttribute('aria-expanded', 'false');
    this.drawer.append(this.status);
  }

  /** Show the name of a model on the button. */
  update(model: string): void {
    this.element.replaceChildren(reveal(model));
    this.element.setAttribute('aria-label', `${revealText(model)}: ${this.element.title}`);
  }

  private async toggle(): Promise<void> {
    if (this.list !== null) {
      this.close();
      return;
    }
    setText(this.status, 'Asking the kernel…');
    const reply = await this.request(null);
    if (reply !== null) {
      setText(this.status, '');
      this.open(reply);
    }
  }

  private open({ current, models }: Models): void {
    const options = Object.entries(models).map(([name, why]) =>
      h('option', { value: name, title: why }, `${revealText(name)} · ${revealText(why)}`)
    );
    const size = `${Math.max(2, Math.min(MOST_ROWS, options.length))}`;
    const label = 'Model of the next prompts: Enter chooses, Escape leaves it';
    const attributes = {
      size,
      'data-ipyagent': 'models',
      'aria-label': label,
      // On the list itself: JupyterLab looks at the focused element before those around it.
      'data-lm-suppress-shortcuts': 'true'
    };
    const list = h('select', attributes, ...options);
    list.value = current;
    list.addEventListener('click', ({ target }) => {
      if (target instanceof HTMLOptionElement) {
        void this.choose(target.value);
      }
    });
    list.addEventListener('keydown', event => {
      if (event.key === 'Enter') {
        event.preventDefault();
        void this.choose(list.value);
      } else if (event.key === 'Escape') {
        this.close();
      }
    });
    this.list?.remove();
    this.list = list;
    this.drawer.prepend(list);
    this.element.setAttribute('aria-expanded', 'true');
    list.focus();
  }

  private async choose(model: string): Promise<void> {
    this.close();
    const reply = await this.request(model);
    if (reply !== null) {
      setText(this.status, `The next prompts go to ${revealText(reply.current)}`);
      this.chosen();
    }
  }

  /** Remove the list, and give its focus back to the button. */
  private close(): void {
    this.list?.remove();
    this.list = null;
    this.element.setAttribute('aria-expanded', 'false');
    this.element.focus();
  }

  /** Ask the kernel; a problem is shown, and null returned. */
  private async request(chosen: string | null): Promise<Models | null> {
    const reply = (await this.ask(chosen)) as Models | undefined;
    const problem = reply === undefined ? NO_CONNECTION : reply.problem;
    if (problem !== '') {
      setText(this.status, revealText(problem));
    }
    return problem === '' ? (reply ?? null) : null;
  }
}
