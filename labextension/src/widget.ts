/** Draws the card of a live run: the module that `loader.ts` finds. */
import { Channel, CUT_OFF, ToRun } from './channel';
import { Card } from './view/card';

/** Events of a model; ipywidgets emits `comm_live_update` when the user restarts the kernel. */
type ModelEvent = 'msg:custom' | 'comm_live_update';

/** The part of an anywidget model that is used. */
export interface WidgetModel {
  on(event: ModelEvent, callback: (message: unknown) => void): void;
  off(event: ModelEvent, callback: (message: unknown) => void): void;
  send(message: ToRun): void;
}

type Cleanup = () => void;

export interface Widget {
  initialize(context: { model: WidgetModel }): Cleanup;
  render(context: { model: WidgetModel; el: HTMLElement }): Cleanup;
}

/** Create a widget with all its views; anywidget calls this once for each model. */
export default function widget(): Widget {
  let channel: Channel | null = null;
  const open = (model: WidgetModel): Channel =>
    (channel ??= new Channel(message => model.send(message)));
  return {
    initialize({ model }) {
      const opened = open(model);
      const receive = (message: unknown): void => opened.receive(message);
      const cut = (): void => opened.disconnect();
      model.on('msg:custom', receive);
      model.on('comm_live_update', cut);
      opened.start();
      return () => {
        opened.close();
        model.off('msg:custom', receive);
        model.off('comm_live_update', cut);
      };
    },
    render({ model, el }) {
      const opened = open(model);
      const view = new Card(opened);
      // It does not bubble.
      view.element.addEventListener(CUT_OFF, () => opened.disconnect(), { capture: true });
      el.append(view.element);
      return () => view.dispose();
    }
  };
}
