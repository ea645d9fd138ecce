/** Generated from `ipyagent.ui.messages` by `make protocol`: do not change it here. */

/**
 * The decision on a call.
 */
export type Decision = 'auto' | 'approved' | 'denied' | 'expired';
/**
 * The status of a call; the last five are final.
 */
export type ToolStatus =
  | 'pending'
  | 'awaiting_approval'
  | 'running'
  | 'success'
  | 'failed'
  | 'denied'
  | 'cancelled'
  | 'unknown';

/**
 * Both directions of both comms, and what a saved run has: the source of the generated file.
 */
export interface Protocol {
  saved: Offers;
  replies: Replies;
  from_run: Snapshot | Changes;
  to_run: Init | Resync | Stop | Say | TakeBack | Decide;
  from_card: ModuleRequest;
  to_card: CardModule;
  to_page: OverviewChanged | RunSays | KernelReplies | PageRequest | Ping | Again | Bye | Left;
  to_kernel: Follow | SayToRun | Ask | Shows | Here | PageReplies;
}
/**
 * The buttons of a saved run, which a page adds.
 *
 * `sources` is the code of each call as a cell, or ""; `cells` are the cells that were changed.
 * `go_on` goes on after a limit or a failure, `undo` takes the run back or puts it there again.
 */
export interface Offers {
  sources: string[];
  cells: string[];
  go_on: ('continue' | 'try-again') | null;
  undo: ('undo' | 'redo') | null;
}
/**
 * The replies to an `Ask`, by what it asks for; one that fails has a `problem` instead.
 */
export interface Replies {
  bundle: Record<string, unknown> | null;
  undo: Undone;
  models: Models;
  requests: Requests;
  freeze: Frozen;
  fresh: Record<string, unknown>;
  variable: Described;
  complete: Names;
  sessions: Blocks;
  session: Resumed;
}
/**
 * Lines on what was taken back, or would be; and on what stays, with the reason.
 */
export interface Undone {
  restored: string[];
  skipped: string[];
}
/**
 * The model that answers, and all that can, each with the reason why it is listed.
 */
export interface Models {
  current: string;
  models: Record<string, string>;
}
/**
 * Requests that fit the variables and files; none without any.
 *
 * `example` are cells for a user without data.
 */
export interface Requests {
  requests: string[];
  example: NewCell[];
}
/**
 * A cell to be inserted.
 */
export interface NewCell {
  kind: 'code' | 'markdown';
  source: string;
}
/**
 * A run as plain cells; none if the kernel does not know it.
 */
export interface Frozen {
  cells: NewCell[];
}
/**
 * The description of a variable as HTML.
 */
export interface Described {
  html: string;
}
/**
 * Names with which a mention may go on.
 */
export interface Names {
  names: string[];
}
/**
 * Blocks of HTML; `order` has the keys of those in each block, and of the outermost in "".
 */
export interface Blocks {
  set: Drawn[];
  order: {
    [k: string]: string[];
  };
}
/**
 * A block of a run as HTML: one element, in which the blocks below it stand at the end.
 *
 * `more` is plain text behind the words of the block.
 */
export interface Drawn {
  key: string;
  html: string;
  more: string;
  own:
    | (Asked | Review | Progress | Countdown | Source | Unsent | Steering | Row | Head | Search)
    | null;
}
/**
 * A form: it decides on a call or the steps of a plan, or answers the question.
 *
 * `about` names what it is about. `late` is a decision that came before the click; `approval` is
 * None if only that is to be said.
 */
export interface Asked {
  type: 'asked';
  run_id: string;
  about: string;
  approval: Approval | null;
  question: Question | null;
  late: Late | null;
  calls: AskedCall[];
}
/**
 * A pending decision; `covers` is the reach of a longer approval.
 */
export interface Approval {
  id: string;
  question: string;
  choices: Choice[];
  covers: string;
}
/**
 * One way to decide: `answer` is sent, `label` is on the button.
 */
export interface Choice {
  answer: 'approve' | 'always' | 'folder' | 'deny';
  label: string;
}
/**
 * A tool's question to the user; `choices` are answers to pick from.
 */
export interface Question {
  text: string;
  choices: string[];
}
/**
 * A decision that came too late: the call or plan had been decided on by then.
 */
export interface Late {
  decision: Decision | 'edited';
  at: string;
}
/**
 * A call that is asked about, or a plan's step, as an editor needs it.
 *
 * `code` names the argument that is code in a `language`; None if all are edited as JSON.
 */
export interface AskedCall {
  id: string;
  name: string;
  note: string;
  arguments: Record<string, unknown>;
  code: string | null;
  language: string;
}
/**
 * Several calls of a step that wait: the ids of their approvals, in the order of the calls.
 */
export interface Review {
  type: 'review';
  approvals: string[];
}
/**
 * A run that is on: when it began, and whether it has only now; it can be stopped.
 */
export interface Progress {
  type: 'progress';
  started_at: string;
  is_new: boolean;
}
/**
 * Seconds until the next try.
 */
export interface Countdown {
  type: 'countdown';
  seconds: number;
}
/**
 * Code that a call ran, which can be kept as a cell.
 */
export interface Source {
  type: 'source';
  text: string;
}
/**
 * Texts of the user that wait, in the order of the block; each can be taken back.
 */
export interface Unsent {
  type: 'unsent';
  texts: UserText[];
}
/**
 * A text that the user added while the run was on; `label` says what became of it.
 */
export interface UserText {
  id: string;
  label: string;
  text: string;
}
/**
 * The field for the user's next text.
 */
export interface Steering {
  placeholder: string;
  problem: string;
  type: 'say';
}
/**
 * The buttons of a row of the side panel.
 */
export interface Row {
  type: 'row';
  buttons: RowButton[];
}
/**
 * A button of a row of the side panel, about a cell, a run or a session.
 */
export interface RowButton {
  name: 'jump' | 'stop' | 'resume';
  label: string;
  title: string;
  of: string;
}
/**
 * A variable that can be opened; the run with that id changed it last.
 */
export interface Head {
  type: 'head';
  name: string;
  run_id: string;
}
/**
 * A field that finds sessions.
 */
export interface Search {
  type: 'search';
}
/**
 * The session that goes on, in words.
 */
export interface Resumed {
  text: string;
}
/**
 * The whole run; `seq` is the last message that it includes. No block before the run begins.
 */
export interface Snapshot {
  set: Drawn[];
  order: {
    [k: string]: string[];
  };
  type: 'snapshot';
  seq: number;
  gone: Gone;
}
/**
 * The look of a run whose kernel is gone while it is on.
 *
 * `states` of calls by those that they had; `replaced` is HTML for all that a selector finds.
 */
export interface Gone {
  state: 'running' | 'waiting' | 'done' | 'partial' | 'failed' | 'cancelled';
  states: Record<string, ToolStatus>;
  replaced: Record<string, string>;
  ending: string;
}
/**
 * The changes since the message before: blocks that are new or other, and blocks that go.
 *
 * `order` has those blocks of which the blocks within are others, or stand in another order.
 */
export interface Changes {
  type: 'changes';
  seq: number;
  set: Drawn[];
  order: {
    [k: string]: string[];
  };
  more: Addition[];
  drop: string[];
}
/**
 * More plain text behind the words of a block.
 */
export interface Addition {
  key: string;
  text: string;
}
/**
 * A page draws the run: clicks arrive.
 */
export interface Init {
  type: 'init';
}
/**
 * A page missed a message.
 */
export interface Resync {
  type: 'resync';
}
/**
 * The user stops the run.
 */
export interface Stop {
  type: 'stop';
}
/**
 * The user says something that the model reads with its next request.
 */
export interface Say {
  type: 'say';
  text: string;
}
/**
 * The user takes back a text that waits.
 */
export interface TakeBack {
  type: 'take_back';
  text_id: string;
}
/**
 * The user decides; each answer is checked against the offer, see questions.py.
 */
export interface Decide {
  type: 'decide';
  approval_id: string;
  answer: Approve | Deny | Reply | Edit;
}
/**
 * The user approves once, or for longer.
 */
export interface Approve {
  decision: 'approve' | 'always' | 'folder';
  reason: string;
}
/**
 * The user denies a call or a plan, or declines to answer.
 */
export interface Deny {
  decision: 'deny';
  reason: string;
}
/**
 * The user answers a question.
 */
export interface Reply {
  decision: 'answer';
  text: string;
}
/**
 * The user edits a call or the steps of a plan, and is asked again.
 */
export interface Edit {
  decision: 'edit';
  calls: EditedCall[];
}
/**
 * A call, or a step of a plan, as the user edited it.
 */
export interface EditedCall {
  id: string;
  name: string;
  note: string;
  arguments: Record<string, unknown>;
}
/**
 * A card has no module that draws it: see labextension/src/loader.ts.
 */
export interface ModuleRequest {
  type: 'module';
}
/**
 * The module that draws cards, with its style.
 */
export interface CardModule {
  type: 'module';
  hash: string;
  source: string;
  style: string;
}
/**
 * The new overview of the notebook; after every change.
 */
export interface OverviewChanged {
  type: 'overview';
  overview: Overview;
}
/**
 * An overview of a notebook: its newest runs, oldest first, and the side panel.
 *
 * `model` would answer now; the blocks of `panel` are those that have changed; `status` is the
 * line of the status bar.
 */
export interface Overview {
  model: string;
  runs: RunLine[];
  approvals: PendingApproval[];
  panel: Blocks;
  status: string;
}
/**
 * A run, as a page finds and restores its card; `number` is its cell's number.
 */
export interface RunLine {
  id: string;
  cell_id: string | null;
  number: number | null;
  live: boolean;
  prompt: string;
  facts: string[];
  taken_back: string[];
  steps: number;
  started_at: string;
  duration: number | null;
}
/**
 * A waiting decision about a call or a whole plan; `about` names it in a word.
 *
 * `change` is what would become of a cell, or "". A plan that no cell asks about has an
 * `approval_id` of "", and no calls that could be edited.
 */
export interface PendingApproval {
  approval_id: string;
  run_id: string;
  cell_id: string | null;
  about: string;
  asked: Asked;
  proposal: Proposal | null;
  change: string;
}
/**
 * A change of an open notebook, which is drawn at a cell: its title, and its name.
 */
export interface Proposal {
  place: CellPlace;
  title: string;
  about: string;
}
/**
 * A cell of an open notebook that would change, or get a new cell before or after it.
 *
 * `path` is the server's path of the notebook, None for the agent's own.
 */
export interface CellPlace {
  cell_id: string;
  side: 'before' | 'changed' | 'after';
  kind: string;
  path: string | null;
}
/**
 * A message of a run that the page follows.
 */
export interface RunSays {
  type: 'run';
  run_id: string;
  message: Snapshot | Changes;
}
/**
 * The answer to a page's `ask`.
 */
export interface KernelReplies {
  type: 'reply';
  id: number;
  value: unknown;
}
/**
 * The kernel asks for something in the open notebook at `path`, or in the one of `client`.
 */
export interface PageRequest {
  type: 'request';
  id: number;
  what: string;
  path: string | null;
  client: string | null;
  details: Record<string, unknown>;
}
/**
 * Is the page still there? It answers `here`.
 */
export interface Ping {
  type: 'ping';
}
/**
 * The kernel had dropped the page: it connects again.
 */
export interface Again {
  type: 'again';
}
/**
 * ipyagent is no longer loaded.
 */
export interface Bye {
  type: 'bye';
}
/**
 * Subshells of pages that left; only a page can end them.
 */
export interface Left {
  type: 'left';
  subshells: string[];
}
/**
 * The page draws this run too, from now on.
 */
export interface Follow {
  type: 'follow';
  run_id: string;
}
/**
 * A message to a run that the page follows.
 */
export interface SayToRun {
  type: 'to_run';
  run_id: string;
  message: Init | Resync | Stop | Say | TakeBack | Decide;
}
/**
 * The page asks for a run as it is saved in an output: by id, or the cell's newest.
 *
 * Or it asks to take a run back; with `dry_run`, only what that would do. Or for the models, once
 * `model` answers the next prompts; or for requests that fit the variables and files; or for the
 * run as plain cells. Or it says that the cell, which it runs next, asks the model. Or for the
 * variable called `text`, names with which that goes on, or the sessions with it. Or it goes on
 * with the session `text`, or with a new one.
 */
export interface Ask {
  type: 'ask';
  id: number;
  what:
    | 'bundle'
    | 'undo'
    | 'models'
    | 'requests'
    | 'freeze'
    | 'fresh'
    | 'variable'
    | 'complete'
    | 'sessions'
    | 'session';
  text: string;
  run_id: string | null;
  cell_id: string | null;
  model: string | null;
  dry_run: boolean;
}
/**
 * The notebooks that the page shows, and the clients that run their cells.
 */
export interface Shows {
  type: 'shows';
  notebooks: string[];
  clients: string[];
}
/**
 * The answer to `ping`.
 */
export interface Here {
  type: 'here';
}
/**
 * The answer to a request: a value, or an error.
 */
export interface PageReplies {
  type: 'reply';
  id: number;
  value: unknown;
  error: string | null;
}
