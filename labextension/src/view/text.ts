/** Shows a text that the kernel has made of Markdown: blocks of HTML, and text that follows them. */
import { h } from './dom';
import { Before, keepHtml, sanitizeBlock } from './sanitize';

/** The element in which the text behind a block goes on. */
const LAST = ':is(p, li, h1, h2, h3, h4, h5, h6, td, pre > code)';

interface Block {
  readonly html: string;
  readonly nodes: readonly ChildNode[];
}

/** A text whose unchanged blocks stay as they are, with what is selected in them. */
export class TextView {
  readonly element = h('div', { class: 'ipyagent-markdown' });

  private blocks: Block[] = [];
  private rest = document.createTextNode('');

  constructor(private before: Before = keepHtml) {}

  /** Show blocks of HTML, and the plain text that follows them. */
  update(blocks: readonly string[], rest: string): void {
    this.element.hidden = blocks.length === 0 && rest === '';
    let same = 0;
    while (same < blocks.length && this.blocks[same]?.html === blocks[same]) {
      same += 1;
    }
    const gone = this.blocks.splice(same);
    if (gone.length > 0 || same < blocks.length) {
      gone.forEach(({ nodes }) => nodes.forEach(node => node.remove()));
      this.rest.remove();
      this.blocks.push(...blocks.slice(same).map(html => this.draw(html)));
    }
    this.goOn(rest);
  }

  private draw(html: string): Block {
    const fragment = sanitizeBlock(html, this.before);
    const nodes = [...fragment.childNodes];
    this.element.append(fragment);
    return { html, nodes };
  }

  private goOn(rest: string): void {
    this.rest.data = rest;
    if (rest !== '' && this.rest.parentNode === null) {
      const last = [...this.element.querySelectorAll(LAST)].at(-1);
      (last ?? this.element).append(this.rest);
    }
  }
}
