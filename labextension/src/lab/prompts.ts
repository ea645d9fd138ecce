/** Prompts as text: recognizes `%%agent` cells and mentions in them, and asks about other cells. */
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IForeignCodeExtractor } from '@jupyterlab/lsp';
import type * as nbformat from '@jupyterlab/nbformat';

/** Magics that run the rest of their cell may stand above, as in the kernel's completion. */
const PROMPT = /^\s*(?:%%(?:time|capture|prun)(?!\w)[^\n]*\n\s*)*%%agent(?!\S)/;

/** Return whether a cell with this source is a prompt. */
export function isPrompt(source: string): boolean {
  return PROMPT.test(source);
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

/** Return whether a cell failed: not by an interrupt, and not as a prompt. */
export function hasFailed({ outputs, sharedModel }: ICodeCellModel): boolean {
  const all: nbformat.IOutput[] = outputs.toJSON();
  const error = all.findLast(each => each.output_type === 'error');
  const isMeant = error !== undefined && error.ename !== 'KeyboardInterrupt';
  return isMeant && !isPrompt(sharedModel.getSource());
}

/** Return an agent cell that asks for something about a cell, as a user would write it. */
export function promptAbout(cell: string, task: string): string {
  return `%%agent --cell ${cell}\n${task}`;
}
