/** Draws growing plain text by appending, without new layout. */
import { h } from './dom';

/** Characters in an element, so that the browser need not measure earlier text. */
const CHUNK = 2_000;

/** Growing text in chunks of about 2 kB, cut at line ends. */
export class StreamedText {
  readonly element: HTMLElement;
  text = '';

  private open: Text | null = null;

  constructor(className: string) {
    this.element = h('div', { class: className });
  }

  /** Show `text`: append the new part, or redraw if the beginning differs. */
  update(text: string): void {
    if (!text.startsWith(this.text)) {
      this.element.replaceChildren();
      this.open = null;
      this.text = '';
    }
    this.append(text.slice(this.text.length));
    this.text = text;
  }

  private append(added: string): void {
    for (const line of added.split(/(?<=\n)/)) {
      if (this.open === null || isFull(this.open.data)) {
        this.open = document.createTextNode('');
        this.element.append(h('div', {}, this.open));
      }
      this.open.appendData(line);
    }
  }
}

/** Return whether a chunk is full, at a line end. */
function isFull(chunk: string): boolean {
  return chunk.length >= CHUNK && chunk.endsWith('\n');
}
