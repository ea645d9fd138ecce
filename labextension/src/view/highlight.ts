/** Colours code, and leaves it uncoloured where colouring would change the text. */
import core from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import diff from 'highlight.js/lib/languages/diff';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import sql from 'highlight.js/lib/languages/sql';

import { nodesOf } from './sanitize';

/** Longer code stays uncoloured: colouring it would hold up the page. */
const MAX_CODE = 50_000;

const COLOURED = {
  tags: new Set(['span']),
  attributes: new Set<string>(),
  classes: /^ipyagent-code-/
};

const hljs = core.newInstance();
hljs.configure({ classPrefix: 'ipyagent-code-' });
Object.entries({ bash, diff, json, python, sql }).forEach(([name, grammar]) =>
  hljs.registerLanguage(name, grammar)
);

/** Return `code` as text in coloured spans. */
export function highlight(code: string, language: string): Node {
  const plain = document.createTextNode(code);
  if (code.length > MAX_CODE || !hljs.getLanguage(language)) {
    return plain;
  }
  const { value } = hljs.highlight(code, { language, ignoreIllegals: true });
  const coloured = nodesOf(value, COLOURED);
  return coloured.textContent === code ? coloured : plain;
}
