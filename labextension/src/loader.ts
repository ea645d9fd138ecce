/**
 * The anywidget module of every card: it finds the module that draws. JupyterLab's extension
 * provides it; elsewhere a page's first card requests it from the kernel, so that it is not sent
 * with each card.
 */
import type { ToRun } from './channel';
import type { Protocol } from './protocol';
import type { Widget, WidgetModel } from './widget';
import { MakeWidget, widgetModules } from './widgetModules';

/** The card's synced trait with the hash of its module. */
const KEY = 'module_hash';

const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;

/** The part of a card's model that a loader uses. */
export interface CardModel extends WidgetModel {
  get(name: string): unknown;
  send(message: ToRun | Protocol['from_card']): void;
}

type Import = (source: string) => Promise<{ default: MakeWidget }>;

/** Create the widget; `importSource` evaluates the text of a module. */
export default function loader(importSource: Import = importBlob) {
  let widget: Promise<Widget> | null = null;
  const closed = new AbortController();
  const load = (model: CardModel): Promise<Widget> =>
    (widget ??= findModule(model, closed.signal, importSource).then(make => make()));
  return {
    // Not awaited: anywidget delivers messages, such as the module, only after this returns.
    initialize({ model }: { model: CardModel }) {
      const opened = load(model).then(widget => widget.initialize({ model }));
      opened.catch(() => undefined); // the view shows the error
      return () => {
        closed.abort();
        opened.then(close => close()).catch(() => undefined);
      };
    },
    async render(place: { model: CardModel; el: HTMLElement }) {
      const widget = await load(place.model);
      return widget.render(place);
    }
  };
}

/** Find the module, or request it, repeatedly: a request may be lost while the page connects. */
function findModule(
  model: CardModel,
  closed: AbortSignal,
  importSource: Import
): Promise<MakeWidget> {
  const key = String(model.get(KEY));
  return new Promise((resolve, reject) => {
    let pause = FIRST_PAUSE;
    let timer: ReturnType<typeof setTimeout>;
    const finish = (load: () => Promise<MakeWidget>): void => {
      stop();
      load().then(resolve, reject);
    };
    const stop = (): void => {
      clearTimeout(timer);
      model.off('msg:custom', receive);
    };
    const receive = (message: unknown): void => {
      if (isModule(message, key)) {
        finish(addModule(key, message, importSource));
      }
    };
    const ask = (): void => {
      const known = widgetModules().get(key);
      if (known !== undefined) {
        finish(known);
        return;
      }
      model.send({ type: 'module' });
      timer = setTimeout(ask, pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    };
    closed.addEventListener('abort', stop);
    model.on('msg:custom', receive);
    ask();
  });
}

/** Add a module that the kernel sent. */
function addModule(
  key: string,
  { source, style }: Protocol['to_card'],
  importSource: Import
): () => Promise<MakeWidget> {
  const modules = widgetModules();
  const known = modules.get(key);
  if (known !== undefined) {
    return known;
  }
  const element = document.createElement('style');
  element.textContent = style;
  document.head.append(element);
  const loaded = importSource(source).then(module => module.default);
  const load = (): Promise<MakeWidget> => loaded;
  modules.set(key, load);
  loaded.catch(() => modules.delete(key));
  return load;
}

function isModule(message: unknown, key: string): message is Protocol['to_card'] {
  const { type, hash } = (message ?? {}) as Partial<Protocol['to_card']>;
  return type === 'module' && hash === key;
}

/** Import a module's text, as anywidget does. */
async function importBlob(source: string): Promise<{ default: MakeWidget }> {
  const url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
  try {
    return (await import(url)) as { default: MakeWidget };
  } finally {
    URL.revokeObjectURL(url);
  }
}
