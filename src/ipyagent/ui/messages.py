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
from ipyagent.ui.transcript import Call, CutOff, Plan, State, Todo, Transcript


class RunLine(Model):
    """A run in one line; `facts` is everything but the prompt, `number` its cell's number."""

    id: str
    cell_id: str | None
    number: int | None
    live: bool
    prompt: str
    title: str
    state: State
    glyph: str
    state_text: str
    taken_back: tuple[str, ...]
    facts: tuple[str, ...]
    steps: int
    started_at: datetime
    duration: float | None


class PendingApproval(Model):
    """A waiting decision about a call or a whole plan; `about` names it in a word."""

    approval_id: str
    run_id: str
    cell_id: str | None
    about: str
    call: Call | None = None
    plan: Plan | None = None


class PlanStepLine(Model):
    """The progress of a plan's step."""

    name: str
    note: str
    status: ToolStatus
    glyph: str
    status_text: str


class SessionLine(Model):
    """A conversation of the workspace, with the time of its last activity."""

    id: str
    name: str
    current: bool
    ended: bool
    at: datetime


class VariableLine(Model):
    """The last change of a variable."""

    name: str
    change: Literal["created", "changed", "deleted"]
    type: str
    run_id: str


class Overview(Model):
    """An overview of a notebook: the newest entries of each list.

    `model` would answer now. `runs` are oldest first; `plan` and `todos` belong to the
    newest run, `done` is their progress; `waiting` is a plan that no cell asks about, and has no
    `approval_id`; `usage` is the usage of all runs of the session; `status` is the line
    of the status bar.
    """

    model: str
    sessions: tuple[SessionLine, ...]
    runs: tuple[RunLine, ...]
    approvals: tuple[PendingApproval, ...]
    waiting: PendingApproval | None
    plan: tuple[PlanStepLine, ...]
    todos: tuple[Todo, ...]
    done: str
    variables: tuple[VariableLine, ...]
    usage: tuple[str, ...]
    status: str


class Replacement(Model):
    """A new value at a place of the transcript; the path goes down from the top."""

    path: tuple[str | int, ...]
    value: JsonValue


class Addition(Model):
    """More text at a place of the transcript."""

    path: tuple[str | int, ...]
    append: str


class Snapshot(Model):
    """The whole state; `seq` is the last message that it includes."""

    type: Literal["snapshot"] = "snapshot"
    seq: int
    transcript: Transcript | None
    cut_off: CutOff


class Changes(Model):
    """The changes since the message before."""

    type: Literal["changes"] = "changes"
    seq: int
    changes: tuple[Replacement | Addition, ...]


FromRun = Annotated[Snapshot | Changes, Field(discriminator="type")]


class Init(Model):
    """A page draws the run: clicks arrive."""

    type: Literal["init"] = "init"
    id: str


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
    """A call of a plan as the user edited it."""

    id: str
    name: str
    arguments: JsonDict


class EditedStep(Model):
    """A step of a plan as the user edited it."""

    call: EditedCall
    note: str


class Edit(Model):
    """The user edits a plan."""

    decision: Literal["edit"] = "edit"
    plan: tuple[EditedStep, ...]


class EditCall(Model):
    """The user changes the arguments of a call, and is asked again."""

    decision: Literal["edit_call"] = "edit_call"
    arguments: JsonDict


Answer = Annotated[Approve | Deny | Reply | Edit | EditCall, Field(discriminator="decision")]


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
    `model` answers the next prompts; or for requests that fit the variables and files. Or it says
    that the cell, which it runs next, asks the model.
    """

    type: Literal["ask"] = "ask"
    id: int
    what: Literal["bundle", "undo", "models", "requests", "fresh"] = "bundle"
    run_id: str | None = None
    cell_id: str | None = None
    model: str | None = None
    dry_run: bool = False


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


class Protocol(Model):
    """Both directions of both comms: the source of the generated file."""

    from_run: FromRun
    to_run: ToRun
    from_card: ModuleRequest
    to_card: CardModule
    to_page: ToPage
    to_kernel: ToKernel
