/** Code for the kernel that is no cell's. */
import type { Kernel, KernelMessage } from '@jupyterlab/services';

/** Execute it without a trace in the history; what it printed. */
export async function execute(kernel: Kernel.IKernelConnection, code: string): Promise<string> {
  const printed: string[] = [];
  const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
  future.onIOPub = ({ header, content }: KernelMessage.IIOPubMessage) => {
    if (header.msg_type === 'stream') {
      printed.push((content as KernelMessage.IStreamMsg['content']).text);
    }
  };
  await future.done;
  return printed.join('').trim();
}
