// The widget's modules: files that anywidget can load anywhere, and their style.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';

import { build } from 'esbuild';

const STATIC = '../src/ipyagent/ui/static';
const shared = { bundle: true, minify: true, legalComments: 'none', logLevel: 'info' };
const module = { ...shared, format: 'esm', target: 'es2022', charset: 'utf8' };

for (const name of ['widget', 'loader']) {
  await build({ ...module, entryPoints: [`src/${name}.ts`], outfile: `${STATIC}/${name}.js` });
}
await build({ ...shared, entryPoints: ['style/base.css'], outfile: `${STATIC}/widget.css` });

// The extension says which module it has.
const hash = createHash('sha256');
for (const name of ['widget.js', 'widget.css']) {
  hash.update(await readFile(`${STATIC}/${name}`));
}
await writeFile('lib/widgetHash.js', `export const WIDGET_HASH = '${hash.digest('hex')}';\n`);
