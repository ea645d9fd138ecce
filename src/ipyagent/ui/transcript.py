"""A run as it is drawn: all words, signs and facts, the same for every view.

    Transcript
    ├─ header      model, state, progress, tokens, cost, time
    ├─ context     facts sent beside the prompt
    ├─ notes
    ├─ plan        its steps, and how to decide on it
    ├─ steps
    │  └─ Step     notes, thinking, text, images, calls, facts
    │     └─ Call  one line; its request; its result; figures and tables; the approval
    ├─ todos       before the step `todos_at`
    ├─ ending      why it is not all that was asked for
    └─ footer

Texts of models and tools (text, thinking, arguments, previews, output, media) are unchanged: each
view escapes them in its own way.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from ipyagent.json_types import JsonDict
from ipyagent.numbers import Trace
from ipyagent.schema import CellPlace, Decision, Model, ToolStatus

State = Literal["running", "waiting", "done", "partial", "failed", "cancelled"]
Tone = Literal["plain", "error"]
Kind = Literal["look", "change", "file", "question"]
Change = Literal["created", "changed", "deleted", "other"]


class Fold(Model):
    """A text behind its title; `is_open` says whether it begins expanded."""

    title: str
    text: str
    is_open: bool = False


class Header(Model):
    """The first line; `facts` say how far a run is, as long as it is on."""

    model: str
    badge: str = ""
    state: State
    state_text: str
    facts: tuple[str, ...] = ()
    started_at: datetime


class Late(Model):
    """A decision that came too late: the call or plan had been decided on by then."""

    decision: Decision | Literal["edited"]
    at: datetime


class Choice(Model):
    """One way to decide: `answer` is sent, `label` is on the button."""

    answer: Literal["approve", "always", "folder", "deny"]
    label: str


class Approval(Model):
    """A pending decision; `covers` is the reach of a longer approval."""

    id: str
    question: str
    choices: tuple[Choice, ...]
    covers: str = ""


class Question(Model):
    """A tool's question to the user; `choices` are answers to pick from."""

    text: str
    choices: tuple[str, ...] = ()


class Preview(Model):
    """The effect of a call, as code or as a diff; `caption` names it and counts its lines."""

    kind: Literal["code", "diff"]
    text: str
    language: str
    caption: str


class Argument(Model):
    """An argument that the preview does not show, its value as text."""

    name: str
    value: str


class Image(Model):
    """An image in base64; `label` describes it for screen readers."""

    type: Literal["image"] = "image"
    media_type: str
    data: str
    label: str
    width: int | None = None
    height: int | None = None


class Display(Model):
    """One rich output, as MIME type to text; never drawn without sanitizing."""

    type: Literal["display"] = "display"
    data: dict[str, str]
    label: str


Media = Annotated[Image | Display, Field(discriminator="type")]


class CallRequest(Model):
    """The full request of a call.

    `arguments` are all of them, `shown` those that the preview does not show. `is_exact_folded`: a
    diff or the name of a cell shows some of them in other words.
    """

    arguments: JsonDict
    preview: Preview | None = None
    shown: tuple[Argument, ...] = ()
    is_exact_folded: bool = False
    parse_error: str = ""


class Result(Model):
    """The result of a call: `error` is "" if it succeeded or `output` says the same.

    `for_model` is the text that the model read, if that is another than the output.
    """

    output: str = ""
    error: str = ""
    media: tuple[Media, ...] = ()
    for_model: Fold | None = None


class EffectLine(Model):
    """One thing that a call would change, in words; a file perhaps with its diff.

    `variable` is the name with which the text begins, of a variable that can be described.
    """

    change: Change
    text: str
    diff: str = ""
    variable: str = ""


class Effects(Model):
    """The effects of a call; a title alone says why they are not known.

    `shown` is what it put out on the copy of the kernel, behind `shown_title`.
    """

    title: str
    lines: tuple[EffectLine, ...] = ()
    shown_title: str = ""
    shown: Result | None = None


class Proposal(Model):
    """A change of an open notebook, which is drawn at a cell: its title, and its name."""

    place: CellPlace
    title: str
    about: str


class Gist(Model):
    """A call in few words: its kind, a title that is derived from it, and its changes."""

    kind: Kind = "look"
    title: str = ""
    changes: tuple[EffectLine, ...] = ()


class Call(Model):
    """A tool call: `summary`, `outcome` and `verdict` are in its line, the rest behind it.

    `concern` is why the user is asked beside the tool itself. `decision` is how it was decided,
    `was_asked` whether the user was asked, `is_sensitive` whether it may change something,
    `is_planned` whether it waits in a plan, and `position` the step of a plan that it carries out.
    `live` are the last lines of its output while it runs, and once it was stopped.
    """

    id: str
    name: str
    status: ToolStatus
    glyph: str
    status_text: str
    badge: str = ""
    summary: str = ""
    outcome: str = ""
    verdict: str = ""
    decision: str = ""
    duration: str = ""
    is_open: bool = False
    is_dry: bool = False
    is_planned: bool = False
    is_sensitive: bool = False
    was_asked: bool = False
    position: str = ""
    touches: str = ""
    effects: Effects | None = None
    concern: str = ""
    question: Question | None = None
    request: CallRequest
    remarks: tuple[str, ...] = ()
    result: Result | None = None
    live: str = ""
    facts: tuple[str, ...] = ()
    approval: Approval | None = None
    late: Late | None = None
    gist: Gist = Gist()
    proposal: Proposal | None = None


class Waiting(Model):
    """The wait for the model's reply, or for the next try in so many `seconds`."""

    text: str
    seconds: float | None = None


class UserText(Model):
    """A text that the user added while the run was on; `label` says what became of it."""

    id: str
    label: str
    text: str


class SayField(Model):
    """The field for the user's next text; `problem` is why the last one was refused, or ""."""

    placeholder: str
    problem: str = ""


class AnswerNumber(Model):
    """A number of the answer: where it begins in the text, and where it comes from, in words.

    `step` and `call` are the numbers of the call that it comes from, 0 without one.
    """

    start: int
    text: str
    trace: Trace
    title: str
    step: int = 0
    call: int = 0


class Step(Model):
    """The model's thinking and text, and the calls that it made.

    `user_texts` went to the model with the step's request; `written` are calls that are coming in.
    """

    number: int
    user_texts: tuple[UserText, ...] = ()
    notes: tuple[str, ...] = ()
    waiting: Waiting | None = None
    thinking: Fold | None = None
    text: str = ""
    is_streaming: bool = False
    is_answer: bool = False
    numbers: tuple[AnswerNumber, ...] = ()
    images: tuple[Image, ...] = ()
    written: tuple[Fold, ...] = ()
    calls: tuple[Call, ...] = ()
    facts: str = ""


class PlanStep(Model):
    """A step of a plan; `note` is unchanged, `notes` are its lines; `title` stands for none."""

    id: str
    name: str
    status: ToolStatus
    glyph: str
    status_text: str
    title: str = ""
    note: str = ""
    notes: tuple[str, ...] = ()
    verdict: str = ""
    request: CallRequest
    effects: Effects | None = None
    is_open: bool = False


class Plan(Model):
    """A plan to approve as a whole; `hint` says how, while nobody is asked here."""

    goal: str
    title: str
    hash: str = ""
    steps: tuple[PlanStep, ...]
    hint: str = ""
    approval: Approval | None = None
    late: Late | None = None


class Todo(Model):
    """A task of the checklist."""

    status: Literal["pending", "in_progress", "completed"]
    glyph: str
    status_text: str
    text: str


class Ending(Model):
    """Why a run is not all that was asked for."""

    title: str
    text: str = ""
    tone: Tone = "plain"


class Footer(Model):
    """The last line, and what is folded behind it: the context, brief thoughts, usage, trace id.

    `duration` is "" while the run is on and a clock shows the time, `numbers` counts the ones that
    are in no result.
    """

    duration: str = ""
    numbers: str = ""
    folds: tuple[Fold, ...] = ()
    facts: tuple[str, ...] = ()
    trace_id: str = ""


class Transcript(Model):
    """A run as it is drawn; `is_draft` for a plan that waits."""

    run_id: str
    verbose: int
    is_draft: bool
    header: Header
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    steps: tuple[Step, ...] = ()
    todos: tuple[Todo, ...] = ()
    todos_at: int = 0
    ending: Ending | None = None
    footer: Footer = Footer()
    unsent: tuple[UserText, ...] = ()
    say: SayField | None = None
    replayed: bool = False
    """True if a model may be asked in place of the recording."""

    @property
    def is_over(self) -> bool:
        """True if the run has ended."""
        return self.header.state not in ("running", "waiting")
