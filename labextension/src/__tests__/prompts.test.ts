import type { ICodeCellModel } from '@jupyterlab/cells';
import { CodeExtractorsManager } from '@jupyterlab/lsp/lib/extractors/manager';
import { VirtualDocument } from '@jupyterlab/lsp/lib/virtual/document';
import { describe, expect, it, test } from 'vitest';

import { hasFailed, isPrompt, promptAbout, withoutPrompts } from '../lab/prompts';
import { findMention } from '../view/form';

describe('a prompt', () => {
  it.each([
    '%%agent',
    '%%agent --plan\nGo.',
    '\n\n%%agent\nGo.',
    '  %%agent\nGo.',
    '%%agent\n',
    '%%time\n\n%%agent\nGo.',
    '%%capture out\n%%time\n%%agent'
  ])('is %j', source => {
    expect(isPrompt(source)).toBe(true);
  });

  it.each([
    '',
    '%agent status',
    '%%agents\n',
    'x = 1\n%%agent',
    '# %%agent',
    '%%time\nx = 1',
    '%%writefile x\n%%agent',
    '%%timeit\n%%agent'
  ])('is not %j', source => {
    expect(isPrompt(source)).toBe(false);
  });
});

describe('a mention', () => {
  it.each(['@', 'why did @', 'why did @sal', '(@data/sales.csv', '@größe'])(
    'is being typed in %j',
    before => {
      expect(findMention(before)).not.toBeNull();
    }
  );

  it.each(['', 'why', 'me@example', 'josé@example', '@@', '@sales drop', '@sales,'])(
    'is not being typed in %j',
    before => {
      expect(findMention(before)).toBeNull();
    }
  );
});

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

const ERROR = { output_type: 'error', ename: 'ZeroDivisionError', evalue: 'division by zero' };
const FIGURE = { output_type: 'display_data' };

function cell(source: string, ...outputs: object[]): ICodeCellModel {
  const model = { outputs: { toJSON: () => outputs }, sharedModel: { getSource: () => source } };
  return model as unknown as ICodeCellModel;
}

test('a failure is an error of the newest outputs, though a figure comes behind it', () => {
  expect(hasFailed(cell('f()', ERROR))).toBe(true);
  expect(hasFailed(cell('f()', ERROR, FIGURE))).toBe(true);
  expect(hasFailed(cell('f()', FIGURE))).toBe(false);
});

test('agents that fail and cells that were interrupted are no failures to ask about', () => {
  expect(hasFailed(cell('%%agent\nGo.', ERROR))).toBe(false);
  expect(hasFailed(cell('f()', { ...ERROR, ename: 'KeyboardInterrupt' }))).toBe(false);
});

test('a prompt about a cell is what a user would write', () => {
  expect(promptAbout('10', 'Fix the error.')).toBe('%%agent --cell 10\nFix the error.');
});
