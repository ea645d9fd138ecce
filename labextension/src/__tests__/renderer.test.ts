import { Sanitizer } from '@jupyterlab/apputils/lib/sanitizer';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { describe, expect, it, vi } from 'vitest';

import { RUN } from '../channel';
import { rendererFactory } from '../renderer';
import { host } from '../view/host';
import { HTML as SAVED_HTML, RUN as STORY, savedOf, labWith } from './story';

// jsdom has no dragging, of which Lumino's widgets want to know at once.
vi.hoisted(() => {
  globalThis.DragEvent = MouseEvent as unknown as typeof DragEvent;
});

const HTML =
  '<style>p{}</style><p id="kernel" class="jp-Dialog">text</p><table><tr><td>cell</td></tr></table>';

/** Draw a bundle, after that sanitizer. */
async function render(
  data: Record<string, unknown>,
  sanitizer: IRenderMime.ISanitizer = new Sanitizer()
): Promise<HTMLElement> {
  const options = { mimeType: RUN, sanitizer } as IRenderMime.IRendererOptions;
  const renderer = rendererFactory.createRenderer(options);
  await renderer.renderModel({ data } as unknown as IRenderMime.IMimeModel);
  return renderer.node;
}

/** Draw an answer, with `HTML` as a display beside it. */
function drawn(text: string, sanitizer?: IRenderMime.ISanitizer): Promise<HTMLElement> {
  const [html, run] = savedOf(text);
  const display = `<div class="ia-markdown ia-display">${HTML}</div>`;
  const data = { 'text/html': html.replace(/<\/div>$/, `${display}</div>`), [RUN]: run };
  return render(data, sanitizer);
}

describe('the saved run in JupyterLab', () => {
  it('is sanitized by JupyterLab, and then by us', async () => {
    const theirs = new Sanitizer();
    // JupyterLab alone would let other people's classes through.
    expect(theirs.sanitize(HTML)).toContain('class="jp-Dialog"');
    const root = await drawn('| a |\n|---|\n| cell |', theirs);
    expect(root.querySelector('.ia-display')?.textContent).toContain('text');
    expect(root.querySelectorAll('table')).toHaveLength(2);
    expect(root.querySelectorAll('.ipyagent-table > table')).toHaveLength(1);
    expect(root.querySelectorAll('.jp-Dialog, [data-jupyter-id], [id], style')).toHaveLength(0);
  });

  it('has nothing that JupyterLab’s sanitizer was told to leave out', async () => {
    const theirs = new Sanitizer();
    const strict = (html: string) => theirs.sanitize(html, { allowedTags: ['p'] });
    const root = await drawn('| a |\n|---|\n| cell |', { sanitize: strict });
    expect(root.textContent).toContain('cell');
    expect(root.querySelector('table')).toBeNull();
  });

  it('draws formulas and code in colors although they pass JupyterLab’s sanitizer', async () => {
    const set = vi.fn();
    host.typeset = set;
    const root = await drawn(
      'So <code class="ia-formula mathjax_process">$x &lt; y$</code>.\n\n' +
        '<pre><code class="language-python"><b>import </b>x = <samp>"&lt;b>"</samp></code></pre>'
    );
    host.typeset = null;
    const formula = root.querySelector('.ia-formula');
    expect(set.mock.calls).toEqual([[formula]]);
    expect([formula?.textContent, formula?.classList.contains('mathjax_process')]).toEqual([
      '$x < y$',
      true
    ]);
    expect(root.querySelector('.ipyagent-listing-language')?.textContent).toBe('python');
    expect(root.querySelector('pre > code > b')?.textContent).toBe('import ');
    expect(root.querySelector('pre')?.textContent).toBe('import x = "<b>"');
  });

  it('is drawn from what a notebook keeps', async () => {
    host.lab = labWith({});
    const root = await render({ [RUN]: STORY, 'text/html': SAVED_HTML });
    host.lab = null;
    expect(root.querySelector('[data-ipyagent=answer]')?.textContent).toContain('the North');
    expect(root.querySelectorAll('img[src^="data:image/png"]')).toHaveLength(1);
    expect(root.querySelectorAll('.ia-chip').length).toBeGreaterThan(0);
    const buttons = [...root.querySelectorAll<HTMLElement>('button')].map(b => b.dataset.ipyagent);
    const offered = ['to-cell', 'copy', 'continue', 'keep-cells', 'undo', 'model'];
    expect(new Set(buttons)).toEqual(new Set(offered));
  });

  it('of an earlier version is drawn as its HTML, sanitized', async () => {
    const old = 'application/vnd.ipyagent.transcript+json';
    const html = '<p>So it is.</p><img src=x onerror="window.pwned = 1"><script>1</script>';
    const root = await render({ [RUN]: STORY, [old]: { steps: 1 }, 'text/html': html });
    expect(root.textContent).toContain('So it is.');
    expect(root.querySelectorAll('script, [onerror]')).toHaveLength(0);
  });

  it.each([null, [], { id: 1 }, { ...STORY, steps: [null] }])(
    'is drawn as its HTML where its JSON is damaged: %j',
    async run => {
      const root = await render({ [RUN]: run, 'text/html': SAVED_HTML });
      expect(root.textContent).toContain('the North');
    }
  );

  it('says that it cannot be drawn where there is no HTML', async () => {
    const root = await render({ [RUN]: STORY });
    expect(root.textContent).toContain('without its HTML');
  });
});
