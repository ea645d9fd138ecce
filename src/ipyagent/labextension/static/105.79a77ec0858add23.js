"use strict";(self.rspackChunkipyagent=self.rspackChunkipyagent||[]).push([[105],{8475(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=a.n(r),p=a(9671),l=o()(i());l.i(p.A),l.push([e.id,`/*
 * Colours are JupyterLab's where there is JupyterLab, else mixed from the text colour that is
 * already there: so a run looks right on any ground, light or dark.
 */
:is(.ipyagent-run, .ipyagent-card) {
  --ipyagent-text: var(--jp-content-font-color1, currentcolor);
  --ipyagent-muted: color-mix(in srgb, var(--ipyagent-text) 72%, transparent);
  --ipyagent-line: var(--jp-border-color2, color-mix(in srgb, currentcolor 18%, transparent));
  --ipyagent-soft: color-mix(in srgb, currentcolor 5%, transparent);
  --ipyagent-accent: var(--jp-brand-color1, #2f7de1);
  --ipyagent-good: var(--jp-success-color1, #2e9e5b);
  --ipyagent-bad: var(--jp-error-color1, #d9463c);
  --ipyagent-warn: var(--jp-warn-color1, #c77700);
  --ipyagent-good-text: color-mix(in srgb, var(--ipyagent-good) 60%, var(--ipyagent-text));
  --ipyagent-bad-text: color-mix(in srgb, var(--ipyagent-bad) 60%, var(--ipyagent-text));
  --ipyagent-warn-text: color-mix(in srgb, var(--ipyagent-warn) 50%, var(--ipyagent-text));
  --ipyagent-accent-text: color-mix(in srgb, var(--ipyagent-accent) 65%, var(--ipyagent-text));
  --ipyagent-chosen: color-mix(
    in srgb,
    var(--jp-accept-color-normal, var(--ipyagent-accent)) 85%,
    #000
  );
  --ipyagent-mono: var(--jp-code-font-family, ui-monospace, menlo, consolas, monospace);
  --ipyagent-small: 0.86em;
  --ipyagent-code-keyword: var(--jp-mirror-editor-keyword-color, #8250df);
  --ipyagent-code-string: var(--jp-mirror-editor-string-color, #b35900);
  --ipyagent-code-number: var(--jp-mirror-editor-number-color, #1f7f4c);
  --ipyagent-code-comment: var(--jp-mirror-editor-comment-color, #6e8188);
  --ipyagent-code-name: var(--jp-mirror-editor-def-color, #2f7de1);

  box-sizing: border-box;
  max-width: 100%;
  color: var(--ipyagent-text);
}

.ipyagent-run {
  container-type: inline-size;
  margin: 2px 0;
  border: 1px solid var(--ipyagent-line);
  border-radius: 6px;
  overflow: hidden;
  font-family: var(--jp-content-font-family, system-ui, sans-serif);
  font-size: var(--jp-content-font-size1, 14px);
  line-height: 1.5;
}

:is(.ipyagent-run, .ipyagent-own) *,
.ipyagent-run *::before {
  box-sizing: border-box;
}

.ipyagent-run [hidden] {
  display: none !important;
}

.ipyagent-run p,
.ipyagent-run pre,
.ipyagent-run dl,
.ipyagent-run dd {
  margin: 0;
}

.ipyagent-run summary {
  cursor: pointer;
}

:is(.ipyagent-run, .ipyagent-card) :focus-visible {
  outline: 2px solid var(--ipyagent-accent);
  outline-offset: -2px;
}

/* Words of others, as they were written. */
:is(.ipyagent-concern, .ipyagent-touches, .ipyagent-covers, .ipyagent-question),
:is(.ipyagent-todo-text, .ipyagent-error-card, .ipyagent-user-words) {
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  unicode-bidi: isolate;
}

/* Said to those who listen. */
.ipyagent-unseen {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}

/* The colours of the states of a run, and of its parts */

[data-state] {
  --ipyagent-state: var(--ipyagent-muted);
  --ipyagent-state-text: var(--ipyagent-muted);
}

[data-state='running'] {
  --ipyagent-state: var(--ipyagent-accent);
  --ipyagent-state-text: var(--ipyagent-accent-text);
}

:is([data-state='done'], [data-state='success']:not(.ipyagent-dry), [data-state='completed']) {
  --ipyagent-state: var(--ipyagent-good);
  --ipyagent-state-text: var(--ipyagent-good-text);
}

[data-state='failed'] {
  --ipyagent-state: var(--ipyagent-bad);
  --ipyagent-state-text: var(--ipyagent-bad-text);
}

:is([data-state='waiting'], [data-state='partial'], [data-state='awaiting_approval']),
:is([data-state='unknown'], [data-state='denied']) {
  --ipyagent-state: var(--ipyagent-warn);
  --ipyagent-state-text: var(--ipyagent-warn-text);
}

/* The line on top */

.ipyagent-header {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 2px 12px;
  padding: 5px 12px;
  border-bottom: 1px solid var(--ipyagent-line);
  background: var(--ipyagent-soft);
  color: var(--ipyagent-muted);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--ipyagent-small);
  font-variant-numeric: tabular-nums;
}

.ipyagent-title {
  display: flex;
  flex: 0 1 auto;
  flex-wrap: wrap;
  gap: 0 8px;
  align-items: center;
  min-width: 0;
}

.ipyagent-title b {
  color: var(--ipyagent-text);
  font-weight: 600;
}

.ipyagent-model {
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
  unicode-bidi: isolate;
}

.ipyagent-run .ipyagent-button-model {
  padding: 0 4px;
  border-color: transparent;
  font-size: inherit;
}

.ipyagent-button-model::after {
  content: ' ▾';
}

.ipyagent-facts {
  display: flex;
  flex-wrap: wrap;
  gap: 0 12px;
  margin-inline-start: auto;
}

.ipyagent-chip {
  display: inline-flex;
  align-items: center;
  gap: 6px;
  color: var(--ipyagent-text);
}

.ipyagent-chip::before {
  content: '';
  width: 8px;
  height: 8px;
  border-radius: 50%;
  background: var(--ipyagent-state);
}

.ipyagent-live[data-state='running'] > .ipyagent-header .ipyagent-chip::before,
.ipyagent-live[data-state='waiting'] > .ipyagent-header .ipyagent-chip::before {
  animation: ipyagent-pulse 1.4s ease-in-out infinite;
}

.ipyagent-badge {
  padding: 0 7px;
  border: 1px solid var(--ipyagent-line);
  border-radius: 9px;
  color: var(--ipyagent-muted);
  font-size: 0.92em;
  white-space: nowrap;
}

.ipyagent-yolo {
  border-color: var(--ipyagent-warn);
  color: var(--ipyagent-warn-text);
}

/* Steps */

.ipyagent-content {
  padding: 6px 12px 8px;
}

.ipyagent-step {
  display: flow-root;
  content-visibility: auto;
  contain-intrinsic-size: auto 6em;
}

.ipyagent-part + .ipyagent-part {
  margin-top: 4px;
}

.ipyagent-note {
  padding: 1px 0;
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  unicode-bidi: plaintext;
}

.ipyagent-asking::after {
  content: '…';
  animation: ipyagent-pulse 1.4s ease-in-out infinite;
}

.ipyagent-thinking,
.ipyagent-context,
.ipyagent-for-model > summary,
.ipyagent-earlier > summary {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

.ipyagent-thinking-text > div {
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  unicode-bidi: plaintext;
}

.ipyagent-thinking-text {
  max-height: 24em;
  margin: 2px 0 6px 5px;
  padding-inline-start: 11px;
  border-inline-start: 2px solid var(--ipyagent-line);
  overflow: auto;
}

/* Text */

.ipyagent-markdown {
  padding: 2px 0;
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}

.ipyagent-markdown :is(p, ul, ol, pre, table, blockquote) {
  margin: 0;
}

/* Space comes before a block, never after: so one more at the end concerns no other. */
:is(.ipyagent-markdown, .ipyagent-markdown :is(blockquote, li)) > * + * {
  margin-top: 0.6em;
}

.ipyagent-markdown :is(p, li, th, td, h1, h2, h3, h4, h5, h6) {
  unicode-bidi: plaintext;
}

.ipyagent-markdown ul,
.ipyagent-markdown ol {
  padding-inline-start: 1.6em;
}

.ipyagent-markdown li + li {
  margin-top: 0.2em;
}

.ipyagent-markdown :is(h1, h2, h3, h4, h5, h6) {
  margin: 0;
  font-size: 1.05em;
  font-weight: 600;
  line-height: 1.3;
}

.ipyagent-markdown > * + :is(h1, h2, h3, h4, h5, h6) {
  margin-top: 0.9em;
}

.ipyagent-markdown h1 {
  font-size: 1.25em;
}

.ipyagent-markdown h2 {
  font-size: 1.15em;
}

.ipyagent-markdown blockquote {
  padding-inline-start: 10px;
  border-inline-start: 3px solid var(--ipyagent-line);
  color: var(--ipyagent-muted);
}

.ipyagent-markdown a {
  color: color-mix(
    in srgb,
    var(--jp-content-link-color, var(--ipyagent-accent)) 75%,
    var(--ipyagent-text)
  );
}

.ipyagent-link-host {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

.ipyagent-markdown code,
.ipyagent-typed {
  padding: 1px 4px;
  border-radius: 3px;
  background: var(--ipyagent-soft);
  color: inherit;
  font-family: var(--ipyagent-mono);
  font-size: 0.92em;
}

.ipyagent-markdown pre {
  padding: 7px 10px;
  border-radius: 4px;
  background: var(--ipyagent-soft);
  overflow: auto;
  color: inherit;
  font-size: inherit;
  line-height: 1.45;
}

.ipyagent-markdown pre code {
  padding: 0;
  background: none;
  white-space: pre;
}

.ipyagent-listing {
  border: 1px solid var(--ipyagent-line);
  border-radius: 4px;
  direction: ltr;
}

.ia-markdown > * + :is(.ipyagent-listing, .ipyagent-table) {
  margin-top: 0.6em;
}

.ipyagent-listing-head {
  display: flex;
  gap: 8px;
  align-items: center;
  justify-content: space-between;
  min-height: 1.9em;
  padding: 1px 4px 1px 10px;
  color: var(--ipyagent-muted);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--ipyagent-small);
}

.ipyagent-run .ipyagent-listing pre {
  margin: 0;
  border-radius: 0 0 3px 3px;
}

.ipyagent-listing-language {
  margin-inline-end: auto;
}

.ipyagent-listing-head .ipyagent-button {
  padding: 0 6px;
  border-color: transparent;
}

/* What can be done with a run that has ended: at the end of its last line, for who looks there. */
.ipyagent-own {
  display: flex;
  float: inline-end;
  gap: 2px;
  align-items: center;
  max-width: 100%;
  height: 24px;
}

.ipyagent-card:not(:hover, :focus-within) > .ipyagent-own {
  opacity: 0;
}

/* stylelint-disable-next-line selector-class-pattern -- JupyterLab's */
.jp-mod-active .ipyagent-card > .ipyagent-own {
  opacity: 1;
}

.ipyagent-card .ipyagent-own:has(ul) {
  display: block;
  float: none;
  height: auto;
  opacity: 1;
}

:is(.ipyagent-own, .ia-caption) .ipyagent-button {
  padding: 0 6px;
  border-color: transparent;
}

.ipyagent-own .ipyagent-say {
  padding: 0;
}

.ipyagent-own .ipyagent-reason {
  padding: 0 6px;
}

@media (hover: none) {
  .ipyagent-card > .ipyagent-own {
    opacity: 1 !important;
  }
}

/* There is nothing below a card that is elsewhere. */
:is(.ipyagent-to-cell, .ipyagent-follow-up) {
  display: none;
}

/* stylelint-disable-next-line selector-class-pattern -- JupyterLab's */
.jp-Notebook .jp-Cell .ipyagent-to-cell {
  display: inline;
}

/* stylelint-disable-next-line selector-class-pattern -- JupyterLab's */
.jp-Notebook .jp-Cell .ipyagent-follow-up:not(:empty) {
  display: block;
}

.ipyagent-follow-up input:not(:hover, :focus) {
  padding-inline: 0;
  border-color: transparent;
  background: transparent;
}

.ipyagent-button-request {
  padding: 0 6px;
  border-radius: 8px;
}

.ipyagent-table {
  overflow-x: auto;
}

.ipyagent-markdown .ipyagent-table > table {
  width: max-content;
  max-width: none;
}

.ipyagent-markdown table {
  max-width: 100%;
  border-collapse: collapse;
  font-size: 0.92em;
  font-variant-numeric: tabular-nums;
}

.ipyagent-markdown :is(th, td) {
  padding: 3px 10px;
  border: 0;
  border-bottom: 1px solid var(--ipyagent-line);
  text-align: start;
  vertical-align: top;
  min-width: 4em;
  max-width: 32em;
  overflow-wrap: normal;
}

/* As Jupyter draws tables: numbers are compared by their ends. */
.ipyagent-display :is(th, td) {
  max-width: none;
  text-align: end;
  white-space: nowrap;
}

.ipyagent-display :is(th, td)[align='left'] {
  text-align: start;
}

.ipyagent-markdown :is(th, td)[align='right'] {
  text-align: end;
}

.ipyagent-markdown :is(th, td)[align='center'] {
  text-align: center;
}

.ipyagent-markdown th {
  font-weight: 600;
}

.ipyagent-markdown tbody tr:hover {
  background: var(--ipyagent-soft);
}

.ipyagent-markdown img {
  max-width: 100%;
}

.ipyagent-markdown hr {
  height: 0;
  border: 0;
  border-top: 1px solid var(--ipyagent-line);
}

/* Tool cards */

.ipyagent-tools {
  display: flow-root;
}

.ipyagent-tool {
  margin: 2px 0;
  border-radius: 4px;
}

.ipyagent-line {
  display: flex;
  align-items: baseline;
  gap: 8px;
  padding: 1px 4px;
  border-radius: 4px;
  overflow: hidden;
  font-size: var(--ipyagent-small);
  list-style: none;
  white-space: nowrap;
}

.ipyagent-line::-webkit-details-marker {
  display: none;
}

.ipyagent-line:hover {
  background: var(--ipyagent-soft);
}

.ipyagent-glyph {
  flex: none;
  width: 1.1em;
  color: var(--ipyagent-state-text);
  font-weight: 600;
  text-align: center;
}

.ipyagent-live
  :is([data-state='running'], .ipyagent-tool[data-state='pending'])
  > *
  > *
  > .ipyagent-glyph {
  animation: ipyagent-pulse 1.4s ease-in-out infinite;
}

.ipyagent-tool-name {
  flex: none;
  font-family: var(--ipyagent-mono);
  font-weight: 600;
  unicode-bidi: isolate;
}

/* They share what the rest leaves: what shrinks by a hair would be cut by a letter. */
.ipyagent-summary,
.ipyagent-first-line,
.ipyagent-decision {
  flex: 1 1 0;
  min-width: 2em;
  max-width: max-content;
  overflow: hidden;
  text-overflow: ellipsis;
  unicode-bidi: isolate;
}

.ipyagent-summary,
.ipyagent-first-line {
  font-family: var(--ipyagent-mono);
}

/* In a narrow card the name of the model, and how a call ended, have lines of their own. */
@container (width < 40em) {
  .ipyagent-title {
    flex-basis: 100%;
  }

  .ipyagent-line {
    flex-wrap: wrap;
    row-gap: 0;
  }

  .ipyagent-line::before {
    content: '';
    flex: 0 0 100%;
    order: 1;
  }

  .ipyagent-line > :is(.ipyagent-first-line, .ipyagent-decision, .ipyagent-plan-note) {
    flex: 0 1 auto;
    order: 2;
    max-width: 100%;
    padding-inline-start: calc(1.1em + 8px);
  }
}

/* How a call ended is said to its end, on a line of its own. */
:is([data-state='cancelled'], [data-state='unknown']) > * > .ipyagent-line {
  flex-wrap: wrap;
}

:is([data-state='cancelled'], [data-state='unknown']) > * > .ipyagent-line > .ipyagent-first-line {
  flex: 1 0 100%;
  order: 1;
  max-width: none;
  padding-inline-start: calc(1.1em + 8px);
  white-space: normal;
  overflow-wrap: anywhere;
}

.ipyagent-summary:empty {
  display: none;
}

.ipyagent-summary,
.ipyagent-decision,
.ipyagent-duration {
  color: var(--ipyagent-muted);
}

.ipyagent-decision {
  font-style: italic;
}

.ipyagent-duration {
  flex: none;
  margin-inline-start: auto;
  font-variant-numeric: tabular-nums;
}

.ipyagent-line::after {
  content: '›';
  content: '›' / '';
  flex: none;
  width: 0.8em;
  color: var(--ipyagent-muted);
  text-align: center;
  transition: transform 0.12s;
}

[open] > .ipyagent-line::after {
  transform: rotate(90deg);
}

.ipyagent-body {
  position: relative;
  margin: 2px 0 6px 10px;
  padding-inline-start: 14px;
  border-inline-start: 2px solid var(--ipyagent-line);
  font-size: var(--ipyagent-small);
}

.ipyagent-call,
.ipyagent-result {
  display: grid;
  gap: 4px;
}

.ipyagent-call:not(:empty) + .ipyagent-result:not(:empty) {
  margin-top: 4px;
}

.ipyagent-caption,
.ipyagent-arguments dt {
  color: var(--ipyagent-muted);
  font-size: 0.92em;
}

.ipyagent-run .ipyagent-pre {
  max-height: 30em;
  margin: 0;
  padding: 6px 10px;
  border-radius: 4px;
  overflow: auto;
  background: var(--ipyagent-soft);
  color: inherit;
  font-family: var(--ipyagent-mono);
  font-size: inherit;
  line-height: 1.45;
  tab-size: 4;
  white-space: pre-wrap;

  /* JupyterLab would break words anywhere, even where there is a space. */
  word-break: normal;
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}

.ipyagent-pre code {
  padding: 0;
  background: none;
  color: inherit;
  font: inherit;
  white-space: inherit;
}

.ipyagent-run .ipyagent-pre.ipyagent-unfolded {
  max-height: none;
}

/* Stands where a box ends, to be met; takes no room. */
.ipyagent-end {
  display: inline-block;
  width: 1px;
  height: 1em;
  margin-inline-end: -1px;
  vertical-align: text-bottom;
}

.ipyagent-diff > .ipyagent-end {
  display: block;
  height: 1px;
  margin-block-start: -1px;
}

/* At the lower edge of the box before it: it covers nothing, and its room stays when it is not needed. */
.ipyagent-run .ipyagent-button-more,
.ipyagent-run .ipyagent-button-more:hover:enabled {
  display: block;
  width: 100%;
  padding: 2px 0;
  border: 0;
  border-top: 1px solid var(--ipyagent-line);
  border-radius: 0 0 4px 4px;
  background: color-mix(in srgb, var(--ipyagent-warn) 14%, var(--jp-layout-color1, canvas));
  color: var(--jp-content-font-color1, canvastext);
  text-align: center;
}

.ipyagent-run .ipyagent-button-more.ipyagent-passed {
  visibility: hidden;
}

.ipyagent-run .ipyagent-output {
  max-height: 22em;
}

.ipyagent-run .ipyagent-tail {
  margin-top: 4px;
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

/* All of it is above. */
[data-state='cancelled'] > [open] + div > .ipyagent-tail {
  display: none;
}

.ipyagent-exact {
  color: var(--ipyagent-muted);
}

/* JupyterLab has its own idea of lists like this one. */
.ipyagent-run .ipyagent-arguments {
  display: grid;
  grid-template-columns: minmax(3em, max-content) 1fr;
  gap: 3px 10px;
  align-items: baseline;
}

.ipyagent-run .ipyagent-arguments dt,
.ipyagent-run .ipyagent-arguments dd {
  float: none;
  width: auto;
  min-width: 0;
  font-weight: normal;
}

.ipyagent-arguments > div {
  display: contents;
}

.ipyagent-arguments .ipyagent-pre {
  padding: 1px 8px;
}

.ipyagent-diff-part {
  content-visibility: auto;
  contain-intrinsic-size: auto 60em;
}

/* All parts but the last have 500 lines, so a bar can say how many are below the fold. */
.ipyagent-diff-part:not(:last-of-type) {
  contain-intrinsic-size: auto 725em;
}

.ipyagent-diff-line {
  display: inline-block;
  width: 100%;
}

.ipyagent-diff-added {
  background: color-mix(in srgb, var(--ipyagent-good) 16%, transparent);
}

.ipyagent-diff-removed {
  background: color-mix(in srgb, var(--ipyagent-bad) 16%, transparent);
}

.ipyagent-diff-hunk,
.ipyagent-diff-file {
  color: var(--ipyagent-muted);
}

.ipyagent-hidden-character {
  padding: 0 2px;
  border-radius: 2px;
  background: color-mix(in srgb, var(--ipyagent-bad) 80%, #000);
  color: #fff;
  font-size: 0.85em;
  unicode-bidi: isolate;
}

.ipyagent-error {
  color: var(--ipyagent-bad-text);
  overflow-wrap: anywhere;
  white-space: pre-wrap;
}

.ipyagent-run .ipyagent-output.ipyagent-error {
  border-inline-start: 2px solid var(--ipyagent-bad);
  color: inherit;
}

/* A stop by the user is not a failure. */
[data-state='cancelled'] > * > .ipyagent-body .ipyagent-error {
  border: 0;
  color: inherit;
}

/* The question */

.ipyagent-effects {
  font-size: var(--ipyagent-small);
  overflow-wrap: anywhere;
}

.ipyagent-tool > div > .ipyagent-effects,
[data-ipyagent='plan-step'] .ipyagent-effects {
  padding: 2px 10px 6px;
}

.ipyagent-effects-title {
  color: var(--ipyagent-muted);
}

.ipyagent-run .ipyagent-effects-list {
  margin: 0;
  padding: 0;
  list-style: none;
}

.ipyagent-effects-change {
  color: var(--ipyagent-warn-text);
}

[data-change='created'] .ipyagent-effects-change {
  color: var(--ipyagent-good-text);
}

[data-change='deleted'] .ipyagent-effects-change {
  color: var(--ipyagent-bad-text);
}

.ipyagent-run .ipyagent-effects .ipyagent-diff {
  max-height: 18em;
  margin: 2px 0 4px;
}

.ipyagent-tool[data-state='awaiting_approval'] {
  margin: 6px 0;
  border: 1px solid var(--ipyagent-line);
}

:is(.ipyagent-live, .ipyagent-panel) .ipyagent-tool[data-state='awaiting_approval'] {
  border-color: var(--ipyagent-warn);
}

.ipyagent-tool[data-state='awaiting_approval'] .ipyagent-line {
  padding: 4px 8px;
}

/* All of it is below. */
.ipyagent-tool[data-state='awaiting_approval'] > [open] .ipyagent-summary {
  display: none;
}

.ipyagent-tool[data-state='awaiting_approval'] .ipyagent-body {
  margin: 0;
  padding: 0 10px 4px;
  border: 0;
}

.ipyagent-approval {
  position: relative;
  display: flex;
  flex-wrap: wrap;
  gap: 6px;
  align-items: center;
  padding: 2px 10px 8px;
}

.ipyagent-button,
.ipyagent-reason {
  padding: 3px 11px;
  border: 1px solid var(--ipyagent-line);
  border-radius: 4px;
  background: transparent;
  color: inherit;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--ipyagent-small);
  line-height: 1.4;
}

.ipyagent-facts > *,
.ipyagent-button:not(.ipyagent-button-choice) {
  white-space: nowrap;
}

.ipyagent-button {
  cursor: pointer;
}

.ipyagent-button:hover:enabled {
  border-color: currentcolor;
  background: var(--ipyagent-soft);
}

.ipyagent-button:disabled,
.ipyagent-button[aria-disabled='true'],
.ipyagent-reason:disabled {
  opacity: 0.5;
  cursor: default;
}

.ipyagent-button-approve,
.ipyagent-button-send,
.ipyagent-button-save,
.ipyagent-button-send:hover:enabled,
.ipyagent-button-save:hover:enabled,
.ipyagent-button-approve:hover:enabled {
  border-color: transparent;
  background: var(--ipyagent-chosen);
  color: #fff;
}

:is(.ipyagent-keep, .ipyagent-editor-buttons, .ipyagent-elsewhere) .ipyagent-button,
.ipyagent-button-stop,
.ipyagent-button-take-back {
  padding: 0 8px;
}

.ipyagent-reason {
  flex: 1 1 12em;
  min-width: 8em;
  max-width: 28em;
}

.ipyagent-late {
  padding-inline: 10px;
}

.ipyagent-sent {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

.ipyagent-concern {
  padding: 2px 10px 4px;
  color: var(--ipyagent-text);
  font-size: var(--ipyagent-small);
}

/* Both are part of what is approved, so neither is fainter than the call. */
.ipyagent-touches,
.ipyagent-covers {
  color: var(--ipyagent-text);
  font-size: var(--ipyagent-small);
}

.ipyagent-touches {
  padding: 1px 0;
}

/* Below the buttons. */
.ipyagent-covers {
  flex-basis: 100%;
}

.ipyagent-body .ipyagent-concern {
  padding: 0;
  color: var(--ipyagent-muted);
}

.ipyagent-question {
  padding: 2px 0;
  color: var(--ipyagent-text);
  font-size: var(--jp-content-font-size1, 14px);
}

.ipyagent-run .ipyagent-choices {
  margin: 0;
  padding-inline-start: 1.8em;
  color: var(--ipyagent-muted);
  overflow-wrap: anywhere;
}

.ipyagent-picks {
  display: flex;
  flex: 1 0 100%;
  flex-wrap: wrap;
  gap: 6px;
}

.ipyagent-button-choice {
  max-width: 100%;
  border-color: var(--ipyagent-accent);
  overflow-wrap: anywhere;
  text-align: start;
  unicode-bidi: isolate;
}

/* The plan */

.ipyagent-plan {
  margin: 2px 0 8px;
}

.ipyagent-goal {
  font-weight: 600;
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}

.ipyagent-plan-title code {
  background: none;
  color: inherit;
  font-family: var(--ipyagent-mono);
}

.ipyagent-run .ipyagent-plan-steps {
  margin: 4px 0 6px;
  padding: 4px;
  border: 1px solid var(--ipyagent-line);
  border-radius: 4px;
  list-style: none;
}

.ipyagent-plan:has(.ipyagent-editor) .ipyagent-plan-steps {
  display: none;
}

.ipyagent-plan-steps[data-state='waiting'] {
  border-color: var(--ipyagent-warn);
}

.ipyagent-number {
  flex: none;
  min-width: 1.4em;
  color: var(--ipyagent-muted);
  font-variant-numeric: tabular-nums;
  text-align: end;
}

.ipyagent-plan-note {
  flex: 0 1 auto;
  min-width: 3em;
  overflow: hidden;
  color: var(--ipyagent-muted);
  text-overflow: ellipsis;
  unicode-bidi: isolate;
}

/* All of it is below. */
.ipyagent-plan-steps [open] > .ipyagent-line > .ipyagent-summary {
  display: none;
}

/* They stand nowhere else. */
[open] > .ipyagent-line > :is(.ipyagent-decision, .ipyagent-plan-note) {
  overflow: visible;
  overflow-wrap: anywhere;
  white-space: pre-line;
}

.ipyagent-plan-steps .ipyagent-line::after {
  margin-inline-start: auto;
}

.ipyagent-plan-steps .ipyagent-body,
.ipyagent-plan-steps .ipyagent-effects {
  margin-inline-start: 34px;
}

:is(.ipyagent-plan, .ipyagent-editor) .ipyagent-approval {
  padding-inline: 0;
}

.ipyagent-tool .ipyagent-editor {
  padding-inline: 10px;
}

.ipyagent-editor-step {
  margin: 4px 0 8px;
}

.ipyagent-editor-head {
  display: flex;
  gap: 8px;
  align-items: center;
  margin-bottom: 4px;
  font-size: var(--ipyagent-small);
}

.ipyagent-editor-buttons {
  display: flex;
  gap: 4px;
  margin-inline-start: auto;
}

.ipyagent-run textarea.ipyagent-pre {
  display: block;
  width: 100%;
  border: 1px solid var(--ipyagent-line);
  font-size: var(--ipyagent-small);
  resize: vertical;
}

.ipyagent-run textarea[aria-invalid='true'] {
  border-color: var(--ipyagent-bad);
}

.ipyagent-editor-step .ipyagent-error {
  font-size: var(--ipyagent-small);
}

/* The checklist */

.ipyagent-run .ipyagent-todos {
  margin: 6px 0;
  padding: 0;
  list-style: none;
}

.ipyagent-todos li {
  display: flex;
  gap: 8px;
  align-items: baseline;
}

.ipyagent-todo-text {
  min-width: 0;
}

.ipyagent-todos [data-state='in_progress'] > * {
  color: var(--ipyagent-accent-text);
}

.ipyagent-todos [data-state='completed'] > .ipyagent-todo-text {
  color: var(--ipyagent-muted);
}

/* Figures and tables */

.ipyagent-media {
  display: grid;
  gap: 6px;
  justify-items: start;
}

.ipyagent-media:not(:empty) {
  margin: 4px 0 6px 26px;
}

.ipyagent-figure {
  max-width: 100%;
  max-height: 480px;
  border-radius: 4px;
  background: #fff;
}

.ipyagent-display {
  max-width: 100%;
  max-height: 27em;
  padding: 0;
  overflow: auto;
  font-size: var(--ipyagent-small);
}

.ipyagent-run .ipyagent-display table {
  margin: 0;
  font-size: inherit;
}

.ipyagent-run .ipyagent-display table + p {
  padding-top: 3px;
  color: var(--ipyagent-muted);
}

.ipyagent-answer {
  margin-top: 6px;
}

/* A number of the answer says on hover and focus where it comes from. */
.ipyagent-run .ia-traced {
  border-radius: 2px;
  text-decoration: none;
}

.ipyagent-run .ia-traced:is(:hover, :focus-visible) {
  background: var(--ipyagent-soft);
}

.ipyagent-run .ia-traced:focus-visible::after {
  content: ' (' attr(title) ')';
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
  font-weight: 400;
}

.ipyagent-run .ia-not-found {
  text-decoration: underline dotted var(--ipyagent-warn);
  text-underline-offset: 3px;
}

/* The end */

.ipyagent-steps:not(:empty) + div:not(:empty) {
  margin-top: 4px;
}

.ipyagent-error-card {
  margin: 2px 0;
  padding: 7px 12px;
  border-inline-start: 3px solid var(--ipyagent-bad);
  border-radius: 4px;
  background: color-mix(in srgb, var(--ipyagent-bad) 8%, transparent);
}

.ipyagent-error-title {
  font-weight: 600;
}

.ipyagent-keep {
  position: absolute;
  inset-block-start: 0;
  inset-inline-end: 0;
}

.ipyagent-undo .ipyagent-button {
  margin-inline-end: 6px;
}

.ipyagent-undo:has(ul) {
  display: block;
}

.ipyagent-undo ul {
  margin: 0 0 4px;
  padding-left: 1.2em;
  overflow-wrap: anywhere;
}

.ipyagent-footer:not(:empty) {
  margin-top: 4px;
  color: var(--ipyagent-muted);
  font-size: 0.79em;
  font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere;
}

/* Outside of JupyterLab what is muted twice is too faint. */
.ipyagent-footer .ipyagent-context {
  color: inherit;
  font-size: inherit;
}

.ipyagent-trace {
  font-family: var(--ipyagent-mono);
  user-select: all;
}

.ipyagent-seconds {
  font-variant-numeric: tabular-nums;
}

/* What the user says while a run is on */

.ipyagent-user-text {
  display: flex;
  gap: 8px;
  align-items: baseline;
  justify-content: space-between;
  margin: 4px 0;
  padding: 3px 10px;
  border-inline-start: 3px solid var(--ipyagent-accent);
  border-radius: 4px;
  background: var(--ipyagent-soft);
  overflow-wrap: anywhere;
}

.ipyagent-user-text b {
  color: var(--ipyagent-accent-text);
  font-weight: 600;
}

.ipyagent-say {
  padding: 2px 12px 8px;
}

.ipyagent-say .ipyagent-user-text {
  font-size: var(--ipyagent-small);
}

.ipyagent-say > .ipyagent-reason {
  width: 100%;
  max-width: none;
}

/* Code */

.ipyagent-code-keyword,
.ipyagent-code-literal,
.ipyagent-code-meta {
  color: color-mix(in srgb, var(--ipyagent-code-keyword) 75%, var(--ipyagent-text));
}

.ipyagent-code-string,
.ipyagent-code-regexp {
  color: color-mix(in srgb, var(--ipyagent-code-string) 75%, var(--ipyagent-text));
}

.ipyagent-code-number {
  color: color-mix(in srgb, var(--ipyagent-code-number) 75%, var(--ipyagent-text));
}

.ipyagent-code-comment {
  color: color-mix(in srgb, var(--ipyagent-code-comment) 75%, var(--ipyagent-text));
  font-style: italic;
}

.ipyagent-code-title,
.ipyagent-code-attr,
.ipyagent-code-built_in {
  color: color-mix(in srgb, var(--ipyagent-code-name) 75%, var(--ipyagent-text));
}

.ipyagent-code-addition {
  color: var(--ipyagent-good-text);
}

.ipyagent-code-deletion {
  color: var(--ipyagent-bad-text);
}

@media (prefers-color-scheme: dark) {
  .ipyagent-run {
    --ipyagent-code-keyword: var(--jp-mirror-editor-keyword-color, #c792ea);
    --ipyagent-code-string: var(--jp-mirror-editor-string-color, #e0a872);
    --ipyagent-code-number: var(--jp-mirror-editor-number-color, #7fcf9f);
    --ipyagent-code-comment: var(--jp-mirror-editor-comment-color, #8a9aa3);
    --ipyagent-code-name: var(--jp-mirror-editor-def-color, #82b1ff);
  }
}

@keyframes ipyagent-pulse {
  50% {
    opacity: 0.35;
  }
}

@media (prefers-reduced-motion: reduce) {
  .ipyagent-run *,
  .ipyagent-run *::before,
  .ipyagent-run *::after {
    animation: none !important;
    transition: none !important;
  }
}

/* With the user's own colours, lines show what otherwise only a colour shows. */
@media (forced-colors: active) {
  .ipyagent-chip::before,
  .ipyagent-hidden-character,
  .ipyagent-button:is(.ipyagent-button-approve, .ipyagent-button-send, .ipyagent-button-save) {
    border: 1px solid currentcolor;
  }

  [data-state='running'] > .ipyagent-header .ipyagent-chip::before {
    background: Highlight;
  }

  .ipyagent-diff-added,
  .ipyagent-diff-removed {
    font-weight: bold;
  }
}
`,""]),a.d(t,{},{A:l})},9033(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=(a.n(r))()(i());o.push([e.id,`/* A cell that asks the agent: prose behind an accent, below the line that says so. */

/* stylelint-disable selector-class-pattern -- the editors are JupyterLab's and CodeMirror's */

.ipyagent-cell .cm-editor {
  box-shadow: inset 3px 0 color-mix(in srgb, var(--jp-brand-color1, #2f7de1) 60%, transparent);
}

.ipyagent-cell .cm-content > .cm-line:first-child,
.ipyagent-cell .cm-content > .cm-line:first-child span {
  color: var(--jp-content-font-color2, inherit);
  font-style: normal;
  font-weight: normal;
  text-decoration: none;
}

/* A stop by the user is not a failure. */

.jp-OutputArea-child:has([data-ipyagent='run'][data-state='cancelled'])
  + .jp-OutputArea-child
  [data-mime-type$='stderr'] {
  background: none;
}

/* What is offered there: the name, and what it is on the same line. */

.ipyagent-completion > :first-child {
  margin: 4px 0 4px 6px;
}

.ipyagent-completion > :last-child {
  padding-left: 16px;
  white-space: nowrap;
}

.ipyagent-completion.jp-mod-active > :last-child {
  color: inherit;
  opacity: 0.85;
}
`,""]),a.d(t,{},{A:o})},2926(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=(a.n(r))()(i());o.push([e.id,`/* What stands below a cell that failed */

.ipyagent-error-actions {
  display: flex;
  gap: 6px;
  margin-inline-start: calc(
    var(--jp-cell-prompt-width, 64px) + var(--jp-cell-collapser-width, 8px)
  );
  padding: 5px 0 3px var(--jp-code-padding, 5px);
}

.ipyagent-action {
  display: inline-flex;
  align-items: center;
  gap: 5px;
  padding: 2px 9px;
  border: 1px solid var(--jp-border-color2, color-mix(in srgb, currentcolor 18%, transparent));
  border-radius: 4px;
  background: var(--jp-layout-color1, transparent);
  color: var(--jp-ui-font-color1, inherit);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px);
  line-height: 1.5;
  cursor: pointer;
}

.ipyagent-action:hover {
  border-color: var(--jp-border-color1, currentcolor);
  background: var(--jp-layout-color2, color-mix(in srgb, currentcolor 5%, transparent));
}

.ipyagent-action:focus-visible {
  outline: 2px solid var(--jp-brand-color1, #2f7de1);
  outline-offset: 1px;
}

.ipyagent-action-icon {
  display: inline-flex;
}

.ipyagent-action-icon svg {
  width: 14px;
  height: 14px;
}
`,""]),a.d(t,{},{A:o})},9671(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=(a.n(r))()(i());o.push([e.id,`/* Formulas: MathML, in the fonts that are there. Nothing is drawn outside its own box. */

.ipyagent-maths {
  display: inline-block;
  max-width: 100%;
  overflow: clip;
  overflow-clip-margin: 0.2em;
  vertical-align: baseline;
}

.ipyagent-maths-display {
  display: block;
  max-height: 40em;
  padding: 0.2em 0;
  overflow: auto;
  text-align: center;
}

.ipyagent-maths math {
  direction: ltr;
  font-family:
    'Latin Modern Math', 'STIX Two Math', 'Cambria Math', 'Libertinus Math', 'DejaVu Math TeX Gyre',
    'Noto Sans Math', math;
  font-size: 1.08em;
  font-style: normal;
  font-weight: normal;
  letter-spacing: normal;
  line-height: normal;
  text-indent: 0;
  white-space: nowrap;
}

.ipyagent-maths-display > math {
  display: inline math;
}

.ipyagent-maths math * {
  border-color: currentcolor;
}

.ipyagent-maths .ipyagent-tml-right {
  text-align: right;
}

.ipyagent-maths .ipyagent-tml-left {
  text-align: left;
}

.ipyagent-maths mtable.ipyagent-tml-jot > mtr > mtd {
  padding-block: 0.7ex;
}

.ipyagent-maths mtable.ipyagent-tml-small mtd {
  padding-block: 0.35ex;
}

.ipyagent-maths menclose {
  display: inline-block;
  position: relative;
  padding: 0.5ex 0;
}

.ipyagent-maths .ipyagent-tml-overline {
  padding: 0.1em 0 0;
  border-top: 0.065em solid;
}

.ipyagent-maths .ipyagent-tml-underline {
  padding: 0 0 0.1em;
  border-bottom: 0.065em solid;
}

.ipyagent-maths .ipyagent-tml-fbox {
  padding: 3pt;
  border: 1px solid;
}

.ipyagent-maths :is(.ipyagent-tml-cancel, .ipyagent-tml-xcancel) {
  display: inline-block;
  position: absolute;
  inset: 0;
  background-color: currentcolor;
}

.ipyagent-maths .ipyagent-upstrike {
  clip-path: polygon(0.05em 100%, 0 calc(100% - 0.05em), calc(100% - 0.05em) 0, 100% 0.05em);
}

.ipyagent-maths .ipyagent-downstrike {
  clip-path: polygon(0 0.05em, 0.05em 0, 100% calc(100% - 0.05em), calc(100% - 0.05em) 100%);
}

.ipyagent-maths .ipyagent-sout {
  clip-path: polygon(0 calc(55% + 0.03em), 0 calc(55% - 0.03em), 100% calc(55% - 0.03em), 100% 58%);
}
`,""]),a.d(t,{},{A:o})},5724(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=(a.n(r))()(i());o.push([e.id,`/* The side panel: the cards' colours, in JupyterLab's own type and measures. */
#ipyagent-panel {
  overflow-y: auto;
  min-width: 220px;
  background: var(--jp-layout-color1);
}

#ipyagent-panel:focus {
  outline: none;
}

/* The widget brings the cards' style once more, later than this. */
.ipyagent-run.ipyagent-panel {
  margin: 0;
  border: 0;
  border-radius: 0;
  overflow: visible;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
}

.ipyagent-panel-head,
.ipyagent-panel-empty,
.ipyagent-panel-foot {
  padding: 8px 12px;
}

.ipyagent-panel-head h2 {
  margin: 0;
  overflow: hidden;
  font-size: var(--jp-ui-font-size2);
  font-weight: 600;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.ipyagent-panel-empty {
  display: flex;
  flex-direction: column;
  align-items: flex-start;
  gap: 8px;
  padding-block: 16px;
  border-top: 1px solid var(--ipyagent-line);
}

.ipyagent-panel-empty ul {
  display: grid;
  gap: 6px;
  margin: 0;
  padding: 0;
  list-style: none;
}

.ipyagent-panel .ipyagent-panel-empty button code {
  font-size: inherit;
}

.ipyagent-panel-empty code,
.ipyagent-panel-variable code {
  padding: 0 3px;
  border-radius: 2px;
  background: var(--ipyagent-soft);
  color: inherit;
  font-family: var(--ipyagent-mono);
  font-size: var(--jp-code-font-size);
}

.ipyagent-panel-section {
  border-top: 1px solid var(--ipyagent-line);
}

.ipyagent-panel-section > details > summary {
  display: flex;
  align-items: center;
  gap: 8px;
  padding: 6px 12px;
  list-style: none;
}

.ipyagent-panel-section > details > summary::before {
  content: '';
  flex: none;
  width: 5px;
  height: 5px;
  border-right: 1.5px solid currentcolor;
  border-bottom: 1.5px solid currentcolor;
  transform: rotate(-45deg);
}

.ipyagent-panel-section > details[open] > summary::before {
  transform: rotate(45deg) translate(-1px, -1px);
}

.ipyagent-panel-section h3 {
  margin: 0;
  font-size: var(--jp-ui-font-size0);
  font-weight: 600;
  letter-spacing: 0.06em;
  text-transform: uppercase;
}

.ipyagent-panel-badge {
  margin-inline-start: auto;
  color: var(--ipyagent-muted);
  font-size: var(--jp-ui-font-size0);
  font-variant-numeric: tabular-nums;
}

[data-ipyagent='panel-approvals'] .ipyagent-panel-badge:not(:empty) {
  min-width: 18px;
  padding: 0 5px;
  border-radius: 9px;
  background: var(--ipyagent-accent);
  color: var(--jp-ui-inverse-font-color1, #fff);
  line-height: 18px;
  text-align: center;
}

.ipyagent-panel-body {
  padding: 0 12px 10px;
}

.ipyagent-panel-list {
  margin: 0 -12px;
  padding: 0;
  list-style: none;
}

/* What waits */

.ipyagent-panel-card {
  margin: 2px 0 10px;
  border: 1px solid var(--ipyagent-line);
  border-inline-start: 3px solid var(--ipyagent-warn);
  border-radius: 4px;
  overflow: hidden;
}

.ipyagent-panel-about {
  display: flex;
  align-items: center;
  gap: 8px;
  padding: 4px 8px;
  border-bottom: 1px solid var(--ipyagent-line);
  background: var(--ipyagent-soft);
}

.ipyagent-panel-prompt {
  flex: 1;
  min-width: 0;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
  unicode-bidi: isolate;
}

.ipyagent-panel .ipyagent-panel-card .ipyagent-tool {
  margin: 0;
  border: 0;
  box-shadow: none;
}

.ipyagent-panel .ipyagent-panel-card .ipyagent-plan {
  margin: 0;
  padding: 6px 10px;
  border: 0;
}

.ipyagent-panel .ipyagent-plan-title code {
  font-size: inherit;
}

/* Narrow: what stands side by side in a card stands one below the other here. */
.ipyagent-panel .ipyagent-plan-steps .ipyagent-body {
  margin-inline-start: 10px;
}

.ipyagent-run.ipyagent-panel .ipyagent-arguments,
.ipyagent-run.ipyagent-panel .ipyagent-arguments > div {
  display: block;
}

.ipyagent-panel .ipyagent-arguments > div + div {
  margin-top: 3px;
}

/* Lists */

.ipyagent-panel-row {
  display: flex;
  align-items: center;
  gap: 8px;
  padding: 0 12px;
}

.ipyagent-panel-row:hover {
  background: var(--jp-layout-color2);
}

.ipyagent-panel-row .ipyagent-button-jump {
  display: flex;
  flex: 1;
  gap: 8px;
  min-width: 0;
  padding: 5px 0;
  border: 0;
  background: none;
  color: inherit;
  text-align: start;
}

.ipyagent-panel-row .ipyagent-button-jump:disabled {
  cursor: default;
  opacity: 1;
}

.ipyagent-panel-words {
  display: flex;
  flex: 1;
  flex-direction: column;
  min-width: 0;
}

.ipyagent-panel-words .ipyagent-note {
  overflow-wrap: anywhere;
}

[data-ipyagent='panel-session'] {
  padding-block: 4px;
}

[data-ipyagent='panel-session'][data-state='current'] .ipyagent-panel-prompt {
  font-weight: 600;
}

.ipyagent-panel-plan {
  margin: 0;
  padding: 0;
  list-style: none;
}

.ipyagent-panel-plan li {
  display: flex;
  gap: 8px;
  padding: 2px 0;
}

.ipyagent-panel-step {
  min-width: 0;
  overflow-wrap: anywhere;
}

/* One that is very long leaves room for what is below it. */
.ipyagent-panel-step,
.ipyagent-panel .ipyagent-todo-text,
.ipyagent-panel-variable code {
  max-height: 6lh;
  overflow-y: auto;
}

.ipyagent-panel-variable {
  display: flex;
  align-items: baseline;
  gap: 8px;
  padding: 2px 12px;
}

.ipyagent-panel-variable code {
  overflow-wrap: anywhere;
}

.ipyagent-panel-type {
  flex: 1;
  min-width: 0;
  overflow: hidden;
  color: var(--ipyagent-muted);
  text-overflow: ellipsis;
  white-space: nowrap;
}

.ipyagent-panel-foot {
  display: flex;
  flex-wrap: wrap;
  gap: 2px 12px;
  border-top: 1px solid var(--ipyagent-line);
  color: var(--ipyagent-muted);
  font-variant-numeric: tabular-nums;
}

/* The status bar */

.ipyagent-status {
  height: 100%;
  padding: 0 6px;
  border: 0;
  background: none;
  color: inherit;
  font: inherit;
  font-variant-numeric: tabular-nums;
  cursor: pointer;
  white-space: nowrap;
}

.ipyagent-status:hover {
  background: var(--jp-layout-color3);
}

.ipyagent-status:focus-visible {
  outline: 1px solid var(--jp-brand-color1);
  outline-offset: -1px;
}

/* JupyterLab's orange is light in both themes, and black can be read on it. */
.ipyagent-status.ipyagent-waiting,
.ipyagent-tab[data-waiting]:not([data-waiting=''])::before {
  background: var(--jp-warn-color1);
  color: #000;
}

.ipyagent-status.ipyagent-waiting:hover {
  background: var(--jp-warn-color0);
}

.ipyagent-tab {
  position: relative;
}

.ipyagent-tab[data-waiting]:not([data-waiting=''])::before {
  content: attr(data-waiting);
  position: absolute;
  inset-block-start: 2px;
  inset-inline-end: 2px;
  min-width: 16px;
  padding: 0 4px;
  border-radius: 8px;
  font-size: 11px;
  line-height: 16px;
  text-align: center;
}
`,""]),a.d(t,{},{A:o})},2679(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=(a.n(r))()(i());o.push([e.id,`/* A change of the notebook that waits for a decision, where it would be made. */

.ipyagent-run.ipyagent-proposal {
  margin: 4px 0 8px calc(var(--jp-cell-prompt-width, 64px) + var(--jp-cell-collapser-width, 8px));
  border-color: var(--ipyagent-accent);

  /* Where outputs are beside the cells: below both. */
  grid-column: 1 / -1;
}

.ipyagent-proposal > .ipyagent-proposal-title {
  padding: 5px 10px;
  color: var(--ipyagent-muted);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--ipyagent-small);
}

.ipyagent-proposal-content {
  margin: 0 10px 8px;
}

.ipyagent-run .ipyagent-proposal-content > .ipyagent-pre {
  font-size: var(--jp-code-font-size, 13px);
}

.ipyagent-proposal[data-tool='insert_cell'] {
  border-style: dashed;
}

.ipyagent-diff-word {
  border-radius: 2px;
  background: transparent;
  color: inherit;
  font-weight: 600;
}

.ipyagent-diff-added .ipyagent-diff-word {
  background: color-mix(in srgb, var(--ipyagent-good) 32%, transparent);
}

.ipyagent-diff-removed .ipyagent-diff-word {
  background: color-mix(in srgb, var(--ipyagent-bad) 32%, transparent);
}

/* A question that has its buttons elsewhere; a screen reader reads it once, at its card. */

.ipyagent-approval > .ipyagent-elsewhere {
  display: flex;
  gap: 8px;
  align-items: baseline;
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

.ipyagent-approval > .ipyagent-elsewhere ~ *,
:is(.ipyagent-proposal, .ipyagent-panel) [data-approval] .ipyagent-unseen {
  display: none;
}

:is(.ipyagent-tool, .ipyagent-plan, .ipyagent-proposal):focus {
  outline: 2px solid var(--ipyagent-accent);
  outline-offset: -2px;
}

/* A cell that has just been changed. */

.ipyagent-changed {
  animation: ipyagent-changed 4s ease-out;
}

@keyframes ipyagent-changed {
  0%,
  40% {
    background: color-mix(in srgb, var(--jp-brand-color1, #2f7de1) 16%, transparent);
    box-shadow: inset 3px 0 var(--jp-brand-color1, #2f7de1);
  }

  100% {
    background: transparent;
    box-shadow: inset 3px 0 transparent;
  }
}

@media (prefers-reduced-motion: reduce) {
  .ipyagent-changed {
    box-shadow: inset 3px 0 var(--jp-brand-color1, #2f7de1);
    animation: none;
  }
}
`,""]),a.d(t,{},{A:o})},2264(e,t,a){var n=a(1601),i=a.n(n),r=a(6314),o=a.n(r),p=a(4417),l=a.n(p),s=new URL(a(1561),a.b),d=new URL(a(5609),a.b),g=new URL(a(1911),a.b),y=o()(i()),c=l()(s),m=l()(d),u=l()(g);y.push([e.id,`/*
 * The style of a run's HTML, which each run brings along: so it is short. Colours come from
 * JupyterLab where there is JupyterLab, else from the text colour that is there, light or dark.
 * Three sizes: text, code, small.
 */
.ipyagent-card.ipyagent-card {
  --text: var(--jp-content-font-size1, 14px);
  --code: var(--jp-code-font-size, 13px);
  --small: 12px;
  --muted: color-mix(in srgb, currentcolor 70%, transparent);
  --line: color-mix(in srgb, currentcolor 16%, transparent);
  --soft: color-mix(in srgb, currentcolor 5%, transparent);
  --good: color-mix(in srgb, #2e9e5b 70%, currentcolor);
  --bad: color-mix(in srgb, #d9463c 75%, currentcolor);
  --warn: color-mix(in srgb, #c77700 70%, currentcolor);
  --mono: var(--jp-code-font-family, ui-monospace, menlo, consolas, monospace);

  margin: 0;
  padding: 2px 0;
  border: 0;
  font: var(--text) / 1.5 var(--jp-content-font-family, system-ui, sans-serif);
  font-variant-numeric: tabular-nums;

  p, ul, ol, pre, blockquote, details {
    margin: 0;
    padding: 0;
    border: 0;
    background: none;
  }

  summary {
    cursor: pointer;
    list-style: none;

    &::-webkit-details-marker {
      display: none;
    }

    &::after {
      content: ' ›';
      color: var(--muted);
    }
  }

  pre, code, samp {
    color: inherit;
    font: var(--code) / 1.45 var(--mono);
  }

  pre {
    max-height: 30em;
    padding: 6px 10px;
    border-radius: 4px;
    background: var(--soft);
    overflow: auto;
    white-space: pre-wrap;
    word-break: normal;
    overflow-wrap: anywhere;

    code {
      padding: 0;
      background: none;
      white-space: inherit;
    }

    @media print {
      max-height: none;
    }
  }

  :not(pre) > code {
    margin: 0;
    padding: 1px 3px;
    border-radius: 3px;
    background: var(--soft);
  }

  small, mark {
    font-size: var(--small);
  }

  mark {
    padding: 0 6px;
    border: 1px solid var(--warn);
    border-radius: 8px;
    background: none;
    color: var(--warn);
  }

  /* Lines of steps */

  .ia-line {
    display: flex;
    gap: 8px;
    align-items: baseline;
    padding: 1px 4px;
    border-radius: 4px;
    font-size: var(--code);
    white-space: nowrap;

    &:hover {
      background: var(--soft);
    }

    /* A square, which takes no more room when it is turned. */
    &::after {
      flex: none;
      width: 12px;
      line-height: 12px;
      text-align: center;
    }

    > * {
      flex: none;
    }

    /* What comes of a call stands at the right: its result, else its time, else the mark of a fold. */
    &:not(:has(.ia-outcome)) > .ia-duration,
    &:not(:has(.ia-outcome, .ia-duration))::after {
      margin-inline-start: auto;
    }
  }

  .ia-steps > .ia-line {
    flex-wrap: wrap;
    gap: 0 8px;
    padding-inline-start: 28px;
    color: var(--muted);

    > .ia-glyph {
      margin-inline-start: -24px;
    }

    &.ia-line::after {
      margin: 0;
    }
  }

  .ia-glyph {
    width: 16px;
    text-align: center;
  }

  :is(.ia-look, .ia-change, .ia-file) {
    height: 16px;
    align-self: center;
    background: var(--muted);
    font-size: 0;
    mask: var(--icon) center / 14px no-repeat;
  }

  .ia-look {
    --icon: url(${c});
  }

  .ia-change {
    --icon: url(${m});
  }

  .ia-file {
    --icon: url(${u});
  }

  .ia-failed {
    color: var(--bad);
  }

  :is(.ia-denied, .ia-unknown) {
    color: var(--warn);
  }

  .ia-line > .ia-summary {
    flex: 0 1 auto;
    min-width: 4em;
    overflow: hidden;
    text-overflow: ellipsis;
  }

  .ia-line > :is(.ia-chip, .ia-decision, .ia-outcome) {
    flex: 0 1 auto;
    min-width: 2em;
    overflow: hidden;
    text-overflow: ellipsis;
  }

  .ia-line > .ia-outcome {
    flex: 1 1 0;
    text-align: end;
  }

  .ia-decision, .ia-outcome, .ia-duration, :is(.ia-line, .ia-body) em {
    color: var(--muted);
    font-size: var(--small);
  }

  :is(.ia-chip, .ia-effects b) {
    --tone: var(--warn);

    color: var(--tone);
    font-weight: 400;
  }

  .ia-created.ia-created {
    --tone: var(--good);
  }

  .ia-deleted.ia-deleted {
    --tone: var(--bad);
  }

  .ia-chip {
    padding: 0 6px;
    border-radius: 8px;
    background: color-mix(in srgb, var(--tone) 12%, transparent);
    font-family: inherit;
    font-size: var(--small);
    white-space: nowrap;
  }

  details[open] > .ia-line {
    flex-wrap: wrap;
    white-space: normal;
    overflow-wrap: anywhere;

    > .ia-outcome {
      flex-basis: auto;
    }

    &::after {
      rotate: 90deg;
    }
  }

  /* What stands behind a line */

  .ia-body, .ia-steps > :not(summary), details > blockquote {
    margin-inline-start: 11px;
    padding-inline-start: 12px;
    border-inline-start: 2px solid var(--line);
  }

  .ia-body, .ia-footer, .ia-thinking {
    font-size: var(--code);

    > * + * {
      margin-top: 4px;
    }
  }

  .ia-caption, .ia-note, .ia-thinking, .ia-footer, .ia-header,
  .ia-ending, .ia-todos, .ia-effects > p {
    color: var(--muted);
    font-size: var(--small);
  }

  :is(ul, ol) {
    list-style: none;
  }

  :is(.ia-diff-added, .ia-diff-removed) {
    display: inline-block;
    width: 100%;
    background: color-mix(in srgb, #2e9e5b 16%, transparent);
  }

  .ia-diff-removed {
    background: color-mix(in srgb, #d9463c 16%, transparent);
  }

  /* Text, tables and figures */

  .ia-markdown {
    overflow-wrap: anywhere;

    :is(p, li, th, td, h1, h2, h3, h4, h5, h6) {
      unicode-bidi: plaintext;
    }

    :is(ul, ol) {
      padding-inline-start: 1.6em;
      list-style: revert;
    }

    blockquote {
      padding-inline-start: 10px;
      border-inline-start: 3px solid var(--line);
      color: var(--muted);
    }

    &.ia-markdown * + :is(p, ul, ol, pre, table, blockquote, h1, h2, h3, h4, h5, h6) {
      margin-top: 0.6em;
    }
  }

  :is(h1, h2, h3, h4, h5, h6) {
    margin: 0;
    font-size: inherit;
    font-weight: 600;
  }

  table {
    display: block;
    max-width: 100%;
    margin: 0;
    border: 0;
    border-collapse: collapse;
    overflow-x: auto;
    font-size: var(--code);

    * {
      border: 0;
    }

    tr {
      background: none !important;
    }
  }

  table :is(th, td) {
    max-width: 32em;
    padding: 3px 10px;
    border-bottom: 1px solid var(--line);
    text-align: start;
    vertical-align: top;
    overflow-wrap: normal;

    &[align='right'] {
      text-align: end;
    }
  }

  img {
    max-width: 100%;
  }

  .ia-display {
    max-height: 27em;
    overflow: auto;

    @media print {
      max-height: none;
    }

    table :is(th, td) {
      text-align: end;
      white-space: nowrap;
    }

    th:first-child {
      position: sticky;
      inset-inline-start: 0;
      background: var(--jp-layout-color0, var(--vscode-editor-background, transparent));
    }
  }

  .ia-media {
    margin: 4px 0 6px;

    img {
      max-width: 100%;
      max-height: 480px;
      border-radius: 4px;
      background: #fff;
    }
  }

  .ia-step > .ia-markdown {
    color: var(--muted);
  }

  /* Once is enough: what is in something muted is no fainter. */
  :is(.ia-footer, .ia-thinking, .ia-step > .ia-markdown, .ia-markdown blockquote) :is(.ia-note, blockquote) {
    color: inherit;
  }

  .ia-traced {
    border-radius: 2px;
    text-decoration: none;

    &:is(:hover, :focus-visible) {
      background: var(--soft);
    }

    &:focus-visible::after {
      content: ' (' attr(title) ')';
      color: var(--muted);
      font-size: var(--small);
      font-weight: 400;
    }
  }

  .ia-not-found {
    text-decoration: underline dotted var(--warn);
    text-underline-offset: 3px;
  }

  .ia-plan-steps b {
    font-weight: 500;
  }

  * + .ia-answer {
    margin-top: 4px;
  }

  .ia-error-card {
    padding: 6px 12px;
    border-inline-start: 3px solid var(--bad);
    background: color-mix(in srgb, #d9463c 8%, transparent);
  }

  .ia-user-text {
    padding: 2px 10px;
    border-inline-start: 3px solid var(--line);
  }

  .ia-plan-steps {
    padding-inline-start: 24px;

    > li {
      list-style: decimal;
    }
  }

  .ia-footer {
    line-height: 24px;

    pre, blockquote {
      line-height: 1.45;
    }
  }
}
`,""]),a.d(t,{},{A:y})},6314(e){e.exports=function(e){var t=[];return t.toString=function(){return this.map(function(t){var a="",n=void 0!==t[5];return t[4]&&(a+="@supports (".concat(t[4],") {")),t[2]&&(a+="@media ".concat(t[2]," {")),n&&(a+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),a+=e(t),n&&(a+="}"),t[2]&&(a+="}"),t[4]&&(a+="}"),a}).join("")},t.i=function(e,a,n,i,r){"string"==typeof e&&(e=[[null,e,void 0]]);var o={};if(n)for(var p=0;p<this.length;p++){var l=this[p][0];null!=l&&(o[l]=!0)}for(var s=0;s<e.length;s++){var d=[].concat(e[s]);n&&o[d[0]]||(void 0!==r&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=r),a&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=a),i&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=i):d[4]="".concat(i)),t.push(d))}},t}},4417(e){e.exports=function(e,t){return(t||(t={}),e&&(e=String(e.__esModule?e.default:e),/^['"].*['"]$/.test(e)&&(e=e.slice(1,-1)),t.hash&&(e+=t.hash),/["'() \t\n]|(%20)/.test(e)||t.needQuotes))?'"'.concat(e.replace(/"/g,'\\"').replace(/\n/g,"\\n"),'"'):e}},1601(e){e.exports=function(e){return e[1]}},5072(e){var t=[];function a(e){for(var a=-1,n=0;n<t.length;n++)if(t[n].identifier===e){a=n;break}return a}function n(e,n){for(var i={},r=[],o=0;o<e.length;o++){var p=e[o],l=n.base?p[0]+n.base:p[0],s=i[l]||0,d="".concat(l," ").concat(s);i[l]=s+1;var g=a(d),y={css:p[1],media:p[2],sourceMap:p[3],supports:p[4],layer:p[5]};if(-1!==g)t[g].references++,t[g].updater(y);else{var c=function(e,t){var a=t.domAPI(t);return a.update(e),function(t){t?(t.css!==e.css||t.media!==e.media||t.sourceMap!==e.sourceMap||t.supports!==e.supports||t.layer!==e.layer)&&a.update(e=t):a.remove()}}(y,n);n.byIndex=o,t.splice(o,0,{identifier:d,updater:c,references:1})}r.push(d)}return r}e.exports=function(e,i){var r=n(e=e||[],i=i||{});return function(e){e=e||[];for(var o=0;o<r.length;o++){var p=a(r[o]);t[p].references--}for(var l=n(e,i),s=0;s<r.length;s++){var d=a(r[s]);0===t[d].references&&(t[d].updater(),t.splice(d,1))}r=l}}},7659(e){var t={};e.exports=function(e,a){var n=function(e){if(void 0===t[e]){var a=document.querySelector(e);if(window.HTMLIFrameElement&&a instanceof window.HTMLIFrameElement)try{a=a.contentDocument.head}catch(e){a=null}t[e]=a}return t[e]}(e);if(!n)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");n.appendChild(a)}},540(e){e.exports=function(e){var t=document.createElement("style");return e.setAttributes(t,e.attributes),e.insert(t,e.options),t}},5056(e,t,a){e.exports=function(e){var t=a.nc;t&&e.setAttribute("nonce",t)}},7825(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=e.insertStyleElement(e);return{update:function(a){var n,i,r;n="",a.supports&&(n+="@supports (".concat(a.supports,") {")),a.media&&(n+="@media ".concat(a.media," {")),(i=void 0!==a.layer)&&(n+="@layer".concat(a.layer.length>0?" ".concat(a.layer):""," {")),n+=a.css,i&&(n+="}"),a.media&&(n+="}"),a.supports&&(n+="}"),(r=a.sourceMap)&&"u">typeof btoa&&(n+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(r))))," */")),e.styleTagTransform(n,t,e.options)},remove:function(){var e;null===(e=t).parentNode||e.parentNode.removeChild(e)}}}},1113(e){e.exports=function(e,t){if(t.styleSheet)t.styleSheet.cssText=e;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(e))}}},9680(e,t,a){var n=a(5072),i=a.n(n),r=a(7825),o=a.n(r),p=a(7659),l=a.n(p),s=a(5056),d=a.n(s),g=a(540),y=a.n(g),c=a(1113),m=a.n(c),u=a(2264),h={};h.styleTagTransform=m(),h.setAttributes=d(),h.insert=l().bind(null,"head"),h.domAPI=o(),h.insertStyleElement=y(),i()(u.A,h),u.A&&u.A.locals&&u.A.locals;var f=a(8475),x={};x.styleTagTransform=m(),x.setAttributes=d(),x.insert=l().bind(null,"head"),x.domAPI=o(),x.insertStyleElement=y(),i()(f.A,x),f.A&&f.A.locals&&f.A.locals;var b=a(9033),v={};v.styleTagTransform=m(),v.setAttributes=d(),v.insert=l().bind(null,"head"),v.domAPI=o(),v.insertStyleElement=y(),i()(b.A,v),b.A&&b.A.locals&&b.A.locals;var w=a(2926),k={};k.styleTagTransform=m(),k.setAttributes=d(),k.insert=l().bind(null,"head"),k.domAPI=o(),k.insertStyleElement=y(),i()(w.A,k),w.A&&w.A.locals&&w.A.locals;var j=a(5724),z={};z.styleTagTransform=m(),z.setAttributes=d(),z.insert=l().bind(null,"head"),z.domAPI=o(),z.insertStyleElement=y(),i()(j.A,z),j.A&&j.A.locals&&j.A.locals;var A=a(2679),T={};T.styleTagTransform=m(),T.setAttributes=d(),T.insert=l().bind(null,"head"),T.domAPI=o(),T.insertStyleElement=y(),i()(A.A,T),A.A&&A.A.locals&&A.A.locals},5609(e){e.exports="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27 fill=%27none%27 stroke=%27%23000%27 stroke-width=%271.4%27%3E%3Cpath d=%27M2.5 13.5l.8-3.3 7.7-7.7 2.5 2.5-7.7 7.7zM9.5 4l2.5 2.5%27/%3E%3C/svg%3E"},1911(e){e.exports="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27 fill=%27none%27 stroke=%27%23000%27 stroke-width=%271.4%27%3E%3Cpath d=%27M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3M5.5 8h5M5.5 11h5%27/%3E%3C/svg%3E"},1561(e){e.exports="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27 fill=%27none%27 stroke=%27%23000%27 stroke-width=%271.5%27%3E%3Cpath d=%27M11 6.5a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0zM10 10l4.5 4.5%27/%3E%3C/svg%3E"}}]);