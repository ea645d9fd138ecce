import { Sanitizer } from '@jupyterlab/apputils/lib/sanitizer';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { describe, expect, it, vi } from 'vitest';

import { MIME_TYPE } from '../mimetype';
import { rendererFactory } from '../renderer';
import { RUN, runWith, saying } from './story';

// jsdom has no dragging, of which Lumino's widgets want to know at once.
vi.hoisted(() => {
  globalThis.DragEvent = MouseEvent as unknown as typeof DragEvent;
});

const HTML =
  '<style>p{}</style><p id="kernel" class="jp-Dialog">text</p><table><tr><td>cell</td></tr></table>';

/** What is drawn of a display with `HTML`, and of a Markdown table, after that sanitizer. */
async function drawn(sanitizer: IRenderMime.ISanitizer): Promise<HTMLElement> {
  const options = { mimeType: MIME_TYPE, sanitizer } as IRenderMime.IRendererOptions;
  const renderer = rendererFactory.createRenderer(options);
  const [shown] = RUN.steps[1].executions;
  const result = { ...shown.result, images: [], displays: [{ data: { 'text/html': HTML } }] };
  const { run } = runWith({
    ...saying('| a |\n|---|\n| cell |'),
    executions: [{ ...shown, result: result as unknown as typeof shown.result }]
  });
  await renderer.renderModel({ data: { [MIME_TYPE]: run } } as unknown as IRenderMime.IMimeModel);
  return renderer.node;
}

describe('the saved run in JupyterLab', () => {
  it('is sanitized by JupyterLab, and then by us', async () => {
    const theirs = new Sanitizer();
    // JupyterLab alone would let other people's classes through.
    expect(theirs.sanitize(HTML)).toContain('class="jp-Dialog"');
    const root = await drawn(theirs);
    expect(root.querySelector('.ipyagent-display')?.textContent).toContain('text');
    expect(root.querySelectorAll('table')).toHaveLength(2);
    expect(root.querySelectorAll('.jp-Dialog, [data-jupyter-id], [id], style')).toHaveLength(0);
  });

  it('has nothing that JupyterLab’s sanitizer was told to leave out', async () => {
    const theirs = new Sanitizer();
    const strict = (html: string) => theirs.sanitize(html, { allowedTags: ['p'] });
    const root = await drawn({ sanitize: strict });
    expect(root.textContent).toContain('cell');
    expect(root.querySelector('table')).toBeNull();
  });

  it('draws formulas and code although they pass JupyterLab’s sanitizer', async () => {
    const options = { mimeType: MIME_TYPE, sanitizer: new Sanitizer() };
    const renderer = rendererFactory.createRenderer(options as IRenderMime.IRendererOptions);
    const { run } = runWith(saying('$x < y$ and\n\n```python\nx = "<b>"\n```\n'));
    await renderer.renderModel({ data: { [MIME_TYPE]: run } } as unknown as IRenderMime.IMimeModel);
    expect(renderer.node.querySelector('math')?.textContent).toBe('x<y');
    expect(renderer.node.querySelector('.ipyagent-listing-language')?.textContent).toBe('python');
    expect(renderer.node.querySelector('pre')?.textContent).toBe('x = "<b>"\n');
  });
});
