/** Lets the user choose the model of the next prompts. */
import { InputDialog, Notification } from '@jupyterlab/apputils';

import { revealText } from '../view/reveal';
import type { Link } from './kernel/link';

const NO_CONNECTION =
  'No connection to ipyagent in a kernel: in a cell, run %load_ext ipyagent, then %agent model NAME.';

/** The kernel's reply: why each model is listed, or the problem. */
interface Models {
  current: string;
  models: Record<string, string>;
  problem: string;
}

/** Show the models of a kernel; return whether the user has chosen one. */
export async function chooseModel(link: Link | null): Promise<boolean> {
  const reply = await request(link, null);
  if (reply === null) {
    return false;
  }
  const items = Object.entries(reply.models).map(each => each.map(revealText).join(' · '));
  const names = Object.keys(reply.models);
  const current = Math.max(0, names.indexOf(reply.current));
  const title = 'Model of the next prompts';
  const { value } = await InputDialog.getItem({ title, items, current });
  const chosen = value === null ? null : await request(link, names[items.indexOf(value)]);
  if (chosen !== null) {
    const text = `The next prompts go to ${revealText(chosen.current)}`;
    Notification.info(text, { autoClose: 5_000 });
  }
  return chosen !== null;
}

/** Ask the kernel for its models, once the named one was chosen; a problem is shown. */
async function request(link: Link | null, model: string | null): Promise<Models | null> {
  const reply = (await link?.ask('models', { model })) as Models | undefined;
  const problem = reply === undefined ? NO_CONNECTION : reply.problem;
  if (problem !== '') {
    Notification.error(revealText(problem));
  }
  return problem === '' ? (reply ?? null) : null;
}
