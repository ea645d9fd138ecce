/** A comm that works while a cell occupies the kernel's main thread. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { JSONObject, UUID } from '@lumino/coreutils';

import { isReachable, endSubshell, messageOf, startSubshell } from './control';

/**
 * A comm whose messages go to a subshell from the first one on. JupyterLab's own comms do so only
 * after kernel_info, which does not arrive while a run blocks the kernel.
 */
export class SubshellComm {
  private readonly id = UUID.uuid4();
  private subshell: string | null = null;
  private isOpen = false;
  private queue: JSONObject[] = [];
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
    this.isOpen = true;
    this.sendMessage('comm_open', {
      target_name: this.target,
      data: { ...data, subshell: this.subshell }
    });
    this.queue.splice(0).forEach(each => this.send(each));
  }

  /** Send a message, once the comm is open. */
  send(data: JSONObject): void {
    if (!this.isOpen) {
      this.queue.push(data);
    } else if (!this.isClosed) {
      this.sendMessage('comm_msg', { data });
    }
  }

  /** Close the comm. The kernel ends the subshell, as it has to process this message on it. */
  close(): void {
    if (this.isOpen && !this.isClosed) {
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
