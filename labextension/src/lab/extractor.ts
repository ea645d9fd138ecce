/** What language servers see of `%%agent` cells: nothing. */
import type { IForeignCodeExtractor } from '@jupyterlab/lsp';

import { isPrompt } from './prompts';

/** Takes prompts out of a notebook's code, and gives them to no other language. */
export const withoutPrompts: IForeignCodeExtractor = {
  language: 'markdown',
  cellType: ['code'],
  standalone: false,
  fileExtension: 'md',
  hasForeignCode: isPrompt,
  extractForeignCode: () => [{ foreignCode: null, hostCode: '', range: null, virtualShift: null }]
};
