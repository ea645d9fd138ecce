// The widget's module: one file that anywidget can load anywhere, and its style.
import { build } from 'esbuild';

const STATIC = '../src/ipyagent/ui/static';
const shared = { bundle: true, minify: true, legalComments: 'none', logLevel: 'info' };

await build({
  ...shared,
  entryPoints: ['src/widget.ts'],
  outfile: `${STATIC}/widget.js`,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8'
});
await build({ ...shared, entryPoints: ['style/base.css'], outfile: `${STATIC}/widget.css` });
