import { Sanitizer } from '@jupyterlab/apputils/lib/sanitizer';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { describe, expect, it, vi } from 'vitest';

import { RUN, TRANSCRIPT } from '../channel';
import type { Step } from '../protocol';
import { rendererFactory } from '../renderer';
import { host } from '../view/host';
import { CALL, HTML as SAVED_HTML, RUN as STORY, SAVED, withStep } from './story';

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
  const options = { mimeType: TRANSCRIPT, sanitizer } as IRenderMime.IRendererOptions;
  const renderer = rendererFactory.createRenderer(options);
  await renderer.renderModel({ data } as unknown as IRenderMime.IMimeModel);
  return renderer.node;
}

/** A transcript as a notebook keeps it, with the arguments of its only call in the run. */
function keep(step: Partial<Step>): Record<string, unknown> {
  const { arguments: given } = CALL.request;
  const at = { ...CALL.request, arguments: { at: ['given'] } };
  const transcript = withStep(step);
  const steps = transcript.steps.map(each => ({
    ...each,
    calls: each.calls.map(call => ({ ...call, request: at }))
  }));
  return { [TRANSCRIPT]: { ...transcript, steps }, [RUN]: { given } };
}

/** Draw a display with `HTML`, and a Markdown table. */
function drawn(sanitizer: IRenderMime.ISanitizer): Promise<HTMLElement> {
  const media = [{ type: 'display' as const, data: { 'text/html': HTML }, label: 'Output' }];
  const result = { output: '', error: '', tone: 'plain' as const, media };
  const text = '| a |\n|---|\n| cell |';
  return render(keep({ text, calls: [{ ...CALL, result }] }), sanitizer);
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
    const root = await render(keep({ text: '$x < y$ and\n\n```python\nx = "<b>"\n```\n' }));
    expect(root.querySelector('math')?.textContent).toBe('x<y');
    expect(root.querySelector('.ipyagent-listing-language')?.textContent).toBe('python');
    expect(root.querySelector('pre')?.textContent).toBe('x = "<b>"\n');
  });

  it('is drawn from what a notebook keeps', async () => {
    host.undo = () => undefined;
    const root = await render({ [TRANSCRIPT]: SAVED, [RUN]: STORY, 'text/html': SAVED_HTML });
    host.undo = null;
    expect(root.querySelector('[data-ipyagent=answer]')?.textContent).toContain('the North');
    expect(root.querySelectorAll('img[src^="data:image/png"]')).toHaveLength(1);
    const buttons = [...root.querySelectorAll<HTMLElement>('button')].map(b => b.dataset.ipyagent);
    expect(new Set(buttons)).toEqual(new Set(['copy', 'undo']));
  });

  it('of another version is drawn as its HTML, sanitized', async () => {
    const html = `${SAVED_HTML}<img src=x onerror="window.pwned = 1"><script>1</script>`;
    const root = await render({ [TRANSCRIPT]: { steps: 1 }, 'text/html': html });
    expect(root.textContent).toContain('the North');
    expect(root.querySelectorAll('script, [onerror]')).toHaveLength(0);
  });

  it('says that it cannot be drawn where there is no HTML either', async () => {
    const root = await render({ [TRANSCRIPT]: { steps: 1 } });
    expect(root.textContent).toContain('by another version of ipyagent');
  });
});
