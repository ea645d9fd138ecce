"""What tools are, what they returned, and what happened around a call."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, NonNegativeFloat, NonNegativeInt, model_validator

from ipyagent.schema.base import Model
from ipyagent.schema.messages import ImageContent, TextContent, ToolCall, ToolResultContent


class ToolDefinition(Model):
    """A tool as the model is told of it. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Display(Model):
    """One rich output of user code: MIME type to text (never shown without sanitizing)."""

    data: dict[str, str]


class Truncation(Model):
    """What was cut from an output. `path` holds the full text, relative to the workspace."""

    original_chars: NonNegativeInt
    original_lines: NonNegativeInt
    path: str | None = None


class ToolResult(Model):
    """What a tool returned.

    `output` is the text for the model, always present; `value` is the live object, never
    serialised and never sent; `images` reach models that can see; `displays` are for the person.
    """

    success: bool = True
    output: str = ""
    error: str | None = None
    value: Any = Field(default=None, exclude=True, repr=False)
    images: tuple[ImageContent, ...] = ()
    displays: tuple[Display, ...] = ()
    truncated: Truncation | None = None

    @model_validator(mode="after")
    def _a_failure_says_why(self) -> Self:
        if self.success:
            if self.error is not None:
                raise ValueError("a successful result has no error")
            return self
        if not self.error and not self.output:
            raise ValueError("a failed result needs an error or an output")
        # object.__setattr__ because the record is frozen for everybody else.
        object.__setattr__(self, "error", self.error or self.output)
        object.__setattr__(self, "output", self.output or self.error)
        return self

    @classmethod
    def failure(cls, error: str) -> ToolResult:
        """A failed result; `error` is what model and person read."""
        return cls(success=False, error=error)

    def to_content(self, call_id: str) -> ToolResultContent:
        """The result as the model sees it, answering the call with that id."""
        text = TextContent(text=self.output or "(no output)")
        return ToolResultContent(
            tool_use_id=call_id, content=(text, *self.images), is_error=not self.success
        )


class ToolStatus(StrEnum):
    """Where a call is on its way; the last four are final."""

    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    """How it was decided whether a call may run."""

    AUTO = "auto"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


class DecidedBy(StrEnum):
    """Who decided."""

    POLICY = "policy"
    SESSION = "session"  # an earlier "Always for this session"
    BUTTON = "button"
    PROMPT = "prompt"
    MAGIC = "magic"


class Preview(Model):
    """What a call would do, as the approval card shows it."""

    kind: Literal["code", "diff", "arguments"]
    text: str
    language: str = "text"


class ToolExecution(Model):
    """One call and all that happened to it. `duration` is in seconds."""

    call: ToolCall
    sensitive: bool = False
    status: ToolStatus = ToolStatus.PENDING
    preview: Preview | None = None
    decision: Decision | None = None
    decided_by: DecidedBy | None = None
    reason: str | None = None
    dry_run: bool = False
    result: ToolResult | None = None
    started_at: AwareDatetime | None = None
    duration: NonNegativeFloat | None = None
