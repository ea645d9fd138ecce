/** The way from a page to a kernel, open also while a cell occupies the kernel's main thread. */
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';

import { isThere, endSubshell, startSubshell } from './control';

/**
 * A comm whose messages go to a subshell from the first one on. Those of JupyterLab do not before
 * the kernel has described itself, and a page that is loaded in mid-run waits for this in vain.
 */
export class SubshellComm {
  private readonly id = UUID.uuid4();
  private subshell: string | null = null;
  private isOpen = false;
  private waiting: JSONObject[] = [];
  private isClosed = false;

  constructor(
    private kernel: Kernel.IKernelConnection,
    private target: string
  ) {}

  /** Open it, unless it is closed by then. */
  async open(data: JSONObject): Promise<void> {
    this.subshell = await startSubshell(this.kernel);
    if (this.isClosed || this.kernel.isDisposed) {
      this.endSubshell();
      return;
    }
    this.isOpen = true;
    this.tell('comm_open', {
      target_name: this.target,
      data: { ...data, subshell: this.subshell }
    });
    this.waiting.splice(0).forEach(each => this.send(each));
  }

  /** Say something, as soon as it is open. */
  send(data: JSONObject): void {
    if (!this.isOpen) {
      this.waiting.push(data);
    } else if (!this.isClosed) {
      this.tell('comm_msg', { data });
    }
  }

  /** Say that there will be no more. Its subshell is left to the kernel, which has to hear this. */
  close(): void {
    if (this.isOpen && !this.isClosed) {
      this.tell('comm_close', { data: {} });
    }
    this.isClosed = true;
  }

  /** The kernel has closed it, or is gone, or is told in another way. */
  drop(): void {
    this.isClosed = true;
    this.endSubshell();
  }

  private tell(msgType: 'comm_open' | 'comm_msg' | 'comm_close', content: JSONObject): void {
    const { kernel, subshell } = this;
    if (isThere(kernel)) {
      const message = KernelMessage.createMessage({
        msgType,
        channel: 'shell',
        username: kernel.username,
        session: kernel.clientId,
        ...(subshell === null ? {} : { subshellId: subshell }),
        content: { comm_id: this.id, ...content }
      } as KernelMessage.IOptions<KernelMessage.ICommMsgMsg<'shell'>>);
      kernel.sendShellMessage(message, false, true);
    }
  }

  private endSubshell(): void {
    if (this.subshell !== null) {
      endSubshell(this.kernel, this.subshell);
      this.subshell = null;
    }
  }
}
