"""Tools' definitions and results, and everything about one call.

Also the small records that tools and services keep, and facts about a workspace as objects: the
text of a prompt's context is written from the same structures. A client that follows rules takes
these instead of reading that text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from operator import not_
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ipyagent.compat import SILENT, convert_definition, convert_execution, convert_result
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.plaintext import strip_escapes
from ipyagent.schema.messages import (
    Amount,
    Count,
    Flag,
    ForeignModel,
    ImageContent,
    JsonObject,
    LazyModel,
    Model,
    Moment,
    Positive,
    Text,
    TextContent,
    TokenUsage,
    ToolCall,
    ToolResultContent,
    now,
)
from ipyagent.schema.tables import distinct, table_in


def _names(value: object) -> object:
    """Split names in one text at commas and spaces."""
    return re.findall(r"[^\s,]+", value) if isinstance(value, str) else value


def _or_empty(value: object) -> object:
    return {} if value is None else value


def _as_text(path: object) -> object:
    return str(path) if isinstance(path, PurePath) else path


class TodoStatus(StrEnum):
    """The state of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class Todo(LazyModel):
    """One task of a checklist; `active_form` describes it in progress: "Running tests"."""

    content: Text = Field(min_length=1)
    status: TodoStatus = TodoStatus.PENDING
    active_form: str = Field(default="", validation_alias=AliasChoices("active_form", "activeForm"))


TODOS = "todo_write"
"""The tool whose newest call holds the checklist."""


def todos_in(arguments: Mapping[str, object]) -> tuple[Todo, ...]:
    """Return the checklist in a call's arguments; empty if there is none."""
    try:
        return TypeAdapter(tuple[Todo, ...]).validate_python(arguments.get("todos", ()))
    except ValidationError:
        return ()


class Note(LazyModel):
    """A note for later sessions.

    `origin` names the sources that had been read when it was written, beside the user.
    """

    content: Text = Field(min_length=1)
    category: str | None = None
    origin: tuple[Text, ...] = ()
    created_at: Moment = Field(
        default_factory=now, validation_alias=AliasChoices("created_at", "timestamp")
    )


class Skill(LazyModel):
    """Instructions for one kind of task; `content` is read when the task comes up."""

    name: str = Field(min_length=1)
    description: Text
    content: Text
    license: str | None = None
    allowed_tools: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = Field(
        default=None, validation_alias=AliasChoices("allowed_tools", "allowed-tools")
    )
    metadata: Annotated[JsonObject, BeforeValidator(_or_empty)] = Field(default_factory=dict)
    skill_path: Annotated[str | None, BeforeValidator(_as_text)] = None

    def to_prompt(self) -> str:
        """Return the skill as the model reads it."""
        return f"# Skill: {self.name}\n\n{self.description}\n\n---\n\n{self.content}\n"


class Endpoint(LazyModel):
    """One operation that a service's description allows."""

    method: str
    path: str


class PendingEdit(LazyModel):
    """An edit that waits for the user; lines are counted from 1."""

    file_path: str
    old_string: Text = Field(min_length=1)
    new_string: Text
    match_line: Positive
    context_before: tuple[Text, ...] = ()
    context_after: tuple[Text, ...] = ()
    created_at: Moment = Field(default_factory=now)
    replace_all: Flag = False
    match_count: Positive = 1


class PythonScript(LazyModel):
    """A script that the agent saved; times are those of its last run."""

    file_id: str = Field(min_length=1)
    file_path: str
    content: Text
    created_at: Moment = Field(default_factory=now)
    last_run_at: Moment | None = None
    run_count: Count = 0


_CALM = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]*")
"""Text without escapes: matching it is a hundred times faster than looking for escapes."""


def _strip_output(text: object) -> object:
    return strip_escapes(text) if isinstance(text, str) and not _CALM.fullmatch(text) else text


Shown = Annotated[str, BeforeValidator(_strip_output)]
"""The output of a tool, without terminal escapes."""


class ToolDefinition(ForeignModel):
    """The definition of a tool for the model. `input_schema` is a JSON Schema of type object."""

    name: str = Field(min_length=1)
    description: Text = ""
    input_schema: JsonObject = Field(validation_alias=AliasChoices("input_schema", "parameters"))

    _convert = convert_definition

    def to_openai(self) -> JsonDict:
        """Return OpenAI's function format."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.input_schema,
        }
        return {"type": "function", "function": function}

    def to_anthropic(self) -> JsonDict:
        """Return Anthropic's tool format."""
        return self.to_dict()

    def to_schema(self) -> JsonDict:
        """Return Anthropic's tool format, which is also ours."""
        return self.to_anthropic()


class Display(Model):
    """One rich output of user code: MIME type to text (never shown without sanitizing).

    `images_before` counts the earlier images of its result. `beside`: it is an output of the cell
    beside the card, which only names it, by its text/plain.
    """

    data: dict[Text, Text]
    beside: Flag = Field(default=False, exclude_if=lambda beside: not beside)
    images_before: Annotated[int, Field(ge=0)] = 0


class VariableChange(Model):
    """A variable that code changed. `type` is its type now, or before it was deleted.

    `summary` is what is different in it: "10 → 12", "+ ratio (float64) · 2 rows dropped".
    `kept` says why the change cannot be taken back; "" if it can. `content` is its size, types and
    a digest of what it holds now, by which a replay compares it. `cells` are the first changed
    cells of a table, as lines of a diff.
    """

    name: Text
    change: Literal["created", "changed", "deleted"]
    type: Text = ""
    summary: Text = Field(default="", exclude_if=lambda text: text == "")
    kept: Text = Field(default="", exclude_if=lambda text: text == "")
    content: Text = Field(default="", exclude_if=not_)
    cells: Text = Field(default="", exclude_if=not_)


class TruncationConfig(Model):
    """Limits for the output of a tool that the model gets at once."""

    max_chars: Positive = 30_000
    max_lines: Positive = 1_000
    enabled: Flag = True


STANDARD = TruncationConfig()
"""The limits of a tool that sets none."""


class TruncatedOutput(Model):
    """The cut part of an output. `path` holds the full text, relative to the workspace."""

    tool_name: str
    path: str | None = Field(default=None, validation_alias=AliasChoices("path", "temp_file_path"))
    original_chars: Count
    original_lines: Count
    created_at: Moment = Field(default_factory=now)


class FileChange(Model):
    """A file that a call changed: SHA-256 of its content before and after; None: no file.

    `mode` are its permissions before. `folder` is the topmost folder that was made for it. `at` is
    the moment, in seconds: calls of delegated tasks change a file in turn.
    """

    path: str
    before: str | None = None
    after: str | None = None
    mode: Count | None = Field(default=None, exclude_if=lambda found: found is None)
    folder: str = Field(default="", exclude_if=not_)
    at: float = Field(default=0.0, exclude_if=not_)


SO_FAR = ". Output so far:\n"
"""Between the reason why a call was stopped and what it had put out."""
_INTERRUPTED = re.compile(
    r"(^|\n)Traceback \(most recent call last\):\n(  .*\n)+KeyboardInterrupt\s*$"
)
"""The end of an output that tells only how its code was stopped."""


class ChildRun(Model):
    """The run that a call began, and what it spent, each with the runs that it began itself.

    `runs` are their ids, its own first.
    """

    runs: tuple[str, ...]
    usage: TokenUsage = TokenUsage()
    cost_usd: Amount | None = None


class ToolResult(ForeignModel):
    """A tool's result.

    `output` is the text for the model, always present; `for_model` replaces it where the model is
    better served by another text than the user, such as a compact table. `value` is the live object
    and `full_output` the uncut text, both never serialized and never sent; nor is `undo`, which
    takes its changes back. `images` reach models that can see; `displays` are for the user; `files`
    and `variables` are those that changed; `lasting` says what else may have changed, and cannot be
    taken back. `frames` are the live tables that it displayed or returned, never serialized;
    `tables` is their number.
    `repeatable` is False for a failure that would only repeat; not serialized. `source`, if the
    tool can tell, names the sources of its content, one on a line: "" for none. `advice` tells the
    model what to do next, and is not shown. `child` is the run of a delegated task.
    """

    success: Flag = True
    output: Shown = Field(default="", validation_alias=AliasChoices("output", "content"))
    error: Shown | None = None
    for_model: Shown | None = Field(default=None, exclude_if=lambda text: text is None)
    advice: Shown = ""
    value: Any = Field(default=None, exclude=True, repr=False)
    images: tuple[ImageContent, ...] = ()
    displays: tuple[Display, ...] = ()
    frames: tuple[Any, ...] = Field(default=(), exclude=True, repr=False)
    tables: Count = Field(default=0, exclude_if=lambda number: number == 0)
    files: tuple[FileChange, ...] = ()
    variables: tuple[VariableChange, ...] = ()
    lasting: tuple[VariableChange, ...] = Field(default=(), exclude_if=not_)
    undo: Any = Field(default=None, exclude=True, repr=False)
    cell: Text = Field(default="", exclude_if=not_)
    """The id of the cell that it changed in the user's own notebook, if a page shows that."""
    truncated: TruncatedOutput | None = None
    failed_line: Count = Field(default=0, exclude_if=not_)
    """The line of the code that raised the error; 0 if that is not known."""
    child: ChildRun | None = Field(default=None, exclude_if=not_)
    full_output: Shown = Field(default="", exclude=True, repr=False)
    repeatable: Flag = Field(default=True, exclude=True, repr=False)
    source: Text | None = Field(default=None, exclude=True, repr=False)

    _convert = convert_result

    @model_validator(mode="after")
    def _fill_texts(self) -> Self:
        if self.success and self.error is not None:
            raise ValueError("a successful result has no error")
        # object.__setattr__ because the record is frozen for everybody else.
        if not self.success:
            text = self.error or self.output or SILENT  # it may have been escapes only
            object.__setattr__(self, "error", text)
            object.__setattr__(self, "output", self.output or text)
        object.__setattr__(self, "full_output", self.full_output or self.output)
        return self

    @model_validator(mode="after")
    def _count_tables(self) -> Self:
        returned = table_in(self.value)
        frames = distinct([*self.frames, *([] if returned is None else [returned])])
        object.__setattr__(self, "frames", frames)
        object.__setattr__(self, "tables", max(self.tables, len(frames)))
        return self

    @classmethod
    def failure(cls, error: str, advice: str = "") -> ToolResult:
        """Return a failed result; `error` is for model and user, `advice` for the model."""
        return cls(success=False, error=error, advice=advice)

    @property
    def text_for_model(self) -> str:
        """The text that the model reads in place of the output, or the output."""
        return self.output if self.for_model is None else self.for_model

    @property
    def content(self) -> tuple[TextContent | ImageContent, ...]:
        """The blocks that the model gets."""
        text = self.text_for_model or "(no output)"
        return (TextContent(text=f"{text} {self.advice}".rstrip(" ")), *self.images)

    @property
    def so_far(self) -> str:
        """The output of a call until it was stopped; "" for others."""
        begin = f"{self.error}{SO_FAR}"
        found = self.output.removeprefix(begin) if self.output.startswith(begin) else ""
        return _INTERRUPTED.sub("", found)

    def with_note(self, note: str, *, only_model: bool = False) -> ToolResult:
        """Return the result with a note below its output, for user and model."""
        texts = {"output": self.output, "for_model": self.for_model}
        if only_model:
            texts = {"for_model": self.text_for_model}
        notes = {
            name: "\n".join(filter(None, (text, note)))
            for name, text in texts.items()
            if text is not None
        }
        return self.model_copy(update=notes)

    def to_content(self, call_id: str) -> ToolResultContent:
        """Return the result as the model gets it, as the answer to the call with that id."""
        return ToolResultContent(
            tool_use_id=call_id, content=self.content, is_error=not self.success
        )


class ToolStatus(StrEnum):
    """The status of a call; the last five are final."""

    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"  # it had begun when kernel or run ended: done, half done or not at all


class Decision(StrEnum):
    """The decision on a call."""

    AUTO = "auto"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


class DecidedBy(StrEnum):
    """The decider on a call."""

    POLICY = "policy"
    SESSION = "session"  # an earlier "Always for this session"
    FOLDER = "folder"  # an earlier "Always in this folder"
    BUTTON = "button"
    PROMPT = "prompt"
    MAGIC = "magic"
    RECORD = "record"  # as it was decided, and done, in the run that is replayed
    REHEARSAL = "rehearsal"  # tried on a copy: nothing would change, or only new plain data


class Scope(StrEnum):
    """The reach of an approval: this call, or all calls of the tool in session or folder."""

    ONCE = "once"
    SESSION = "session"
    FOLDER = "folder"


class Question(Model):
    """A tool's question to the user; `choices` are answers to pick from."""

    text: Text = Field(min_length=1)
    choices: tuple[Text, ...] = ()


class CellPlace(Model):
    """A cell of an open notebook that would change, or get a new cell before or after it.

    `path` is the server's path of the notebook, None for the agent's own.
    """

    cell_id: str
    side: Literal["before", "changed", "after"]
    kind: str
    path: str | None = None


class Preview(Model):
    """The effect of a call, as the approval card shows it."""

    kind: Literal["code", "diff", "arguments"]
    text: Text
    language: str = "text"
    place: Text = Field(default="", exclude_if=not_)
    """The notebook's cell that it is about, in words."""
    cell: CellPlace | None = Field(default=None, exclude_if=not_)
    """That cell, or the one beside it, where a page has the notebook open."""

    def code_beside(self, arguments: JsonMapping) -> str:
        """Return the code that the arguments only name, as that of a cell; "" if they hold it."""
        return "" if self.kind != "code" or self.text in arguments.values() else self.text


class RehearsalOutcome(StrEnum):
    """The outcome of a rehearsal; after the first three nobody is asked."""

    LOOKED = "looked"  # nothing would change: its result is the call's result
    ADOPTED = "adopted"  # only new names of plain data would be: they were adopted
    FAILED = "failed"  # the code raised, and nothing would have changed
    CHANGES = "changes"  # something would change: the user is asked
    SKIPPED = "skipped"  # not rehearsed: `reason` says why
    TRYING = "trying"  # the code still runs on the copy


class FileEffect(Model):
    """A file that a rehearsed call would change; the path of a folder ends in a slash.

    `diff` is the unified diff of a text file in the workspace.
    """

    path: Text
    change: Literal["created", "changed", "deleted"]
    diff: Text = Field(default="", exclude_if=not_)


class Rehearsal(Model):
    """The effects of a call's code on a copy of the kernel, where it can change nothing.

    `reason` is why it was not rehearsed. `texts` say what else would change beside variables and
    files, and what the code attempted that its isolation refused. `left` names what a look has left
    on the copy, `settings` what it set of the environment and the working folder. `result` is what
    the copy put out, until the call itself has run; `compared` is what `differs` then, and what was
    compared. `duration` is in seconds.
    """

    outcome: RehearsalOutcome
    reason: Text = ""
    variables: tuple[VariableChange, ...] = ()
    files: tuple[FileEffect, ...] = ()
    texts: tuple[Text, ...] = ()
    left: tuple[Text, ...] = Field(default=(), exclude_if=not_)
    settings: tuple[Text, ...] = Field(default=(), exclude_if=not_)
    result: ToolResult | None = Field(default=None, exclude_if=not_)
    compared: Text = Field(default="", exclude_if=not_)
    differs: Flag = Field(default=False, exclude_if=not_)
    duration: Amount = 0.0


CHANGES_CELLS = ("insert_cell", "edit_cell")


class ToolExecution(ForeignModel):
    """One call and all that happened to it. `duration` is in seconds.

    `concern` is why the user is asked, if it is not the tool alone; `scopes` are how far their
    approval may reach beyond this call, and `covers` what it then covers. `touches` is what code
    would touch as far as static analysis can tell. `source` names the sources of the result, if not
    the user: one on a line. `proposed` are the model's arguments if the user changed them.
    `signature` proves to a replay that this user approved the call, in its place.
    """

    call: ToolCall
    proposed: JsonObject | None = Field(default=None, exclude_if=lambda found: found is None)
    sensitive: Flag = False
    status: ToolStatus = ToolStatus.PENDING
    preview: Preview | None = None
    question: Question | None = None
    concern: Text | None = None
    scopes: tuple[Scope, ...] = ()
    covers: Text | None = None
    touches: Text | None = None
    source: Text | None = None
    decision: Decision | None = None
    decided_by: DecidedBy | None = None
    reason: Text | None = None
    signature: str = Field(default="", exclude_if=not_)
    rehearsal: Rehearsal | None = Field(default=None, exclude_if=lambda found: found is None)
    dry_run: Flag = Field(default=False, validation_alias=AliasChoices("dry_run", "was_dry_run"))
    result: ToolResult | None = None
    started_at: Moment | None = Field(
        default=None, validation_alias=AliasChoices("started_at", "timestamp")
    )
    duration: Amount | None = Field(
        default=None, validation_alias=AliasChoices("duration", "execution_time")
    )

    _convert = convert_execution

    @property
    def tool_name(self) -> str:
        """The name of the tool that was called."""
        return self.call.name

    @property
    def tool_use_id(self) -> str:
        """The id of the call."""
        return self.call.id

    @property
    def parameters(self) -> JsonDict:
        """The arguments of the call."""
        return self.call.arguments

    @property
    def execution_time(self) -> float | None:
        """Seconds that the call took; None before its end."""
        return self.duration

    @property
    def error_message(self) -> str | None:
        """The error of a failed call, else None."""
        return self.result.error if self.result else None

    @property
    def is_error(self) -> bool:
        """True if the call has a failed result."""
        return self.result is not None and not self.result.success

    @property
    def child_id(self) -> str:
        """The id of the run that the call began; "" if it began none."""
        child = self.result and self.result.child
        return child.runs[0] if child and child.runs else ""

    @property
    def code(self) -> str:
        """The code that was shown, where the arguments only name it."""
        return self.preview.code_beside(self.call.arguments) if self.preview else ""

    @property
    def has_changes(self) -> bool:
        """True if the call changed variables, files or cells."""
        result = self.result
        if result is None:
            return False
        edits_cells = result.success and not self.dry_run and self.call.name in CHANGES_CELLS
        return bool(result.variables or result.files or result.lasting or edits_cells)

    @model_validator(mode="after")
    def _check_status(self) -> Self:
        succeeded = self.result is not None and self.result.success
        if self.status is ToolStatus.FAILED and (succeeded or self.result is None):
            raise ValueError("a failed execution needs a result with an error")
        if self.status is ToolStatus.SUCCESS and self.result is not None and not succeeded:
            raise ValueError("a successful execution has no result with an error")
        return self
