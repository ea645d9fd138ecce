/** Messages that a kernel receives while it runs a cell: on its control channel and on subshells. */
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';

/** Milliseconds to wait for a subshell. */
const ANSWER_MILLISECONDS = 5_000;

/** The feature in `supported_features` of kernel_info replies; JEP 91. */
const SUBSHELLS = 'kernel subshells';

/** Return whether the kernel has a comm with that target. */
export async function hasComm(
  kernel: Kernel.IKernelConnection,
  target_name: string
): Promise<boolean> {
  const { comms } = await request(kernel, 'comm_info_request', { target_name });
  return Object.keys(comms ?? {}).length > 0;
}

/** Start a subshell once the kernel is connected; null where it has none. */
async function startSubshell(kernel: Kernel.IKernelConnection): Promise<string | null> {
  await waitUntilConnected(kernel);
  const start = async (): Promise<string | null> => {
    const { supported_features } = await request(kernel, 'kernel_info_request', {});
    if (!(supported_features as string[] | undefined)?.includes(SUBSHELLS)) {
      return null;
    }
    const { subshell_id } = await request(kernel, 'create_subshell_request', {});
    return (subshell_id as string | undefined) ?? null;
  };
  const timeout = new Promise<null>(resolve =>
    setTimeout(() => resolve(null), ANSWER_MILLISECONDS)
  );
  return Promise.race([start(), timeout]);
}

/** End a subshell, if it still exists. */
export function endSubshell(kernel: Kernel.IKernelConnection, subshell_id: string): void {
  if (isReachable(kernel)) {
    kernel.sendControlMessage(controlMessage(kernel, 'delete_subshell_request', { subshell_id }));
  }
}

/** Return whether the kernel accepts messages. */
function isReachable({ isDisposed, status }: Kernel.IKernelConnection): boolean {
  return !isDisposed && !['restarting', 'autorestarting', 'terminating', 'dead'].includes(status);
}

function waitUntilConnected(kernel: Kernel.IKernelConnection): Promise<void> {
  return new Promise(resolve => {
    const check = (_: unknown, status: Kernel.ConnectionStatus): void => {
      if (status === 'connected') {
        kernel.connectionStatusChanged.disconnect(check);
        resolve();
      }
    };
    kernel.connectionStatusChanged.connect(check);
    check(kernel, kernel.connectionStatus);
  });
}

/**
 * Send a request and return the reply's content, empty if the connection was lost. Unlike `done`
 * this does not wait for idle, which a new page may miss.
 */
function request(
  kernel: Kernel.IKernelConnection,
  msgType: string,
  content: JSONObject
): Promise<JSONObject> {
  const reply = new Promise<JSONObject>((resolve, reject) => {
    const future = kernel.sendControlMessage(controlMessage(kernel, msgType, content), true);
    future.onReply = reply => resolve(reply.content as unknown as JSONObject);
    future.done.catch(reject);
  });
  return reply.catch(() => ({}));
}

/** Create a control message: JupyterLab's own go to the shell, or fail before kernel_info. */
function controlMessage(
  kernel: Kernel.IKernelConnection,
  msgType: string,
  content: JSONObject
): KernelMessage.IControlMessage {
  const message = messageOf(kernel, { channel: 'control', msgType, content });
  return message as KernelMessage.IControlMessage;
}

/** Create a message of any type, also of those that JupyterLab has no interface for. */
function messageOf(
  { username, clientId }: Kernel.IKernelConnection,
  fields: JSONObject
): KernelMessage.IMessage {
  const options = { ...fields, username, session: clientId };
  return KernelMessage.createMessage(options as never);
}

/**
 * A comm whose messages go to a subshell from the first one on. JupyterLab's own comms do so only
 * after kernel_info, which does not arrive while a run blocks the kernel.
 */
export class SubshellComm {
  private readonly id = UUID.uuid4();
  /** The comm on which the kernel replies. */
  readonly replyId = `${this.id}.out`;
  private subshell: string | null = null;
  /** The messages to send once it is open; null from then on. */
  private queue: JSONObject[] | null = [];
  private isClosed = false;

  constructor(
    private kernel: Kernel.IKernelConnection,
    private target: string
  ) {}

  /** Start a subshell and open the comm on it, unless closed meanwhile. */
  async open(data: JSONObject): Promise<void> {
    this.subshell = await startSubshell(this.kernel);
    if (this.isClosed || this.kernel.isDisposed) {
      this.endSubshell();
      return;
    }
    this.sendMessage('comm_open', {
      target_name: this.target,
      data: { ...data, subshell: this.subshell }
    });
    const waiting = this.queue ?? [];
    this.queue = null;
    waiting.forEach(each => this.send(each));
  }

  /** Send a message, once the comm is open. */
  send(data: JSONObject): void {
    if (this.queue !== null) {
      this.queue.push(data);
    } else if (!this.isClosed) {
      this.sendMessage('comm_msg', { data });
    }
  }

  /** Close the comm. The kernel ends the subshell, as it has to process this message on it. */
  close(): void {
    if (this.queue === null && !this.isClosed) {
      this.sendMessage('comm_close', { data: {} });
    }
    this.isClosed = true;
  }

  /** End the comm and its subshell without a message. */
  drop(): void {
    this.isClosed = true;
    this.endSubshell();
  }

  private sendMessage(msgType: 'comm_open' | 'comm_msg' | 'comm_close', content: JSONObject): void {
    const { kernel, subshell } = this;
    if (isReachable(kernel)) {
      const message = messageOf(kernel, {
        channel: 'shell',
        msgType,
        ...(subshell === null ? {} : { subshellId: subshell }),
        content: { comm_id: this.id, ...content }
      });
      kernel.sendShellMessage(message as KernelMessage.IShellMessage, false, true);
    }
  }

  private endSubshell(): void {
    if (this.subshell !== null) {
      endSubshell(this.kernel, this.subshell);
      this.subshell = null;
    }
  }
}
