import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Channel } from '../channel';
import { Link } from '../lab/links';
import type { Overview, Protocol } from '../protocol';
import { asking } from './story';

type ToPage = Protocol['to_page'];

type Content = Record<string, unknown>;

/** The kernel's end of a page's connection, as JupyterLab shows it to the page. */
class FarKernel {
  id = 'k1';
  clientId = 'client';
  username = '';
  status = 'idle';
  isDisposed = false;
  connectionStatus = 'connected';
  info = Promise.resolve({});
  /** The comm that the page has opened last. */
  comm = '';
  said: { type: string; subshell?: string; content: Content }[] = [];
  statusChanged = new Signal<this, string>(this);
  connectionStatusChanged = new Signal<this, string>(this);
  iopubMessage = new Signal<this, unknown>(this);
  answers: Record<string, Content> = {
    comm_info_request: { comms: {} },
    kernel_info_request: { supported_features: ['kernel subshells'] },
    create_subshell_request: { subshell_id: 's1' }
  };

  /** Say that ipyagent is loaded. */
  announce(): void {
    const transient = { display_id: 'ipyagent:loaded' };
    const header = { msg_type: 'update_display_data' };
    this.iopubMessage.emit({ header, content: { data: {}, transient } });
  }

  /** ipyagent is loaded there, as far as it can be asked. */
  knowComm(): void {
    this.answers.comm_info_request = { comms: { c1: { target_name: 'ipyagent.out' } } };
  }

  sendShellMessage({ header, content }: KernelMessage.IShellMessage): void {
    const { msg_type: type, subshell_id: subshell } = header;
    this.said.push({ type, subshell: subshell ?? undefined, content: content as Content });
    if (type === 'comm_open') {
      this.comm = String((content as Content).comm_id);
    }
  }

  sendControlMessage({ header, content }: KernelMessage.IControlMessage): unknown {
    this.said.push({ type: header.msg_type, content: content as Content });
    // A page that has just come may not hear that the kernel is idle again.
    const onReply: (reply: unknown) => void = () => undefined;
    const future = { onReply, done: new Promise(() => undefined) };
    queueMicrotask(() => future.onReply({ content: this.answers[header.msg_type] ?? {} }));
    return future;
  }

  /** Speak to the page that has connected last, or on another comm. */
  tell(message: ToPage, comm = this.comm): void {
    const content = { comm_id: `${comm}.out`, data: message };
    this.iopubMessage.emit({ header: { msg_type: 'comm_msg' }, content });
  }

  reach(status: string): void {
    this.connectionStatus = status;
    this.connectionStatusChanged.emit(status);
  }

  be(status: string): void {
    this.status = status;
    this.statusChanged.emit(status);
  }

  types(): string[] {
    return this.said.map(({ type }) => type);
  }

  told(): unknown[] {
    return this.said.map(({ content }) => (content.data as Content | undefined)?.type ?? null);
  }
}

const RUN_ID = 'run-1';
const overview = (live: boolean): Overview => ({
  model: '',
  runs: [{ id: RUN_ID, live, cell_id: 'cell' } as Overview['runs'][number]],
  approvals: [],
  panel: { set: [], order: {} },
  status: ''
});

describe('the link to a kernel', () => {
  let kernel: FarKernel;
  let link: Link;

  const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
  const connect = async (): Promise<void> => {
    link = new Link(
      kernel as unknown as Kernel.IKernelConnection,
      () => ({ notebooks: ['a.ipynb'], clients: ['client'] }),
      () => null
    );
    await settle();
  };

  beforeEach(() => {
    kernel = new FarKernel();
  });

  it('keeps blocks of the panel that are not sent again', async () => {
    await connect();
    kernel.announce();
    await settle();
    const block = (key: string, html: string) => ({ key, html, more: '', own: null });
    const tell = (set: Overview['panel']['set'], ...keys: string[]): unknown => {
      const panel = { set, order: { '': keys } };
      kernel.tell({ type: 'overview', overview: { ...overview(true), panel } });
      return link.overview?.panel.set.map(({ html }) => html);
    };
    expect(tell([block('a', '1'), block('b', '1')], 'a', 'b')).toEqual(['1', '1']);
    expect(tell([block('b', '2')], 'b', 'a')).toEqual(['2', '1']);
    expect(tell([], 'b')).toEqual(['2']);
    expect(tell([block('a', '3')], 'a')).toEqual(['3']);
  });

  it('is not made to a kernel that never said that ipyagent is loaded', async () => {
    await connect();
    link.send({ type: 'here' });
    expect(kernel.types()).toEqual(['comm_info_request']);
  });

  it('is made when the kernel says so, again after it has left', async () => {
    const types = ['kernel_info_request', 'create_subshell_request', 'comm_open', 'comm_msg'];
    await connect();
    kernel.said = [];
    kernel.announce();
    await settle();
    expect(kernel.types()).toEqual(types);
    kernel.tell({ type: 'bye' });
    await settle();
    kernel.said = [];
    kernel.announce();
    await settle();
    expect(kernel.types()).toEqual(types);
  });

  it('is made to a kernel that had it before, also while that is busy', async () => {
    kernel.knowComm();
    await connect();
    const opened = kernel.said.find(({ type }) => type === 'comm_open');
    expect(opened).toMatchObject({ subshell: 's1' });
    expect(opened?.content.data).toMatchObject({ client: 'client', subshell: 's1' });
  });

  it('speaks to the kernel itself where there are no subshells', async () => {
    kernel.knowComm();
    kernel.answers.kernel_info_request = {};
    await connect();
    expect(kernel.types()).not.toContain('create_subshell_request');
    const opened = kernel.said.find(({ type }) => type === 'comm_open');
    expect(opened?.subshell).toBeUndefined();
    expect(opened?.content.data).toMatchObject({ subshell: null });
  });

  it('is made when the network is there', async () => {
    kernel.knowComm();
    kernel.connectionStatus = 'connecting';
    await connect();
    expect(kernel.types()).toEqual([]);
    kernel.reach('connected');
    await settle();
    expect(kernel.types()).toContain('comm_open');
  });

  it('goes on with another connection, and loses nothing that is said meanwhile', async () => {
    kernel.knowComm();
    await connect();
    kernel.tell({ type: 'overview', overview: overview(true) });
    const next = new FarKernel();
    next.connectionStatus = 'connecting';
    link.useConnection(next as unknown as Kernel.IKernelConnection);
    void link.ask('bundle', { cell_id: 'cell' });
    await settle();
    expect(next.said).toEqual([]);
    next.reach('connected');
    await settle();
    const types = ['kernel_info_request', 'create_subshell_request', 'comm_open'];
    expect(next.types().slice(0, 3)).toEqual(types);
    expect(next.told().slice(3)).toEqual(['shows', 'ask']);
  });

  it('says what was said too early as soon as it is there', async () => {
    await connect();
    kernel.announce();
    const answered = link.ask('bundle', { cell_id: 'cell' });
    await settle();
    expect(kernel.told().filter(type => type !== null)).toEqual(['shows', 'ask']);
    kernel.tell({ type: 'reply', id: 1, value: 'found' });
    expect(await answered).toBe('found');
  });

  it('follows runs again after the network was away', async () => {
    kernel.knowComm();
    await connect();
    kernel.tell({ type: 'overview', overview: overview(true) });
    link.channel(RUN_ID);
    const lost = link.ask('bundle', { cell_id: 'cell' });
    kernel.said.length = 0;
    kernel.reach('connecting');
    kernel.reach('connected');
    await settle();
    expect(await lost).toBeUndefined();
    expect(kernel.types().slice(0, 4)).toEqual([
      'delete_subshell_request',
      'kernel_info_request',
      'create_subshell_request',
      'comm_open'
    ]);
    expect(kernel.told()).toContain('follow');
    expect(link.overview).not.toBeNull();
  });

  it('answers a ping, connects anew when told to, and ends what others left', async () => {
    kernel.knowComm();
    await connect();
    kernel.tell({ type: 'ping' });
    expect(kernel.told().at(-1)).toBe('here');
    kernel.tell({ type: 'left', subshells: ['s0'] });
    expect(kernel.said.at(-1)).toMatchObject({
      type: 'delete_subshell_request',
      content: { subshell_id: 's0' }
    });
    kernel.said.length = 0;
    kernel.tell({ type: 'again' });
    await settle();
    expect(kernel.types()).toContain('comm_open');
  });

  it.each(['restarting', 'autorestarting', 'dead'])('ends when the kernel is %s', async status => {
    kernel.knowComm();
    await connect();
    kernel.tell({ type: 'overview', overview: overview(true) });
    const said = kernel.said.length;
    kernel.be(status);
    link.send({ type: 'here' });
    expect(link.overview).toBeNull();
    expect(kernel.said).toHaveLength(said);
  });

  it('says goodbye once, and nothing after it', async () => {
    kernel.knowComm();
    await connect();
    link.close();
    link.send({ type: 'here' });
    expect(kernel.types().at(-1)).toBe('comm_close');
  });

  it('follows a live run once for all its views, and cuts them off with the kernel', async () => {
    kernel.knowComm();
    await connect();
    expect(link.channel(RUN_ID)).toBeNull();
    kernel.tell({ type: 'overview', overview: overview(true) });
    const channel = link.channel(RUN_ID);
    expect(channel).toBeInstanceOf(Channel);
    expect(link.channel(RUN_ID)).toBe(channel);
    const view = { update: vi.fn(), cutOff: vi.fn() };
    channel?.subscribe(view);
    const message = asking('c2');
    kernel.tell({ type: 'run', run_id: RUN_ID, message });
    channel?.decide('a2', { decision: 'approve', reason: '' });
    expect(kernel.told().slice(-2)).toEqual(['follow', 'to_run']);
    kernel.be('dead');
    expect(view.cutOff).toHaveBeenCalledExactlyOnceWith(message.gone);
    expect(link.channel(RUN_ID)).toBeNull();
  });

  it('leaves a run that has ended as it is drawn', async () => {
    kernel.knowComm();
    await connect();
    kernel.tell({ type: 'overview', overview: overview(true) });
    const view = { update: vi.fn(), cutOff: vi.fn() };
    link.channel(RUN_ID)?.subscribe(view);
    kernel.tell({ type: 'run', run_id: RUN_ID, message: asking('c2') });
    kernel.tell({ type: 'overview', overview: overview(false) });
    expect(link.channel(RUN_ID)).toBeNull();
    kernel.be('dead');
    expect(view.cutOff).not.toHaveBeenCalled();
  });

  it('hears nothing that is for another page, or for itself before it reconnected', async () => {
    kernel.knowComm();
    await connect();
    const before = kernel.comm;
    kernel.announce();
    await settle();
    kernel.tell({ type: 'overview', overview: overview(true) }, before);
    expect(link.overview).toBeNull();
    kernel.tell({ type: 'overview', overview: overview(true) });
    expect(link.overview).not.toBeNull();
  });
});
