/** What a kernel is asked on its control channel, where it answers also while a cell occupies it. */
import { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';

/** For a kernel to answer, before it is spoken to without a subshell. */
const ANSWER_MILLISECONDS = 5_000;

/** In `supported_features` of what a kernel says of itself; JEP 91. */
const SUBSHELLS = 'kernel subshells';

/** Whether the kernel knows a comm with that target. */
export async function knowsComm(
  kernel: Kernel.IKernelConnection,
  target_name: string
): Promise<boolean> {
  const { comms } = await ask(kernel, 'comm_info_request', { target_name });
  return Object.keys(comms ?? {}).length > 0;
}

/** Begin a subshell, as soon as the kernel can be reached; null where there are none. */
export async function startSubshell(kernel: Kernel.IKernelConnection): Promise<string | null> {
  await connected(kernel);
  const started = async (): Promise<string | null> => {
    const { supported_features } = await ask(kernel, 'kernel_info_request', {});
    if (!(supported_features as string[] | undefined)?.includes(SUBSHELLS)) {
      return null;
    }
    const { subshell_id } = await ask(kernel, 'create_subshell_request', {});
    return (subshell_id as string | undefined) ?? null;
  };
  const patience = new Promise<null>(resolve =>
    setTimeout(() => resolve(null), ANSWER_MILLISECONDS)
  );
  return Promise.race([started(), patience]);
}

/** End a subshell; one that is gone already does not matter. */
export function endSubshell(kernel: Kernel.IKernelConnection, subshell_id: string): void {
  if (isThere(kernel)) {
    kernel.sendControlMessage(asked(kernel, 'delete_subshell_request', { subshell_id }));
  }
}

/** Whether something can be said to it. */
export function isThere({ isDisposed, status }: Kernel.IKernelConnection): boolean {
  return !isDisposed && !['restarting', 'autorestarting', 'terminating', 'dead'].includes(status);
}

function connected(kernel: Kernel.IKernelConnection): Promise<void> {
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
 * Ask, and wait for the answer; nothing is in it if the connection was lost. The kernel's being idle
 * again is not waited for, as `done` does: a page that has just come may miss it.
 */
function ask(
  kernel: Kernel.IKernelConnection,
  msgType: string,
  content: JSONObject
): Promise<JSONObject> {
  const answered = new Promise<JSONObject>((resolve, reject) => {
    const future = kernel.sendControlMessage(asked(kernel, msgType, content), true);
    future.onReply = reply => resolve(reply.content as unknown as JSONObject);
    future.done.catch(reject);
  });
  return answered.catch(() => ({}));
}

/** JupyterLab's own requests go to the shell, or refuse before the kernel has described itself. */
function asked(
  kernel: Kernel.IKernelConnection,
  msgType: string,
  content: JSONObject
): KernelMessage.IControlMessage {
  return KernelMessage.createMessage({
    msgType,
    channel: 'control',
    username: kernel.username,
    session: kernel.clientId,
    content
  } as unknown as KernelMessage.IOptions<KernelMessage.ICreateSubshellRequestMsg>);
}
