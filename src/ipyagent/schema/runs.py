"""A run: what one prompt led to."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, Field, NonNegativeFloat, NonNegativeInt

from ipyagent.schema.base import Model, now
from ipyagent.schema.messages import ImageContent, Message, TokenUsage
from ipyagent.schema.results import ToolExecution, ToolResult


class RunStatus(StrEnum):
    """Lifecycle of a run."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"


class StopReason(StrEnum):
    """Why a run ended."""

    FINISHED = "finished"
    MAX_STEPS = "max_steps"
    MAX_SECONDS = "max_seconds"
    MAX_TOKENS = "max_tokens"
    MAX_USD = "max_usd"
    LENGTH = "length"  # the model's reply was cut at its own limit
    CONTENT_FILTER = "content_filter"
    EMPTY = "empty"  # the model ended without saying or calling anything
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Outcome(StrEnum):
    """What a run amounted to; computed from status and stop reason."""

    RUNNING = "running"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"


class Step(Model):
    """One request to the model and the calls that it asked for."""

    number: int
    message: Message | None = None
    finish_reason: str | None = None
    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None
    thinking_seconds: NonNegativeFloat | None = None
    executions: tuple[ToolExecution, ...] = ()
    notes: tuple[str, ...] = ()


class Run(Model):
    """What one prompt led to: every step, every call, and how it ended."""

    id: str
    session_id: str
    trace_id: str
    prompt: str
    context: str = ""
    model: str
    confirm_mode: str
    max_steps: NonNegativeInt
    status: RunStatus = RunStatus.RUNNING
    stop_reason: StopReason | None = None
    error: str | None = None
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    started_at: AwareDatetime = Field(default_factory=now)
    duration: NonNegativeFloat | None = None

    @property
    def outcome(self) -> Outcome:
        """`success`, `partial` or `failed`; `running` until the run has ended."""
        if self.status is RunStatus.ERROR:
            return Outcome.FAILED
        if self.status is RunStatus.CANCELLED:
            return Outcome.PARTIAL
        if self.status is not RunStatus.DONE:
            return Outcome.RUNNING
        return Outcome.SUCCESS if self.stop_reason is StopReason.FINISHED else Outcome.PARTIAL

    @property
    def output(self) -> str:
        """The answer: the text of the last reply that had any, or ""."""
        texts = (s.message.text for s in reversed(self.steps) if s.message)
        return next((text for text in texts if text.strip()), "")

    @property
    def executions(self) -> tuple[ToolExecution, ...]:
        """All calls of all steps, in order."""
        return tuple(e for step in self.steps for e in step.executions)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of all calls, in order."""
        return tuple(e.result for e in self.executions if e.result is not None)

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """All images that tools made, in order."""
        return tuple(image for result in self.results for image in result.images)

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all steps together."""
        return sum((step.usage for step in self.steps), TokenUsage())

    @property
    def cost_usd(self) -> float | None:
        """US dollars for all steps together; None where no price is known."""
        costs = [step.cost_usd for step in self.steps if step.cost_usd is not None]
        return sum(costs) if costs else None

    def to_output_dict(self) -> dict[str, Any]:
        """A JSON-ready summary for scripts: status, output, tools used, duration, model."""
        return {
            "status": str(self.outcome),
            "stop_reason": str(self.stop_reason) if self.stop_reason else None,
            "output": self.output,
            "error": self.error,
            "steps": len(self.steps),
            "tools_used": [
                {
                    "name": e.call.name,
                    "args": e.call.arguments,
                    "success": bool(e.result and e.result.success),
                }
                for e in self.executions
            ],
            "usage": self.usage.to_dict(),
            "cost_usd": self.cost_usd,
            "duration_seconds": self.duration,
            "model": self.model,
            "trace_id": self.trace_id,
        }
