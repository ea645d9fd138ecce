/** The field of the panel for prompts, which it asks in agent cells of the current notebook. */
import { type Cell, CodeCellModel } from '@jupyterlab/cells';
import { Signal } from '@lumino/signaling';

import { Child, h, Slot } from '../view/dom';
import { button } from '../view/form';
import { reveal } from '../view/reveal';
import { PROMPT_TYPE } from './agentCells';
import type { PanelActions } from './panel';

type Factory = Cell.IContentFactory['editorFactory'];

/** The class of JupyterLab's for an editor whose completer is open. */
const COMPLETES = 'jp-mod-completer-active';

export class Composer {
  readonly element = h('div', { class: 'ipyagent-composer', 'data-ipyagent': 'composer' });
  /** The text that is written. */
  readonly model = new CodeCellModel();
  /** Its editor; null before there was a notebook. */
  editor: ReturnType<Factory> | null = null;
  /** Emitted when Enter is to accept a completion. */
  readonly accepted = new Signal<this, void>(this);

  private host = h('div', { class: 'ipyagent-composer-field' });
  private below = new Slot(h('div', { class: 'ipyagent-composer-buttons' }));

  constructor(private actions: PanelActions) {
    this.model.mimeType = PROMPT_TYPE;
    const showHint = (): void => {
      const isEmpty = this.model.sharedModel.getSource() === '';
      this.host.classList.toggle('ipyagent-empty', isEmpty);
    };
    this.model.sharedModel.changed.connect(showHint);
    showHint();
    this.element.append(this.host, this.below.element);
    this.host.addEventListener('keydown', event => this.onKey(event), { capture: true });
  }

  /** Make the editor once, and show the model that answers. */
  update(factory: Factory | null, model: string): void {
    if (factory !== null && this.editor === null) {
      const config = { lineNumbers: false, lineWrap: true };
      this.editor = factory({ host: this.host, model: this.model, config, inline: true });
      this.host.querySelector('.cm-content')?.setAttribute('aria-label', 'Prompt');
    }
    this.below.show(model, () => this.listButtons(model));
  }

  private listButtons(model: string): Child[] {
    const { actions } = this;
    const hint = `${model}: Choose the model of the next prompts`;
    const pick = button('model', reveal(model), hint, () => actions.chooseModel());
    pick.ariaHasPopup = 'dialog';
    const fresh = 'New conversation: one that knows nothing of this one';
    const below = 'Ask in an agent cell at the end of the notebook (Shift Enter)';
    const anew = button('new-session', '+', fresh, () => void actions.resume(''));
    const ask = button('ask', 'Ask', below, () => this.ask());
    return model === '' ? [ask] : [pick, anew, ask];
  }

  /** Tab leaves the field; Enter accepts a completion, with Shift it asks. */
  private onKey(event: KeyboardEvent): void {
    const completes = this.host.classList.contains(COMPLETES);
    if (event.key === 'Tab' && !completes) {
      event.stopPropagation();
    } else if (event.key === 'Enter' && !event.isComposing && (event.shiftKey || completes)) {
      event.preventDefault();
      event.stopPropagation();
      if (event.shiftKey) {
        this.ask();
      } else {
        this.accepted.emit();
      }
    }
  }

  private ask(): void {
    const prompt = this.model.sharedModel.getSource().trim();
    if (prompt !== '') {
      this.model.sharedModel.setSource('');
      this.actions.ask(prompt);
    }
  }
}
