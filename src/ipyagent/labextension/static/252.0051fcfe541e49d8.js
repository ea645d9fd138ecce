"use strict";(self.rspackChunkipyagent=self.rspackChunkipyagent||[]).push([[252],{8475(e,a,t){var i=t(1601),n=t.n(i),o=t(6314),r=t.n(o),p=t(2264),s=r()(n());s.i(p.A),s.push([e.id,`/*
 * What a page adds to a card, which card.css draws. Colours are JupyterLab's where there is
 * JupyterLab, else mixed from the text colour that is already there: so it looks right on any
 * ground, light or dark.
 */
.ipyagent-card {
  --ipyagent-text: var(--jp-content-font-color1, currentcolor);
  --ipyagent-muted: color-mix(in srgb, var(--ipyagent-text) 72%, transparent);
  --ipyagent-line: var(--jp-border-color2, color-mix(in srgb, currentcolor 18%, transparent));
  --ipyagent-soft: color-mix(in srgb, currentcolor 5%, transparent);
  --ipyagent-accent: var(--jp-brand-color1, #2f7de1);
  --ipyagent-bad: var(--jp-error-color1, #d9463c);
  --ipyagent-warn: var(--jp-warn-color1, #c77700);
  --ipyagent-bad-text: color-mix(in srgb, var(--ipyagent-bad) 60%, var(--ipyagent-text));
  --ipyagent-chosen: color-mix(
    in srgb,
    var(--jp-accept-color-normal, var(--ipyagent-accent)) 85%,
    #000
  );
  --ipyagent-mono: var(--jp-code-font-family, ui-monospace, menlo, consolas, monospace);
  --ipyagent-code: var(--jp-code-font-size, 13px);
  --ipyagent-small: 12px;

  box-sizing: border-box;
  max-width: 100%;
  color: var(--ipyagent-text);

  *,
  *::before {
    box-sizing: border-box;
  }

  [hidden] {
    display: none !important;
  }

  :focus-visible {
    outline: 2px solid var(--ipyagent-accent);
    outline-offset: -2px;
  }

  @media (prefers-reduced-motion: reduce) {
    *,
    *::before,
    *::after {
      animation: none !important;
      transition: none !important;
    }
  }
}

.ipyagent-note {
  padding: 1px 0;
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  unicode-bidi: plaintext;
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

.ipyagent-error {
  color: var(--ipyagent-bad-text);
  overflow-wrap: anywhere;
  white-space: pre-wrap;
}

.ipyagent-tool-name {
  font-family: var(--ipyagent-mono);
  font-weight: 600;
  unicode-bidi: isolate;
}

.ipyagent-typed {
  padding: 0 3px;
  border-radius: 3px;
  background: var(--ipyagent-soft);
  color: inherit;
  font-family: var(--ipyagent-mono);
  font-size: inherit;
}

/* Buttons and fields */

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
  transition: background 0.12s;

  &:hover:enabled {
    border-color: currentcolor;
    background: var(--ipyagent-soft);
  }

  &:not(.ipyagent-button-choice) {
    white-space: nowrap;
  }
}

.ipyagent-button:disabled,
.ipyagent-button[aria-disabled='true'],
.ipyagent-reason:disabled {
  opacity: 0.5;
  cursor: default;
}

:is(.ipyagent-button-approve, .ipyagent-button-send, .ipyagent-button-save),
.ipyagent-button-approve-all[aria-disabled='false'],
:is(.ipyagent-button-approve, .ipyagent-button-send, .ipyagent-button-save):hover:enabled {
  border-color: transparent;
  background: var(--ipyagent-chosen);
  color: #fff;
}

.ipyagent-button-choice {
  max-width: 100%;
  border-color: var(--ipyagent-accent);
  overflow-wrap: anywhere;
  text-align: start;
  unicode-bidi: isolate;
}

.ipyagent-button-model::after {
  content: ' ▾';
}

.ipyagent-button-request {
  padding: 0 6px;
  border-radius: 8px;
}

:is(.ipyagent-button-stop, .ipyagent-button-take-back),
:is(.ipyagent-editor-buttons, .ipyagent-elsewhere) .ipyagent-button {
  padding: 0 8px;
}

:is(.ipyagent-own, .ia-caption, .ipyagent-listing-head, .ia-header) .ipyagent-button {
  padding: 0 6px;
  border-color: transparent;
}

/* Several changes that wait: the bar above them. */
.ia-review {
  display: flex;
  justify-content: space-between;
  align-items: baseline;
  padding-inline-start: 4px;
  font-weight: 600;

  > span {
    display: flex;
    gap: 4px;
    align-items: baseline;
    font-size: var(--ipyagent-small);
    font-weight: 400;
  }
}

.ipyagent-reason {
  flex: 1 1 12em;
  min-width: 8em;
  max-width: 28em;
}

textarea.ipyagent-reason {
  display: block;
  resize: none;
}

.ia-say .ipyagent-reason {
  width: 100%;
  max-width: none;
}

.ipyagent-names {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;

  .ipyagent-button {
    padding: 0 6px;
    font-family: var(--ipyagent-mono);
  }
}

p.ia-waiting::after {
  content: '…';
  animation: ipyagent-pulse 1.4s ease-in-out infinite;
}

@keyframes ipyagent-pulse {
  50% {
    opacity: 0.35;
  }
}

.ipyagent-clock:not(:empty)::before {
  content: ' \xb7 ';
}

.ia-decision:empty {
  display: none;
}

.ia-user-text .ipyagent-button {
  margin-inline-start: 8px;
}

/* A step out of sight is neither laid out nor painted, and one in sight is painted alone. */
.ipyagent-card .ia-step {
  content-visibility: auto;
  contain-intrinsic-size: auto 24px;
}

/* The question */

.ipyagent-card :is(.ia-tool, .ia-plan):has(> .ia-form > [data-approval], > [data-approval]) {
  margin: 6px 0;
  box-shadow: inset 3px 0 var(--ipyagent-accent);

  > :not(.ia-line, .ia-plan-steps) {
    margin: 0;
    padding-inline-start: 9px;
    border: 0;
  }
}

/* A call or a plan unfolds to its height, as when it is asked about; a reduced motion has none. */
@media (prefers-reduced-motion: no-preference) {
  .ipyagent-card :is(.ia-tool, .ia-plan) {
    interpolate-size: allow-keywords;

    &::details-content {
      overflow-y: clip;
      block-size: 0;
      transition:
        block-size 0.12s,
        content-visibility 0.12s allow-discrete;
    }

    &[open]::details-content {
      block-size: auto;
    }
  }
}

.ipyagent-approval {
  position: relative;
  display: flex;
  flex-wrap: wrap;
  gap: 6px;
  align-items: center;
  padding: 6px 0;
}

.ipyagent-sent {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
}

/* Less than a decision, until it is looked for. */
.ipyagent-approval > .ipyagent-button-edit,
.ipyagent-always > summary {
  padding-inline: 6px;
  border-color: transparent;
}

.ipyagent-card .ipyagent-always > summary::after {
  content: '';
}

.ipyagent-always {
  display: flex;
  flex-wrap: wrap;
  gap: 6px;
  align-items: center;

  &[open] {
    flex-basis: 100%;

    /* Its parts are items of the menu, with the gap between them. */
    &::details-content {
      display: contents;
    }
  }
}

/* What is edited stands in the editor; what is asked elsewhere is edited there. */
.ia-tool:has(.ipyagent-editor) .ia-body > pre,
.ia-tool:is(:has(.ipyagent-editor), :has(.ipyagent-elsewhere)) .ipyagent-button-edit {
  display: none;
}

.ipyagent-code {
  padding: 2px 0;
  border: 1px solid var(--ipyagent-line);
  border-radius: 4px;
}

/* Part of what is approved, so it is no fainter than the call; below the buttons. */
.ipyagent-covers {
  flex-basis: 100%;
  font-size: var(--ipyagent-small);
  overflow-wrap: anywhere;
  white-space: pre-wrap;
  unicode-bidi: isolate;
}

.ipyagent-picks {
  display: flex;
  flex: 1 0 100%;
  flex-wrap: wrap;
  gap: 6px;
}

/* Stands where a box ends, to be met; takes no room. */
.ipyagent-end {
  display: block;
  height: 1px;
  margin-block-start: -1px;
}

.ipyagent-card.ipyagent-card pre[data-unfolded] {
  max-height: none;
}

/* At the lower edge of the box before it: it covers nothing, and its room stays when it is not needed. */
.ipyagent-button-more.ipyagent-button,
.ipyagent-button-more.ipyagent-button:hover:enabled {
  display: block;
  width: 100%;
  padding: 2px 0;
  border: 0;
  border-top: 1px solid var(--ipyagent-line);
  border-radius: 0 0 4px 4px;
  background: color-mix(in srgb, var(--ipyagent-warn) 14%, var(--jp-layout-color1, canvas));
  color: var(--jp-content-font-color1, canvastext);
  text-align: center;

  &.ipyagent-passed {
    visibility: hidden;
  }
}

/* The editor */

.ia-plan:has(.ipyagent-editor) .ia-plan-steps,
.ia-plan:has([data-approval]) > .ia-note {
  display: none;
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

.ipyagent-number {
  flex: none;
  min-width: 1.4em;
  color: var(--ipyagent-muted);
  font-variant-numeric: tabular-nums;
  text-align: end;
}

textarea.ipyagent-pre {
  display: block;
  width: 100%;
  padding: 6px 10px;
  border: 1px solid var(--ipyagent-line);
  border-radius: 4px;
  background: var(--ipyagent-soft);
  color: inherit;
  font: var(--ipyagent-code) / 1.45 var(--ipyagent-mono);
  tab-size: 4;
  resize: vertical;

  &[aria-invalid='true'] {
    border-color: var(--ipyagent-bad);
  }
}

.ipyagent-editor-step .ipyagent-error {
  font-size: var(--ipyagent-small);
}

/* A variable, and what its name opens. */
.ia-name[title] {
  cursor: pointer;

  &:hover {
    text-decoration: underline;
  }
}

.ipyagent-card .ipyagent-head {
  margin: 2px 0 6px;

  pre {
    white-space: pre;
  }
}

/* Texts */

.ipyagent-card .ia-markdown a {
  color: color-mix(
    in srgb,
    var(--jp-content-link-color, var(--ipyagent-accent)) 75%,
    var(--ipyagent-text)
  );
}

/* The kernel lets no formula link; nor does a forged one. */
.ia-formula a {
  pointer-events: none;
}

.ipyagent-link-host {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
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

.ipyagent-card .ipyagent-listing pre {
  margin: 0 !important;
  border-radius: 0 0 3px 3px;

  code {
    white-space: pre;
  }
}

.ipyagent-listing-language {
  margin-inline-end: auto;
}

/* A wide table fades at the edge behind which it goes on; its first column stays. */
:is(.ipyagent-table, .ia-display) {
  --ipyagent-ground: var(--jp-layout-color0, canvas);
  --ipyagent-shade: color-mix(in srgb, currentcolor 22%, transparent);

  background:
    linear-gradient(to right, var(--ipyagent-ground) 10px, transparent) left / 24px 100% no-repeat
      local,
    linear-gradient(to left, var(--ipyagent-ground) 10px, transparent) right / 24px 100% no-repeat
      local,
    linear-gradient(to right, var(--ipyagent-shade), transparent) left / 10px 100% no-repeat scroll,
    linear-gradient(to left, var(--ipyagent-shade), transparent) right / 10px 100% no-repeat scroll;
}

.ipyagent-table {
  overflow-x: auto;
}

/* The box scrolls, not the table in it. */
.ipyagent-card.ipyagent-card :is(.ipyagent-table, .ia-display) table {
  width: max-content;
  max-width: none;
  overflow: visible;
}

/* What can be done with a run that has ended: at the end of its last line, for who looks there. */
.ipyagent-own {
  position: relative;
  z-index: 1;
  display: flex;
  float: inline-end;
  gap: 2px;
  align-items: center;
  max-width: 100%;
  min-height: 24px;

  .ipyagent-say {
    padding: 0;
  }

  .ipyagent-reason {
    padding: 0 6px;
  }
}

.ipyagent-card:not(:hover, :focus-within) > .ipyagent-own,
.ia-done:not(:hover, :focus-within) > .ia-footer:not([open], .ia-doubtful) {
  opacity: 0;
}

/* stylelint-disable-next-line selector-class-pattern -- JupyterLab's */
.jp-mod-active .ipyagent-card > :is(.ipyagent-own, .ia-footer) {
  opacity: 1 !important;
}

.ipyagent-card .ipyagent-own:has(ul) {
  display: block;
  float: none;
  height: auto;
  opacity: 1;
}

@media (hover: none) {
  .ipyagent-card > :is(.ipyagent-own, .ia-footer) {
    opacity: 1 !important;
  }
}

/* There is nothing below a card that is elsewhere. */
:is(.ipyagent-in-cell, .ipyagent-follow-up) {
  display: none;
}

/* stylelint-disable-next-line selector-class-pattern -- JupyterLab's */
.jp-Notebook .jp-Cell .ipyagent-in-cell {
  display: inline;
}

/* stylelint-disable-next-line selector-class-pattern -- JupyterLab's */
.jp-Notebook .jp-Cell .ipyagent-follow-up:not(:empty) {
  display: block;
}

:is(.ipyagent-follow-up, .ia-say, .ipyagent-approval) .ipyagent-reason:not(:hover, :focus) {
  padding-inline: 0;
  border-color: transparent;
  background: transparent;
}

.ipyagent-undo {
  .ipyagent-button {
    margin-inline-end: 6px;
  }

  &:has(ul) {
    display: block;
  }

  ul {
    margin: 0 0 4px;
    padding-inline-start: 1.2em;
    overflow-wrap: anywhere;
  }
}

/* With the user's own colours, lines show what otherwise only a colour shows. */
@media (forced-colors: active) {
  .ipyagent-button:is(.ipyagent-button-approve, .ipyagent-button-send, .ipyagent-button-save) {
    border: 1px solid currentcolor;
  }

  :is(.ia-diff-added, .ia-diff-removed) {
    font-weight: bold;
  }
}
`,""]),t.d(a,{},{A:s})},9033(e,a,t){var i=t(1601),n=t.n(i),o=t(6314),r=(t.n(o))()(n());r.push([e.id,`/* A cell that asks the agent: prose behind an accent, below the line that says so. */

/* stylelint-disable selector-class-pattern -- the editors are JupyterLab's and CodeMirror's */

.ipyagent-cell .jp-InputArea .cm-editor {
  box-shadow: inset 3px 0 color-mix(in srgb, var(--jp-brand-color1, #2f7de1) 60%, transparent);
}

.ipyagent-cell .jp-InputArea .cm-content > .cm-line:first-child,
.ipyagent-cell .jp-InputArea .cm-content > .cm-line:first-child span {
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
`,""]),t.d(a,{},{A:r})},2926(e,a,t){var i=t(1601),n=t.n(i),o=t(6314),r=(t.n(o))()(n());r.push([e.id,`/* What stands below a cell that failed */

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
`,""]),t.d(a,{},{A:r})},5724(e,a,t){var i=t(1601),n=t.n(i),o=t(6314),r=(t.n(o))()(n());r.push([e.id,`/* The side panel: blocks that look like those of a card, in JupyterLab's own type and measures. */
#ipyagent-panel {
  overflow-y: auto;
  min-width: 220px;
  background: var(--jp-layout-color1);
}

#ipyagent-panel:focus {
  outline: none;
}

#ipyagent-panel .ipyagent-panel {
  min-height: 100%;
  padding: 8px 0;
  border: 0;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);

  > :not(.ipyagent-live) {
    margin: 0 12px 8px;
  }

  h2 {
    overflow: hidden;
    font-size: var(--jp-ui-font-size2);
    font-weight: 600;
    text-overflow: ellipsis;
    white-space: nowrap;
  }

  .ia-usage {
    padding: 8px 12px;
    border-top: 1px solid var(--ipyagent-line);
    color: var(--ipyagent-muted);
    font-size: var(--ipyagent-small);
  }
}

#ipyagent-panel .ipyagent-panel-empty {
  display: flex;
  flex-direction: column;
  align-items: flex-start;
  gap: 8px;

  ul {
    display: grid;
    gap: 6px;
  }

  button {
    text-align: start;
    white-space: normal;
  }
}

/* The field */

#ipyagent-panel .ipyagent-composer-field {
  position: relative;
  border: 1px solid var(--jp-border-color1);
  border-radius: 4px;
  background: var(--jp-layout-color0);

  &:focus-within {
    border-color: var(--jp-brand-color1);
  }

  &.ipyagent-empty::before {
    content: 'Ask for something; @ names a variable or a file';
    position: absolute;
    inset: 5px 8px;
    overflow: hidden;
    color: var(--ipyagent-muted);
    font-size: var(--ipyagent-code);
    text-overflow: ellipsis;
    white-space: nowrap;
    pointer-events: none;
  }

  /* The editor, and within it what scrolls. */
  > div {
    min-height: calc(3lh + 10px);
    max-height: 12lh;
    background: transparent;

    > div {
      overflow: auto;
    }
  }
}

#ipyagent-panel .ipyagent-composer-buttons {
  display: flex;
  gap: 6px;
  align-items: center;
  margin-top: 6px;

  .ipyagent-button-model {
    overflow: hidden;
    text-overflow: ellipsis;
  }

  :is(.ipyagent-button-model, .ipyagent-button-new-session) {
    padding-inline: 6px;
    border-color: transparent;
    color: var(--ipyagent-muted);
  }

  .ipyagent-button-ask {
    margin-inline-start: auto;
  }
}

/* At the right, where there is room for it. */
body:has(#jp-right-stack .ipyagent-composer :focus) [class~='jp-Completer'] {
  inset-inline: auto 8px !important;
}

/* Sections and their rows */

#ipyagent-panel .ia-section {
  border-top: 1px solid var(--ipyagent-line);
  padding: 4px 0 6px;

  > summary {
    display: flex;
    gap: 8px;
    align-items: baseline;
    padding: 2px 12px;

    &::after {
      content: '›';
      width: 12px;
      text-align: center;
    }

    small {
      margin-inline-start: auto;
      color: var(--ipyagent-muted);
    }
  }

  &[open] > summary::after {
    rotate: 90deg;
  }

  &:has(.ipyagent-find input:not(:placeholder-shown)) > .ia-rows {
    display: none;
  }
}

#ipyagent-panel .ia-row {
  position: relative;
  display: grid;
  grid-template-columns: auto 1fr auto;
  padding: 3px 12px;

  &:has(button):hover {
    background: var(--jp-layout-color2);
  }

  .ia-glyph {
    margin-inline-end: 8px;
  }

  .ia-words {
    display: flex;
    flex-direction: column;
    grid-area: 1 / 2;
    min-width: 0;
    overflow-wrap: anywhere;
  }

  .ia-title {
    overflow: hidden;
    text-overflow: ellipsis;
    unicode-bidi: isolate;
  }

  small {
    color: var(--ipyagent-muted);
  }
}

/* A run of a call stands below the run that made the call. */
#ipyagent-panel .ia-rows .ia-rows {
  margin-inline-start: 19px;
  border-inline-start: 2px solid var(--ipyagent-line);
}

#ipyagent-panel :is(.ia-section-runs, .ia-section-sessions, .ia-section-asked) .ia-title {
  white-space: nowrap;
}

#ipyagent-panel .ia-section-plan .ia-words {
  max-height: 6lh;
  overflow-y: auto;
}

#ipyagent-panel .ia-session-current .ia-title {
  font-weight: 600;
}

/* Quiet until the row is meant; all of the row leads to its cell. */
#ipyagent-panel .ipyagent-row-buttons {
  display: flex;
  grid-area: 1 / 2;
  gap: 4px;
  align-self: center;
  justify-self: end;

  .ipyagent-button {
    padding: 1px 8px;
    background: var(--jp-layout-color1);
  }

  .ipyagent-button-jump::after {
    content: '';
    position: absolute;
    inset: 0;
  }

  .ipyagent-button-stop {
    position: relative;
    z-index: 1;
  }

  :is(.ipyagent-button-jump, .ipyagent-button-resume):not(:hover, :focus-visible) {
    opacity: 0;
  }

  &:has(> small) {
    grid-area: 2 / 2;
    justify-self: start;
  }
}

#ipyagent-panel .ia-section-asked .ipyagent-row-buttons {
  grid-column: 3;
}

/* Always in sight, so beside the words; the whole row is then the button to its cell. */
#ipyagent-panel .ipyagent-row-buttons:has(.ipyagent-button-stop) {
  grid-column: 3;
  margin-inline-start: 8px;

  .ipyagent-button-jump:not(:focus-visible) {
    position: absolute;
    inset: 0;
    opacity: 0 !important;
  }
}

#ipyagent-panel .ia-row:hover .ipyagent-row-buttons .ipyagent-button,
#ipyagent-panel .ia-section-asked .ipyagent-row-buttons .ipyagent-button {
  opacity: 1;
}

@media (hover: none) {
  #ipyagent-panel .ipyagent-row-buttons .ipyagent-button {
    opacity: 1;
  }
}

#ipyagent-panel .ia-section-asked :is(.ia-tool, .ia-plan) {
  margin-inline: 12px;
}

/* Variables */

#ipyagent-panel .ia-section-variables .ia-line {
  flex-wrap: nowrap;
  padding-inline: 12px;
  white-space: nowrap;

  > small {
    margin-inline-start: auto;
    color: var(--ipyagent-muted);
  }

  > .ia-chip {
    flex: none;
    max-width: 60%;
  }

  > .ia-type {
    flex: 0 1 auto;
    min-width: 2em;
    overflow: hidden;
    text-overflow: ellipsis;
  }
}

#ipyagent-panel .ia-rows .ipyagent-head {
  padding: 0 12px;
}

#ipyagent-panel .ipyagent-find {
  padding: 4px 12px;

  .ipyagent-reason {
    width: 100%;
    max-width: none;
  }

  .ia-row {
    margin-inline: -12px;
  }
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
`,""]),t.d(a,{},{A:r})},2679(e,a,t){var i=t(1601),n=t.n(i),o=t(6314),r=(t.n(o))()(n());r.push([e.id,`/* A change of the notebook that waits for a decision, where it would be made. */

.ipyagent-card.ipyagent-proposal.ipyagent-proposal {
  margin: 4px 0 8px calc(var(--jp-cell-prompt-width, 64px) + var(--jp-cell-collapser-width, 8px));
  padding: 5px 10px;
  border-inline-start: 3px solid var(--ipyagent-accent);

  /* Where outputs are beside the cells: below both. */
  grid-column: 1 / -1;
}

.ipyagent-proposal-title {
  color: var(--ipyagent-muted);
  font-size: var(--ipyagent-small);
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

:is(.ia-tool, .ia-plan, .ipyagent-proposal):focus {
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
`,""]),t.d(a,{},{A:r})},2264(e,a,t){var i=t(1601),n=t.n(i),o=t(6314),r=t.n(o),p=t(4417),s=t.n(p),l=new URL(t(1561),t.b),d=new URL(t(5609),t.b),c=new URL(t(1911),t.b),g=r()(n()),u=s()(l),h=s()(d),y=s()(c);g.push([e.id,`/*
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

  /* Code in colors: keywords, strings, numbers, comments, names; added and removed lines. */
  pre > code > :is(b, samp, data, i, var, ins, del) {
    color: color-mix(in srgb, var(--tone) 75%, currentcolor);
    font: inherit;
    text-decoration: none;
  }

  pre > code > b {
    --tone: var(--jp-mirror-editor-keyword-color, #8250df);
  }

  pre > code > samp {
    --tone: var(--jp-mirror-editor-string-color, #c0672c);
  }

  pre > code > data {
    --tone: var(--jp-mirror-editor-number-color, #2e9e5b);
  }

  pre > code > i {
    --tone: var(--jp-mirror-editor-comment-color, #6e8188);
  }

  pre > code > var {
    --tone: var(--jp-mirror-editor-def-color, #2f7de1);
  }

  pre > code > ins {
    --tone: #2e9e5b;
  }

  pre > code > del {
    --tone: #d9463c;
  }

  :not(pre) > code {
    margin: 0;
    padding: 1px 3px;
    border-radius: 3px;
    background: var(--soft);
  }

  /* A formula that is set, here or by an export's MathJax, stays in its place; else it is code. */
  .ia-formula:has(*) {
    display: inline-block;
    max-width: 100%;
    max-height: 40em;
    padding: 0;
    background: none;
    font: inherit;
    contain: paint;
  }

  div > .ia-formula:has(*) {
    display: block;
    overflow: auto;
  }

  /* LaTeX of an output, or its text. */
  .ia-latex:has(> .ia-formula > *) > pre, .ia-latex > .ia-formula:not(:has(*)) {
    display: none;
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
    --icon: url(${u});
  }

  .ia-change {
    --icon: url(${h});
  }

  .ia-file {
    --icon: url(${y});
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
    display: block;
    background: color-mix(in srgb, #2e9e5b 16%, transparent);
  }

  .ia-diff-removed {
    background: color-mix(in srgb, #d9463c 16%, transparent);
  }

  :is(.ia-diff-added, .ia-diff-removed) b {
    border-radius: 2px;
    background: color-mix(in srgb, #2e9e5b 30%, transparent);
  }

  .ia-diff-removed b {
    background: color-mix(in srgb, #d9463c 30%, transparent);
  }

  /* What is coming in: its end is in sight. */
  :is(.ia-tail, .ia-written) {
    color: var(--muted);
    font-size: var(--small);

    pre {
      display: flex;
      flex-direction: column-reverse;
      max-height: 9em;
    }
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

  table :is(th, td):first-child {
    position: sticky;
    inset-inline-start: 0;
    background: var(--jp-layout-color0, var(--vscode-editor-background, transparent));
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

    &[bgcolor] {
      color: #000;
      text-shadow: 0 0 3px #fff, 0 0 3px #fff; /* on dark cells too */
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

    &[role='link'] {
      cursor: pointer;
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

  /* A run that only planned is one line: the card of its plan follows. */
  &.ia-done > .ia-ending {
    float: inline-start;
    margin-inline-end: 8px;
    line-height: 24px;
  }

  .ia-footer {
    line-height: 24px;

    pre, blockquote {
      line-height: 1.45;
    }
  }
}
`,""]),t.d(a,{},{A:g})},6314(e){e.exports=function(e){var a=[];return a.toString=function(){return this.map(function(a){var t="",i=void 0!==a[5];return a[4]&&(t+="@supports (".concat(a[4],") {")),a[2]&&(t+="@media ".concat(a[2]," {")),i&&(t+="@layer".concat(a[5].length>0?" ".concat(a[5]):""," {")),t+=e(a),i&&(t+="}"),a[2]&&(t+="}"),a[4]&&(t+="}"),t}).join("")},a.i=function(e,t,i,n,o){"string"==typeof e&&(e=[[null,e,void 0]]);var r={};if(i)for(var p=0;p<this.length;p++){var s=this[p][0];null!=s&&(r[s]=!0)}for(var l=0;l<e.length;l++){var d=[].concat(e[l]);i&&r[d[0]]||(void 0!==o&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=o),t&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=t),n&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=n):d[4]="".concat(n)),a.push(d))}},a}},4417(e){e.exports=function(e,a){return(a||(a={}),e&&(e=String(e.__esModule?e.default:e),/^['"].*['"]$/.test(e)&&(e=e.slice(1,-1)),a.hash&&(e+=a.hash),/["'() \t\n]|(%20)/.test(e)||a.needQuotes))?'"'.concat(e.replace(/"/g,'\\"').replace(/\n/g,"\\n"),'"'):e}},1601(e){e.exports=function(e){return e[1]}},5072(e){var a=[];function t(e){for(var t=-1,i=0;i<a.length;i++)if(a[i].identifier===e){t=i;break}return t}function i(e,i){for(var n={},o=[],r=0;r<e.length;r++){var p=e[r],s=i.base?p[0]+i.base:p[0],l=n[s]||0,d="".concat(s," ").concat(l);n[s]=l+1;var c=t(d),g={css:p[1],media:p[2],sourceMap:p[3],supports:p[4],layer:p[5]};if(-1!==c)a[c].references++,a[c].updater(g);else{var u=function(e,a){var t=a.domAPI(a);return t.update(e),function(a){a?(a.css!==e.css||a.media!==e.media||a.sourceMap!==e.sourceMap||a.supports!==e.supports||a.layer!==e.layer)&&t.update(e=a):t.remove()}}(g,i);i.byIndex=r,a.splice(r,0,{identifier:d,updater:u,references:1})}o.push(d)}return o}e.exports=function(e,n){var o=i(e=e||[],n=n||{});return function(e){e=e||[];for(var r=0;r<o.length;r++){var p=t(o[r]);a[p].references--}for(var s=i(e,n),l=0;l<o.length;l++){var d=t(o[l]);0===a[d].references&&(a[d].updater(),a.splice(d,1))}o=s}}},7659(e){var a={};e.exports=function(e,t){var i=function(e){if(void 0===a[e]){var t=document.querySelector(e);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(e){t=null}a[e]=t}return a[e]}(e);if(!i)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");i.appendChild(t)}},540(e){e.exports=function(e){var a=document.createElement("style");return e.setAttributes(a,e.attributes),e.insert(a,e.options),a}},5056(e,a,t){e.exports=function(e){var a=t.nc;a&&e.setAttribute("nonce",a)}},7825(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var a=e.insertStyleElement(e);return{update:function(t){var i,n,o;i="",t.supports&&(i+="@supports (".concat(t.supports,") {")),t.media&&(i+="@media ".concat(t.media," {")),(n=void 0!==t.layer)&&(i+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),i+=t.css,n&&(i+="}"),t.media&&(i+="}"),t.supports&&(i+="}"),(o=t.sourceMap)&&"u">typeof btoa&&(i+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(o))))," */")),e.styleTagTransform(i,a,e.options)},remove:function(){var e;null===(e=a).parentNode||e.parentNode.removeChild(e)}}}},1113(e){e.exports=function(e,a){if(a.styleSheet)a.styleSheet.cssText=e;else{for(;a.firstChild;)a.removeChild(a.firstChild);a.appendChild(document.createTextNode(e))}}},4663(e,a,t){var i=t(5072),n=t.n(i),o=t(7825),r=t.n(o),p=t(7659),s=t.n(p),l=t(5056),d=t.n(l),c=t(540),g=t.n(c),u=t(1113),h=t.n(u),y=t(8475),m={};m.styleTagTransform=h(),m.setAttributes=d(),m.insert=s().bind(null,"head"),m.domAPI=r(),m.insertStyleElement=g(),n()(y.A,m),y.A&&y.A.locals&&y.A.locals;var f=t(9033),b={};b.styleTagTransform=h(),b.setAttributes=d(),b.insert=s().bind(null,"head"),b.domAPI=r(),b.insertStyleElement=g(),n()(f.A,b),f.A&&f.A.locals&&f.A.locals;var x=t(2926),v={};v.styleTagTransform=h(),v.setAttributes=d(),v.insert=s().bind(null,"head"),v.domAPI=r(),v.insertStyleElement=g(),n()(x.A,v),x.A&&x.A.locals&&x.A.locals;var w=t(5724),k={};k.styleTagTransform=h(),k.setAttributes=d(),k.insert=s().bind(null,"head"),k.domAPI=r(),k.insertStyleElement=g(),n()(w.A,k),w.A&&w.A.locals&&w.A.locals;var j=t(2679),A={};A.styleTagTransform=h(),A.setAttributes=d(),A.insert=s().bind(null,"head"),A.domAPI=r(),A.insertStyleElement=g(),n()(j.A,A),j.A&&j.A.locals&&j.A.locals},5609(e){e.exports="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27 fill=%27none%27 stroke=%27%23000%27 stroke-width=%271.4%27%3E%3Cpath d=%27M2.5 13.5l.8-3.3 7.7-7.7 2.5 2.5-7.7 7.7zM9.5 4l2.5 2.5%27/%3E%3C/svg%3E"},1911(e){e.exports="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27 fill=%27none%27 stroke=%27%23000%27 stroke-width=%271.4%27%3E%3Cpath d=%27M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3M5.5 8h5M5.5 11h5%27/%3E%3C/svg%3E"},1561(e){e.exports="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27 fill=%27none%27 stroke=%27%23000%27 stroke-width=%271.5%27%3E%3Cpath d=%27M11 6.5a4.5 4.5 0 1 1-9 0 4.5 4.5 0 0 1 9 0zM10 10l4.5 4.5%27/%3E%3C/svg%3E"}}]);