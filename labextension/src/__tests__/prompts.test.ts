import { describe, expect, it } from 'vitest';

import { inMention, isPrompt } from '../lab/cells/prompts';

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
      expect(inMention(before)).toBe(true);
    }
  );

  it.each(['', 'why', 'me@example', 'josé@example', '@@', '@sales drop', '@sales,'])(
    'is not being typed in %j',
    before => {
      expect(inMention(before)).toBe(false);
    }
  );
});
