"""The request of one cell, or of one call of `Agent.ask`, and the run of one that is refused."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ipyagent import telemetry
from ipyagent.agent.answers import AnswerType
from ipyagent.agent.recordings import Recording
from ipyagent.config import Config
from ipyagent.errors import AgentError, describe_error
from ipyagent.redaction import Redactor, known_secrets
from ipyagent.schema import Run, RunStatus, StopReason


@dataclass(frozen=True)
class RunRequest:
    """The request of one cell, or of one call of `Agent.ask`; with `plan`, a plan comes first."""

    prompt: str
    config: Config
    agent: str | None = None
    cell_id: str | None = None
    trace_id: str = field(default_factory=telemetry.new_trace_id)
    dry_run: bool = False
    plan: bool = False
    background: bool = False
    """True if an approved plan keeps running after its cell has ended."""
    answer: AnswerType | None = None
    expected: tuple[str, ...] = ()
    """Expressions that are to hold of the run."""
    notices: tuple[str, ...] = ()
    """Lasting notices, shown once per session."""
    one_time_notices: Sequence[str] = ()
    """Notices about recent events."""
    replay: Literal["auto", "always", "never"] | None = None
    """Whether a cell may repeat a recording; None: this is no cell."""
    recording: Run | Recording | None = None
    """The run to repeat, if that is known."""
    session_name: str = ""
    """The session's name, if the cell names one."""
    is_attended: bool = False
    """True if the user can be asked."""
    notebook: str = ""
    """The notebook's name."""
    about: str = ""
    """The cell that the prompt is about: its number, or # and its position."""


def failed_run(prompt: str, error: AgentError) -> Run:
    """Return the failed run of a prompt that could not begin."""
    clean = Redactor(known_secrets(os.environ)).text
    return Run(
        id=uuid.uuid4().hex[:12],
        trace_id=telemetry.new_trace_id(),
        prompt=clean(prompt),
        status=RunStatus.ERROR,
        stop_reason=StopReason.ERROR,
        error=clean(describe_error(error)),
        duration=0.0,
    )
