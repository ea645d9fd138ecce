/** Recognizes `%%agent` cells, and mentions that are being typed in them. */
import type { IForeignCodeExtractor } from '@jupyterlab/lsp';

/** Magics that run the rest of their cell may stand above, as in the kernel's completion. */
const PROMPT = /^\s*(?:%%(?:time|capture|prun)(?!\w)[^\n]*\n\s*)*%%agent(?!\S)/;

/** A mention as the kernel parses it: `@` and a name, not within a word such as an address. */
const MENTION = /(?:^|[^\p{L}\p{N}_@])@[\p{L}\p{N}_./-]*$/u;

/** Return whether a cell with this source is a prompt. */
export function isPrompt(source: string): boolean {
  return PROMPT.test(source);
}

/** Return whether the text before the cursor ends in a mention. */
export function inMention(before: string): boolean {
  return MENTION.test(before);
}

/** Hides prompts from language servers. */
export const withoutPrompts: IForeignCodeExtractor = {
  language: 'markdown',
  cellType: ['code'],
  standalone: false,
  fileExtension: 'md',
  hasForeignCode: isPrompt,
  extractForeignCode: () => [{ foreignCode: null, hostCode: '', range: null, virtualShift: null }]
};
