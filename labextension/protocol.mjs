// Turns a JSON Schema on standard input into TypeScript.
import { stdin, stdout } from 'node:process';
import { text } from 'node:stream/consumers';

import { compile } from 'json-schema-to-typescript';

const options = {
  bannerComment:
    '/** Generated from `ipyagent.ui.messages` by `make protocol`: do not change it here. */',
  additionalProperties: false,
  style: { singleQuote: true, printWidth: 100, arrowParens: 'avoid', trailingComma: 'none' }
};
const types = await compile(JSON.parse(await text(stdin)), 'Protocol', options);
stdout.write(types.replace(/\{\s+\[k: string\]: (\w+);\s+\}/g, 'Record<string, $1>'));
