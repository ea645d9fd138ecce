/** Finds elements and attributes that could do harm in a drawn run. */

const ELEMENTS = new Set(
  `a article b blockquote br code data dd del details div dl dt em footer h1 h2 h3 h4 h5 h6 header hr i img ins li mark ol
   p pre s samp section small span strong sub summary sup table tbody td tfoot th thead tr u ul var`.split(
    /\s+/
  )
);
const CONTENT = 'align alt class colspan data-language dir href rel rowspan src start target'.split(
  ' '
);
const PIXELS = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/;
const DRAWING = /^data:image\/svg\+xml;base64,[A-Za-z0-9+/=]*$/;

/** Over a block of code: its language, and a button that copies it. */
const HEAD = new RegExp(
  '^<div class="ipyagent-listing-head"><span class="ipyagent-listing-language">[\\w+-]*</span>' +
    '<span data-lm-suppress-shortcuts="true" role="status"><button type="button" ' +
    'class="ipyagent-button ipyagent-button-copy" data-ipyagent="copy" ' +
    'aria-label="Copy this code" title="Copy this code">Copy</button></span></div>$'
);

/** Around a table, and around nothing else. */
const TABLE_BOX = '<div class="ipyagent-table" role="group" aria-label="Table" tabindex="0"></div>';

/** Everything in `root` that could run, fetch, submit, or pass for something else. */
export function harm(root: ParentNode, ours: string[] = [], controls: string[] = []): string[] {
  return [...root.querySelectorAll('*')]
    .filter(element => !controls.includes(element.localName))
    .flatMap(element => {
      if (element.closest('.ipyagent-listing-head') !== null) {
        return harmOfHead(element);
      }
      return isTableBox(element) ? [] : harmOfHtml(element, ours);
    });
}

function isTableBox(element: Element): boolean {
  const isAroundTable = [...element.children].every(each => each.localName === 'table');
  return isAroundTable && (element.cloneNode() as Element).outerHTML === TABLE_BOX;
}

function harmOfHtml(element: Element, ours: string[]): string[] {
  return [
    ...(ELEMENTS.has(element.localName) ? [] : [`<${element.localName}>`]),
    ...[...element.attributes]
      .filter(attribute => !isHarmless(element, attribute, ours))
      .map(({ name, value }) => `${element.localName}[${name}=${value}]`),
    ...(element.matches('a:not([rel="noopener noreferrer"])') ? ['a without rel'] : [])
  ];
}

function harmOfHead(element: Element): string[] {
  return element.className === 'ipyagent-listing-head' && !HEAD.test(element.outerHTML)
    ? [element.outerHTML]
    : [];
}

function isHarmless(element: Element, { name, value }: Attr, ours: string[]): boolean {
  switch (name) {
    case 'src':
      return PIXELS.test(value) || (DRAWING.test(value) && element.matches('.ia-media > p > img'));
    case 'id':
      return ours.includes('data-approval') && /^ipyagent-\d+$/.test(value);
    case 'href':
      return /^(https?:\/\/|mailto:)/.test(value);
    case 'class':
      return /^((ipyagent|ia)-[\w -]+)?$/.test(value);
    case 'tabindex':
      return ours.includes(name) || element.matches('.ipyagent-listing > pre');
    default:
      return CONTENT.includes(name) || ours.includes(name);
  }
}
