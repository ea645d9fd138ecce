import { CodeExtractorsManager } from '@jupyterlab/lsp/lib/extractors/manager';
import { VirtualDocument } from '@jupyterlab/lsp/lib/virtual/document';
import { describe, expect, it } from 'vitest';

import { withoutPrompts } from '../lab/cells/prompts';

const CELLS = ['x = 1', '%%agent --plan\nWhy did revenue drop?', 'print(x)'];

/** Return the code that a language server for Python gets. */
function seen(extractors: CodeExtractorsManager): VirtualDocument {
  const document = new VirtualDocument({
    language: 'python',
    foreignCodeExtractors: extractors,
    path: 'n.ipynb',
    fileExtension: 'py',
    hasLspSupportedFile: false
  });
  for (const value of CELLS) {
    document.appendCodeBlock({ value, ceEditor: {} as never, type: 'code' });
  }
  return document;
}

describe('a language server', () => {
  it('would see prompts as Python', () => {
    expect(seen(new CodeExtractorsManager()).value).toContain('Why did revenue');
  });

  it('sees the other cells, and prompts in no language', () => {
    const extractors = new CodeExtractorsManager();
    extractors.register(withoutPrompts, null);
    const document = seen(extractors);
    expect(document.value).not.toContain('agent');
    expect(document.value).not.toContain('revenue');
    expect(document.value).toContain('x = 1');
    expect(document.value).toContain('print(x)');
    expect(document.foreignDocuments.size).toBe(0);
  });
});
