"use strict";(self.rspackChunkipyagent=self.rspackChunkipyagent||[]).push([[232],{475(e,a,t){var n=t(601),i=t.n(n),r=t(314),o=(t.n(r))()(i());o.push([e.id,`/*
 * Colours are JupyterLab's where there is JupyterLab, else mixed from the text colour that is
 * already there: so a run looks right on any ground, light or dark.
 */
.ipyagent-run {
  --ipyagent-text: var(--jp-content-font-color1, currentcolor);
  --ipyagent-muted: var(
    --jp-content-font-color2,
    color-mix(in srgb, currentcolor 65%, transparent)
  );
  --ipyagent-line: var(--jp-border-color2, color-mix(in srgb, currentcolor 18%, transparent));
  --ipyagent-soft: color-mix(in srgb, currentcolor 5%, transparent);
  --ipyagent-accent: var(--jp-brand-color1, #2f7de1);
  --ipyagent-good: var(--jp-success-color1, #2e9e5b);
  --ipyagent-bad: var(--jp-error-color1, #d9463c);
  --ipyagent-warn: var(--jp-warn-color1, #c77700);
  --ipyagent-mono: var(--jp-code-font-family, ui-monospace, menlo, consolas, monospace);
  --ipyagent-small: 0.86em;
  --ipyagent-code-keyword: var(--jp-mirror-editor-keyword-color, #8250df);
  --ipyagent-code-string: var(--jp-mirror-editor-string-color, #b35900);
  --ipyagent-code-number: var(--jp-mirror-editor-number-color, #1f7f4c);
  --ipyagent-code-comment: var(--jp-mirror-editor-comment-color, #6e8188);
  --ipyagent-code-name: var(--jp-mirror-editor-def-color, #2f7de1);

  box-sizing: border-box;
  max-width: 100%;
  margin: 2px 0;
  border: 1px solid var(--ipyagent-line);
  border-radius: 6px;
  overflow: hidden;
  color: var(--ipyagent-text);
  font-family: var(--jp-content-font-family, system-ui, sans-serif);
  font-size: var(--jp-content-font-size1, 14px);
  line-height: 1.5;
}

.ipyagent-run *,
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

.ipyagent-run :focus-visible {
  outline: 2px solid var(--ipyagent-accent);
  outline-offset: -2px;
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
  gap: 8px;
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

.ipyagent-facts {
  display: flex;
  gap: 12px;
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
  background: var(--ipyagent-muted);
}

[data-state='running'] > .ipyagent-header .ipyagent-chip::before {
  background: var(--ipyagent-accent);
}

[data-state='waiting'] > .ipyagent-header .ipyagent-chip::before {
  background: var(--ipyagent-warn);
}

[data-state='done'] > .ipyagent-header .ipyagent-chip::before {
  background: var(--ipyagent-good);
}

[data-state='partial'] > .ipyagent-header .ipyagent-chip::before {
  background: var(--ipyagent-warn);
}

[data-state='failed'] > .ipyagent-header .ipyagent-chip::before {
  background: var(--ipyagent-bad);
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
  color: var(--ipyagent-warn);
}

/* Steps */

.ipyagent-content {
  padding: 6px 12px 8px;
}

.ipyagent-step {
  display: flow-root;
}

.ipyagent-step + .ipyagent-step {
  margin-top: 4px;
}

.ipyagent-note {
  padding: 1px 0;
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
}

.ipyagent-asking::after {
  content: '…';
  animation: ipyagent-pulse 1.4s ease-in-out infinite;
}

.ipyagent-thinking,
.ipyagent-context {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

.ipyagent-thinking-text,
.ipyagent-open-text {
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  unicode-bidi: isolate;
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
  overflow-wrap: break-word;
  unicode-bidi: isolate;
}

.ipyagent-markdown > :first-child {
  margin-top: 0;
}

.ipyagent-markdown > :nth-last-child(2),
.ipyagent-markdown > :last-child {
  margin-bottom: 0;
}

.ipyagent-markdown p,
.ipyagent-markdown ul,
.ipyagent-markdown ol,
.ipyagent-markdown pre,
.ipyagent-markdown table,
.ipyagent-markdown blockquote {
  margin: 0 0 0.6em;
}

.ipyagent-markdown ul,
.ipyagent-markdown ol {
  padding-inline-start: 1.6em;
}

.ipyagent-markdown li > p {
  margin-bottom: 0.2em;
}

.ipyagent-markdown :is(h1, h2, h3, h4, h5, h6) {
  margin: 0.9em 0 0.4em;
  font-size: 1.05em;
  font-weight: 600;
  line-height: 1.3;
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
  color: var(--jp-content-link-color, var(--ipyagent-accent));
}

.ipyagent-link-host {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

.ipyagent-markdown code {
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
  line-height: 1.45;
}

.ipyagent-markdown pre code {
  padding: 0;
  background: none;
  white-space: pre;
}

.ipyagent-markdown table {
  display: block;
  max-width: 100%;
  border-collapse: collapse;
  overflow-x: auto;
  font-size: 0.92em;
  font-variant-numeric: tabular-nums;
}

.ipyagent-markdown :is(th, td) {
  padding: 3px 10px;
  border: 0;
  border-bottom: 1px solid var(--ipyagent-line);
  text-align: start;
  vertical-align: top;
  white-space: nowrap;
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
  color: var(--ipyagent-muted);
  font-weight: 600;
  text-align: center;
}

[data-state='success'] > * > * > .ipyagent-glyph {
  color: var(--ipyagent-good);
}

[data-state='failed'] > * > * > .ipyagent-glyph {
  color: var(--ipyagent-bad);
}

[data-state='awaiting_approval'] > * > * > .ipyagent-glyph,
[data-state='unknown'] > * > * > .ipyagent-glyph,
[data-state='denied'] > * > * > .ipyagent-glyph {
  color: var(--ipyagent-warn);
}

[data-state='running'] > * > * > .ipyagent-glyph {
  color: var(--ipyagent-accent);
  animation: ipyagent-pulse 1.4s ease-in-out infinite;
}

.ipyagent-tool-name {
  flex: none;
  font-family: var(--ipyagent-mono);
  font-weight: 600;
  unicode-bidi: isolate;
}

.ipyagent-summary,
.ipyagent-first-line {
  flex: 0 1 auto;
  min-width: 3em;
  overflow: hidden;
  text-overflow: ellipsis;
  font-family: var(--ipyagent-mono);
  unicode-bidi: isolate;
}

.ipyagent-first-line {
  flex-shrink: 0;
  max-width: 40%;
}

.ipyagent-summary:empty {
  display: none;
}

.ipyagent-summary {
  color: var(--ipyagent-muted);
}

.ipyagent-decision,
.ipyagent-duration {
  flex: none;
  max-width: 40%;
  overflow: hidden;
  text-overflow: ellipsis;
  color: var(--ipyagent-muted);
  font-variant-numeric: tabular-nums;
  unicode-bidi: isolate;
}

.ipyagent-decision {
  font-style: italic;
}

.ipyagent-duration {
  margin-inline-start: auto;
}

.ipyagent-line::after {
  content: '›';
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

.ipyagent-run .ipyagent-output {
  max-height: 22em;
}

.ipyagent-arguments {
  display: grid;
  grid-template-columns: minmax(3em, max-content) 1fr;
  gap: 3px 10px;
  align-items: baseline;
}

.ipyagent-arguments > div {
  display: contents;
}

.ipyagent-arguments .ipyagent-pre {
  padding: 1px 8px;
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
  background: var(--ipyagent-bad);
  color: #fff;
  font-size: 0.85em;
  unicode-bidi: isolate;
}

.ipyagent-error {
  color: var(--ipyagent-bad);
  overflow-wrap: anywhere;
  white-space: pre-wrap;
}

.ipyagent-run .ipyagent-output.ipyagent-error {
  border-inline-start: 2px solid var(--ipyagent-bad);
  color: inherit;
}

/* The question */

.ipyagent-tool[data-state='awaiting_approval'] {
  margin: 6px 0;
  border: 1px solid var(--ipyagent-warn);
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

.ipyagent-button {
  cursor: pointer;
}

.ipyagent-button:hover:enabled {
  border-color: currentcolor;
  background: var(--ipyagent-soft);
}

.ipyagent-button:disabled,
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
  background: var(--jp-accept-color-normal, var(--ipyagent-accent));
  color: #fff;
}

.ipyagent-button-stop {
  padding: 0 8px;
}

.ipyagent-button-folder {
  border-color: transparent;
  color: var(--ipyagent-muted);
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
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  unicode-bidi: isolate;
}

.ipyagent-body .ipyagent-concern {
  padding: 0;
  color: var(--ipyagent-muted);
}

.ipyagent-question {
  padding: 2px 0;
  color: var(--ipyagent-text);
  font-size: var(--jp-content-font-size1, 14px);
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  unicode-bidi: isolate;
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

.ipyagent-plan-heading code {
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

.ipyagent-plan-steps [open] > .ipyagent-line > .ipyagent-plan-note {
  overflow: visible;
  overflow-wrap: anywhere;
  white-space: pre-line;
}

.ipyagent-plan-steps .ipyagent-line::after {
  margin-inline-start: auto;
}

.ipyagent-plan-steps .ipyagent-body {
  margin-inline-start: 34px;
}

.ipyagent-plan .ipyagent-approval {
  padding-inline: 0;
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

.ipyagent-editor-buttons .ipyagent-button {
  padding: 0 8px;
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
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  unicode-bidi: isolate;
}

.ipyagent-todos [data-state='in_progress'] > * {
  color: var(--ipyagent-accent);
}

.ipyagent-todos [data-state='completed'] > .ipyagent-glyph {
  color: var(--ipyagent-good);
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
  max-height: 22em;
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
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  unicode-bidi: isolate;
}

.ipyagent-error-title {
  font-weight: 600;
}

.ipyagent-footer:not(:empty) {
  margin-top: 4px;
  color: var(--ipyagent-muted);
  font-size: 0.79em;
  font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere;
}

.ipyagent-trace {
  font-family: var(--ipyagent-mono);
  user-select: all;
}

.ipyagent-seconds {
  font-variant-numeric: tabular-nums;
}

/* Code */

.ipyagent-code-keyword,
.ipyagent-code-literal,
.ipyagent-code-meta {
  color: var(--ipyagent-code-keyword);
}

.ipyagent-code-string,
.ipyagent-code-regexp {
  color: var(--ipyagent-code-string);
}

.ipyagent-code-number {
  color: var(--ipyagent-code-number);
}

.ipyagent-code-comment {
  color: var(--ipyagent-code-comment);
  font-style: italic;
}

.ipyagent-code-title,
.ipyagent-code-attr,
.ipyagent-code-built_in {
  color: var(--ipyagent-code-name);
}

.ipyagent-code-addition {
  color: var(--ipyagent-good);
}

.ipyagent-code-deletion {
  color: var(--ipyagent-bad);
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
  }
}
`,""]),t.d(a,{},{A:o})},314(e){e.exports=function(e){var a=[];return a.toString=function(){return this.map(function(a){var t="",n=void 0!==a[5];return a[4]&&(t+="@supports (".concat(a[4],") {")),a[2]&&(t+="@media ".concat(a[2]," {")),n&&(t+="@layer".concat(a[5].length>0?" ".concat(a[5]):""," {")),t+=e(a),n&&(t+="}"),a[2]&&(t+="}"),a[4]&&(t+="}"),t}).join("")},a.i=function(e,t,n,i,r){"string"==typeof e&&(e=[[null,e,void 0]]);var o={};if(n)for(var p=0;p<this.length;p++){var g=this[p][0];null!=g&&(o[g]=!0)}for(var d=0;d<e.length;d++){var l=[].concat(e[d]);n&&o[l[0]]||(void 0!==r&&(void 0===l[5]||(l[1]="@layer".concat(l[5].length>0?" ".concat(l[5]):""," {").concat(l[1],"}")),l[5]=r),t&&(l[2]&&(l[1]="@media ".concat(l[2]," {").concat(l[1],"}")),l[2]=t),i&&(l[4]?(l[1]="@supports (".concat(l[4],") {").concat(l[1],"}"),l[4]=i):l[4]="".concat(i)),a.push(l))}},a}},601(e){e.exports=function(e){return e[1]}},72(e){var a=[];function t(e){for(var t=-1,n=0;n<a.length;n++)if(a[n].identifier===e){t=n;break}return t}function n(e,n){for(var i={},r=[],o=0;o<e.length;o++){var p=e[o],g=n.base?p[0]+n.base:p[0],d=i[g]||0,l="".concat(g," ").concat(d);i[g]=d+1;var y=t(l),s={css:p[1],media:p[2],sourceMap:p[3],supports:p[4],layer:p[5]};if(-1!==y)a[y].references++,a[y].updater(s);else{var c=function(e,a){var t=a.domAPI(a);return t.update(e),function(a){a?(a.css!==e.css||a.media!==e.media||a.sourceMap!==e.sourceMap||a.supports!==e.supports||a.layer!==e.layer)&&t.update(e=a):t.remove()}}(s,n);n.byIndex=o,a.splice(o,0,{identifier:l,updater:c,references:1})}r.push(l)}return r}e.exports=function(e,i){var r=n(e=e||[],i=i||{});return function(e){e=e||[];for(var o=0;o<r.length;o++){var p=t(r[o]);a[p].references--}for(var g=n(e,i),d=0;d<r.length;d++){var l=t(r[d]);0===a[l].references&&(a[l].updater(),a.splice(l,1))}r=g}}},659(e){var a={};e.exports=function(e,t){var n=function(e){if(void 0===a[e]){var t=document.querySelector(e);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(e){t=null}a[e]=t}return a[e]}(e);if(!n)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");n.appendChild(t)}},540(e){e.exports=function(e){var a=document.createElement("style");return e.setAttributes(a,e.attributes),e.insert(a,e.options),a}},56(e,a,t){e.exports=function(e){var a=t.nc;a&&e.setAttribute("nonce",a)}},825(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var a=e.insertStyleElement(e);return{update:function(t){var n,i,r;n="",t.supports&&(n+="@supports (".concat(t.supports,") {")),t.media&&(n+="@media ".concat(t.media," {")),(i=void 0!==t.layer)&&(n+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),n+=t.css,i&&(n+="}"),t.media&&(n+="}"),t.supports&&(n+="}"),(r=t.sourceMap)&&"u">typeof btoa&&(n+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(r))))," */")),e.styleTagTransform(n,a,e.options)},remove:function(){var e;null===(e=a).parentNode||e.parentNode.removeChild(e)}}}},113(e){e.exports=function(e,a){if(a.styleSheet)a.styleSheet.cssText=e;else{for(;a.firstChild;)a.removeChild(a.firstChild);a.appendChild(document.createTextNode(e))}}},579(e,a,t){var n=t(72),i=t.n(n),r=t(825),o=t.n(r),p=t(659),g=t.n(p),d=t(56),l=t.n(d),y=t(540),s=t.n(y),c=t(113),m=t.n(c),u=t(475),f={};f.styleTagTransform=m(),f.setAttributes=l(),f.insert=g().bind(null,"head"),f.domAPI=o(),f.insertStyleElement=s(),i()(u.A,f),u.A&&u.A.locals&&u.A.locals}}]);