import { beforeEach, describe, it, vi, expect } from 'vitest';

import loader, { CardModel } from '../loader';
import type { Protocol } from '../protocol';
import type { Widget } from '../widget';
import { widgetModules } from '../widgetModules';

type Receive = (message: unknown) => void;

const MODULE: Protocol['to_card'] = {
  type: 'module',
  hash: 'h1',
  source: 'the source',
  style: '.one {}'
};

class Model implements CardModel {
  sent: unknown[] = [];
  receivers = new Set<Receive>();

  get(name: string): unknown {
    return name === 'module_hash' ? 'h1' : undefined;
  }
  on(event: string, receive: Receive): void {
    if (event === 'msg:custom') {
      this.receivers.add(receive);
    }
  }
  off(_event: string, receive: Receive): void {
    this.receivers.delete(receive);
  }
  send(message: unknown): void {
    this.sent.push(message);
  }
  receive(message: unknown): void {
    [...this.receivers].forEach(receive => receive(message));
  }
}

describe('the loader of cards', () => {
  const closed: string[] = [];
  let evaluated: string[];
  const widget = (): Widget => ({
    initialize: () => () => closed.push('widget'),
    render: ({ el }) => {
      el.append('a run');
      return () => closed.push('view');
    }
  });
  const importSource = (source: string): Promise<{ default: () => Widget }> => {
    evaluated.push(source);
    return Promise.resolve({ default: widget });
  };

  beforeEach(() => {
    vi.useFakeTimers();
    closed.length = 0;
    evaluated = [];
    widgetModules().clear();
    document.head.replaceChildren();
  });

  it('takes the module that the page has', async () => {
    const [model, el] = [new Model(), document.createElement('div')];
    widgetModules().set('h1', () => Promise.resolve(widget));
    const card = loader(importSource);
    const close = card.initialize({ model });
    const closeView = await card.render({ model, el });
    expect(el.textContent).toBe('a run');
    expect(model.sent).toEqual([]);
    closeView();
    close();
    await vi.runAllTimersAsync();
    expect(closed).toEqual(['view', 'widget']);
  });

  it('asks until the module comes, and all later cards use it', async () => {
    const [model, el] = [new Model(), document.createElement('div')];
    const card = loader(importSource);
    card.initialize({ model });
    const drawn = card.render({ model, el });
    await vi.advanceTimersByTimeAsync(3_500);
    expect(model.sent).toEqual([{ type: 'module' }, { type: 'module' }, { type: 'module' }]);
    model.receive({ ...MODULE, hash: 'of another version' });
    model.receive({ type: 'changes' });
    expect(evaluated).toEqual([]);
    model.receive(MODULE);
    await drawn;
    expect(el.textContent).toBe('a run');
    expect(document.head.textContent).toBe('.one {}');

    const later = new Model();
    loader(importSource).initialize({ model: later });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(later.sent).toEqual([]);
    expect(model.sent).toHaveLength(3);
    expect(evaluated).toEqual(['the source']);
  });

  it('uses what another card has got meanwhile', async () => {
    const models = [new Model(), new Model()];
    models.forEach(model => loader(importSource).initialize({ model }));
    models[0].receive(MODULE);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(models[1].sent).toHaveLength(1);
    expect(models[1].receivers.size).toBe(0);
    expect(evaluated).toHaveLength(1);
  });

  it('asks no more when its card is closed', async () => {
    const model = new Model();
    loader(importSource).initialize({ model })();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(model.sent).toHaveLength(1);
    expect(model.receivers.size).toBe(0);
  });

  it('keeps no module that does not load', async () => {
    const [model, el] = [new Model(), document.createElement('div')];
    const card = loader(() => Promise.reject(new Error('no')));
    card.initialize({ model });
    const drawn = card.render({ model, el });
    const failed = expect(drawn).rejects.toThrow('no');
    model.receive(MODULE);
    await failed;
    expect(widgetModules().size).toBe(0);
  });
});
