/** What a `%%agent` cell is, and where in it a name is being typed. */
import type { IForeignCodeExtractor } from '@jupyterlab/lsp';

/** Below magics too that run the rest of their cell as a cell, as in the kernel's completion. */
const PROMPT = /^\s*(?:%%(?:time|capture|prun)(?!\w)[^\n]*\n\s*)*%%agent(?!\S)/;

/** As the kernel understands it: `@` and what may follow, not within a word such as an address. */
const MENTION = /(?:^|[^\p{L}\p{N}_@])@[\p{L}\p{N}_./-]*$/u;

/** Whether a cell with this source asks the agent. */
export function isPrompt(source: string): boolean {
  return PROMPT.test(source);
}

/** Whether a line ends, at the cursor, in a mention of something. */
export function inMention(before: string): boolean {
  return MENTION.test(before);
}

/** Takes prompts out of a notebook's code, and gives them to no other language. */
export const withoutPrompts: IForeignCodeExtractor = {
  language: 'markdown',
  cellType: ['code'],
  standalone: false,
  fileExtension: 'md',
  hasForeignCode: isPrompt,
  extractForeignCode: () => [{ foreignCode: null, hostCode: '', range: null, virtualShift: null }]
};
