/** Hostile strings without end: known ones put into each other and bent, the same for each seed. */
import { CANARY, HTML_VECTORS, MARKDOWN_VECTORS } from './vectors';

const MORE: readonly string[] = [
  `$\\href{javascript:pwned()}{x}$`,
  `$$\\includegraphics{${CANARY}/x.png}$$`,
  `\\(\\style{position:fixed;background:url(${CANARY})}{x}\\)`,
  `\\[\\class{ipyagent-error-card}{\\id{kernel}{x}}\\]`,
  `$\\text{<img src=x onerror=pwned()>}$`,
  `$\\def\\x{\\x\\x}\\x$`,
  `\`\`\`math\n\\url{${CANARY}}\n\`\`\``,
  `\`\`\`"><img src=x onerror=pwned()>\nx\n\`\`\``,
  `<pre><code class="language-math">\\href{javascript:pwned()}{x}</code></pre>`,
  `<pre><code class="language-python ipyagent-error-card">x</code></pre>`,
  `<math><semantics><annotation-xml encoding="text/html"><img src=x onerror=pwned()>`,
  `<math href="javascript:pwned()"><maction actiontype="statusline">x</maction></math>`,
  `<svg><style><img src=x onerror=pwned()></style><title><a href="javascript:pwned()">x</a>`,
  `<form><input name=attributes><input name=parentNode></form>`,
  `<img name=body><img id=cookie><a id=location href="javascript:pwned()">`,
  `<p style="position:fixed;inset:0;background:url(${CANARY})" class="jp-Dialog">x</p>`,
  `<style>.ipyagent-run{display:none}@import "${CANARY}"</style>`,
  `<div data-lm-suppress-shortcuts data-ipyagent="approve" tabindex=0 accesskey=a>x</div>`,
  `{{constructor.constructor('pwned()')()}}\${pwned()}<%= pwned() %>#{pwned()}`,
  `\u202e\u2066gpj.exe\u2069\u202c`,
  `a\u200b\u200d\ufeff\u{e0041}\u00adb`,
  `\u0000\u0008\u001b[31m\u009b0m\ud800`,
  `data:text/html;base64,PHNjcmlwdD5wd25lZCgpPC9zY3JpcHQ+`,
  `javascript:/*--></title></style></textarea></script><svg/onload='+/"/+/onmouseover=1/+/[*/[]/+pwned()//'>`,
  `__proto__`,
  `constructor`,
  `]]>--></script><!--`,
  `[a]: ${CANARY} "x" onmouseover="pwned()"\n\n[a] ![b][a]`
];

const ATOMS = [...HTML_VECTORS, ...MARKDOWN_VECTORS, ...MORE];

const WRAPS: readonly ((text: string, other: string) => string)[] = [
  text => `<div title="${text}">${text}</div>`,
  text => `<table><tr><td>${text}</table>`,
  text => `<svg><foreignObject>${text}</foreignObject></svg>`,
  text => `<math><mtext><table><mglyph><style><!--</style>${text}`,
  text => `<noscript><p title="</noscript>${text}">`,
  text => `<template>${text}</template>`,
  text => `<!--${text}-->`,
  text => `<![CDATA[${text}]]>`,
  text => `[${text}](${text})`,
  text => `![${text}](${text} "${text}")`,
  text => `> ${text.replaceAll('\n', '\n> ')}`,
  text => `- a\n\n  ${text}`,
  text => `| a |\n|---|\n| ${text} |`,
  text => `\`\`\`html\n${text}\n\`\`\``,
  text => `# ${text}`,
  text => `**${text}**`,
  text => `$\\text{${text}}$`,
  text => `$$\n${text}\n$$`,
  (text, other) => `${text}${other}`,
  (text, other) => `${text.slice(0, text.length / 2)}${other}${text.slice(text.length / 2)}`
];

const BENDS: readonly ((text: string, at: number) => string)[] = [
  text => text.toUpperCase(),
  (text, at) => `${text.slice(0, at)}\u0000${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}\n${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}\u200b${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}/*\u202e*/${text.slice(at)}`,
  (text, at) => `${text.slice(0, at)}&#${text.codePointAt(at) ?? 0};${text.slice(at + 1)}`,
  (text, at) => text.slice(0, at),
  (text, at) => text.slice(at),
  text => text.replaceAll('<', '&lt;').replaceAll('"', '&quot;'),
  text => text.replaceAll(' ', '\t'),
  text => text.repeat(2)
];

/** `count` strings. */
export function strings(count: number, seed: number): string[] {
  const random = randomFrom(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const one = <T>(list: readonly T[]): T => list[below(list.length)];
  return Array.from({ length: count }, () => {
    let text = one(ATOMS);
    for (let times = below(3); times > 0; times -= 1) {
      text = one(WRAPS)(text, one(ATOMS));
    }
    for (let times = below(3); times > 0; times -= 1) {
      text = one(BENDS)(text, below(text.length));
    }
    return text;
  });
}

/** Mulberry32. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}
