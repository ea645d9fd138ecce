/** Plain text that grows: appended, never laid out again. */
import { h } from './dom';

/** Characters after which a new element is begun, so that the browser need not measure the old. */
const CHUNK = 2_000;

/** Text in chunks of about 2 kB, cut at line ends. */
export class StreamedText {
  readonly element: HTMLElement;
  text = '';

  private open: Text | null = null;

  constructor(className: string) {
    this.element = h('div', { class: className });
  }

  /** Show `text`: what is new is appended; if the beginning differs, all is new. */
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

/** A newline that ends a chunk is the chunk's own end, so no line is lost or added. */
function isFull(chunk: string): boolean {
  return chunk.length >= CHUNK && chunk.endsWith('\n');
}
