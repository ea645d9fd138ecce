"""All messages between a kernel and its pages.

Each message is one JSON object with a `type`; an `id` identifies the later `reply`. The `ToRun` and
`FromRun` messages travel on the comm of a card's widget, or inside of a `to_run` and a `run`
message on that of the page: see feed.py and page_bridge.py. `labextension/src/protocol.ts` is
generated from these classes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ipyagent.json_types import JsonDict
from ipyagent.schema import ToolStatus
from ipyagent.schema.messages import JsonValue, Model
from ipyagent.ui.transcript import (
    Approval,
    Late,
    Proposal,
    Question,
    SayField,
    State,
    UserText,
)


class RunLine(Model):
    """A run, as a page finds and restores its card; `number` is its cell's number."""

    id: str
    cell_id: str | None
    number: int | None
    live: bool
    prompt: str
    facts: tuple[str, ...]
    taken_back: tuple[str, ...]
    steps: int
    started_at: datetime
    duration: float | None


class AskedCall(Model):
    """A call that is asked about, or a plan's step, as an editor needs it.

    `code` names the argument that is code in a `language`; None if all are edited as JSON.
    """

    id: str
    name: str
    note: str = ""
    arguments: JsonDict
    code: str | None = None
    language: str = "python"


class Asked(Model):
    """A form: it decides on a call or the steps of a plan, or answers the question.

    `about` names what it is about. `late` is a decision that came before the click; `approval` is
    None if only that is to be said.
    """

    type: Literal["asked"] = "asked"
    run_id: str
    about: str
    approval: Approval | None
    question: Question | None = None
    late: Late | None = None
    calls: tuple[AskedCall, ...] = ()


class PendingApproval(Model):
    """A waiting decision about a call or a whole plan; `about` names it in a word.

    `change` is what would become of a cell, or "". A plan that no cell asks about has an
    `approval_id` of "", and no calls that could be edited.
    """

    approval_id: str
    run_id: str
    cell_id: str | None
    about: str
    asked: Asked
    proposal: Proposal | None = None
    change: str = ""


class Review(Model):
    """Several calls of a step that wait: the ids of their approvals, in the order of the calls."""

    type: Literal["review"] = "review"
    approvals: tuple[str, ...]


class Progress(Model):
    """A run that is on: when it began, and whether it has only now; it can be stopped."""

    type: Literal["progress"] = "progress"
    started_at: datetime
    is_new: bool


class Countdown(Model):
    """Seconds until the next try."""

    type: Literal["countdown"] = "countdown"
    seconds: float


class Source(Model):
    """Code that a call ran, which can be kept as a cell."""

    type: Literal["source"] = "source"
    text: str


class Unsent(Model):
    """Texts of the user that wait, in the order of the block; each can be taken back."""

    type: Literal["unsent"] = "unsent"
    texts: tuple[UserText, ...]


class Steering(SayField):
    """The field for the user's next text."""

    type: Literal["say"] = "say"


class RowButton(Model):
    """A button of a row of the side panel, about a cell, a run or a session."""

    name: Literal["jump", "stop", "resume"]
    label: str
    title: str
    of: str


class Row(Model):
    """The buttons of a row of the side panel."""

    type: Literal["row"] = "row"
    buttons: tuple[RowButton, ...]


class Head(Model):
    """A variable that can be opened; the run with that id changed it last."""

    type: Literal["head"] = "head"
    name: str
    run_id: str


class Search(Model):
    """A field that finds sessions."""

    type: Literal["search"] = "search"


Own = Annotated[
    Asked | Review | Progress | Countdown | Source | Unsent | Steering | Row | Head | Search,
    Field(discriminator="type"),
]
"""The data of what only a page adds to a block: buttons and clocks are made of it, not of HTML."""


class Drawn(Model):
    """A block of a run as HTML: one element, in which the blocks below it stand at the end.

    `more` is plain text behind the words of the block.
    """

    key: str
    html: str
    more: str = ""
    own: Own | None = None


class Blocks(Model):
    """Blocks of HTML; `order` has the keys of those in each block, and of the outermost in ""."""

    set: tuple[Drawn, ...]
    order: dict[str, tuple[str, ...]]


class Overview(Model):
    """An overview of a notebook: its newest runs, oldest first, and the side panel.

    `model` would answer now; the blocks of `panel` are those that have changed; `status` is the
    line of the status bar.
    """

    model: str
    runs: tuple[RunLine, ...]
    approvals: tuple[PendingApproval, ...]
    panel: Blocks
    status: str


class Addition(Model):
    """More plain text behind the words of a block."""

    key: str
    text: str


class Gone(Model):
    """The look of a run whose kernel is gone while it is on.

    `states` of calls by those that they had; `replaced` is HTML for all that a selector finds.
    """

    state: State
    states: dict[ToolStatus, ToolStatus]
    replaced: dict[str, str]
    ending: str


class Snapshot(Blocks):
    """The whole run; `seq` is the last message that it includes. No block before the run begins."""

    type: Literal["snapshot"] = "snapshot"
    seq: int
    gone: Gone


class Changes(Model):
    """The changes since the message before: blocks that are new or other, and blocks that go.

    `order` has those blocks of which the blocks within are others, or stand in another order.
    """

    type: Literal["changes"] = "changes"
    seq: int
    set: tuple[Drawn, ...] = ()
    order: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    more: tuple[Addition, ...] = ()
    drop: tuple[str, ...] = ()


FromRun = Annotated[Snapshot | Changes, Field(discriminator="type")]


class Init(Model):
    """A page draws the run: clicks arrive."""

    type: Literal["init"] = "init"


class Resync(Model):
    """A page missed a message."""

    type: Literal["resync"] = "resync"


class Stop(Model):
    """The user stops the run."""

    type: Literal["stop"] = "stop"


class Say(Model):
    """The user says something that the model reads with its next request."""

    type: Literal["say"] = "say"
    text: str


class TakeBack(Model):
    """The user takes back a text that waits."""

    type: Literal["take_back"] = "take_back"
    text_id: str


class Approve(Model):
    """The user approves once, or for longer."""

    decision: Literal["approve", "always", "folder"]
    reason: str = ""


class Deny(Model):
    """The user denies a call or a plan, or declines to answer."""

    decision: Literal["deny"] = "deny"
    reason: str = ""


class Reply(Model):
    """The user answers a question."""

    decision: Literal["answer"] = "answer"
    text: str


class EditedCall(Model):
    """A call, or a step of a plan, as the user edited it."""

    id: str
    name: str
    note: str
    arguments: JsonDict


class Edit(Model):
    """The user edits a call or the steps of a plan, and is asked again."""

    decision: Literal["edit"] = "edit"
    calls: tuple[EditedCall, ...]


Answer = Annotated[Approve | Deny | Reply | Edit, Field(discriminator="decision")]


class Decide(Model):
    """The user decides; each answer is checked against the offer, see questions.py."""

    type: Literal["decide"] = "decide"
    approval_id: str
    answer: Answer


ToRun = Annotated[Init | Resync | Stop | Say | TakeBack | Decide, Field(discriminator="type")]


class ModuleRequest(Model):
    """A card has no module that draws it: see labextension/src/loader.ts."""

    type: Literal["module"] = "module"


class CardModule(Model):
    """The module that draws cards, with its style."""

    type: Literal["module"] = "module"
    hash: str
    source: str
    style: str


class OverviewChanged(Model):
    """The new overview of the notebook; after every change."""

    type: Literal["overview"] = "overview"
    overview: Overview


class RunSays(Model):
    """A message of a run that the page follows."""

    type: Literal["run"] = "run"
    run_id: str
    message: FromRun


class KernelReplies(Model):
    """The answer to a page's `ask`."""

    type: Literal["reply"] = "reply"
    id: int
    value: JsonValue


class PageRequest(Model):
    """The kernel asks for something in the open notebook at `path`, or in the one of `client`."""

    type: Literal["request"] = "request"
    id: int
    what: str
    path: str | None = None
    client: str | None = None
    details: JsonDict


class Ping(Model):
    """Is the page still there? It answers `here`."""

    type: Literal["ping"] = "ping"


class Again(Model):
    """The kernel had dropped the page: it connects again."""

    type: Literal["again"] = "again"


class Bye(Model):
    """ipyagent is no longer loaded."""

    type: Literal["bye"] = "bye"


class Left(Model):
    """Subshells of pages that left; only a page can end them."""

    type: Literal["left"] = "left"
    subshells: tuple[str, ...]


ToPage = Annotated[
    OverviewChanged | RunSays | KernelReplies | PageRequest | Ping | Again | Bye | Left,
    Field(discriminator="type"),
]


class Follow(Model):
    """The page draws this run too, from now on."""

    type: Literal["follow"] = "follow"
    run_id: str


class SayToRun(Model):
    """A message to a run that the page follows."""

    type: Literal["to_run"] = "to_run"
    run_id: str
    message: ToRun


class Ask(Model):
    """The page asks for a run as it is saved in an output: by id, or the cell's newest.

    Or it asks to take a run back; with `dry_run`, only what that would do. Or for the models, once
    `model` answers the next prompts; or for requests that fit the variables and files; or for the
    run as plain cells. Or it says that the cell, which it runs next, asks the model. Or for the
    variable called `text`, names with which that goes on, or the sessions with it. Or it goes on
    with the session `text`, or with a new one.
    """

    type: Literal["ask"] = "ask"
    id: int
    what: Literal[
        "bundle",
        "undo",
        "models",
        "requests",
        "freeze",
        "fresh",
        "variable",
        "complete",
        "sessions",
        "session",
    ] = "bundle"
    text: str = ""
    run_id: str | None = None
    cell_id: str | None = None
    model: str | None = None
    dry_run: bool = False


class Undone(Model):
    """Lines on what was taken back, or would be; and on what stays, with the reason."""

    restored: tuple[str, ...]
    skipped: tuple[str, ...]


class Models(Model):
    """The model that answers, and all that can, each with the reason why it is listed."""

    current: str
    models: dict[str, str]


class NewCell(Model):
    """A cell to be inserted."""

    kind: Literal["code", "markdown"]
    source: str


class Requests(Model):
    """Requests that fit the variables and files; none without any.

    `example` are cells for a user without data.
    """

    requests: tuple[str, ...]
    example: tuple[NewCell, ...]


class Frozen(Model):
    """A run as plain cells; none if the kernel does not know it."""

    cells: tuple[NewCell, ...]


class Described(Model):
    """The description of a variable as HTML."""

    html: str


class Names(Model):
    """Names with which a mention may go on."""

    names: tuple[str, ...]


class Resumed(Model):
    """The session that goes on, in words."""

    text: str


class Replies(Model):
    """The replies to an `Ask`, by what it asks for; one that fails has a `problem` instead."""

    bundle: dict[str, JsonValue] | None
    undo: Undone
    models: Models
    requests: Requests
    freeze: Frozen
    fresh: dict[str, JsonValue]
    variable: Described
    complete: Names
    sessions: Blocks
    session: Resumed


class Shows(Model):
    """The notebooks that the page shows, and the clients that run their cells."""

    type: Literal["shows"] = "shows"
    notebooks: tuple[str, ...]
    clients: tuple[str, ...]


class Here(Model):
    """The answer to `ping`."""

    type: Literal["here"] = "here"


class PageReplies(Model):
    """The answer to a request: a value, or an error."""

    type: Literal["reply"] = "reply"
    id: int
    value: JsonValue = None
    error: str | None = None


ToKernel = Annotated[
    Follow | SayToRun | Ask | Shows | Here | PageReplies, Field(discriminator="type")
]


class Offers(Model):
    """The buttons of a saved run, which a page adds.

    `sources` is the code of each call as a cell, or ""; `cells` are the cells that were changed.
    `go_on` goes on after a limit or a failure, `undo` takes the run back or puts it there again.
    """

    sources: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    go_on: Literal["continue", "try-again"] | None = None
    undo: Literal["undo", "redo"] | None = None


class Protocol(Model):
    """Both directions of both comms, and what a saved run has: the source of the generated file."""

    saved: Offers
    replies: Replies
    from_run: FromRun
    to_run: ToRun
    from_card: ModuleRequest
    to_card: CardModule
    to_page: ToPage
    to_kernel: ToKernel
