"""A request, and the run of a request that cannot begin."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field

from ipyagent import descriptors
from ipyagent.config import Config
from ipyagent.errors import AgentError
from ipyagent.redaction import Redactor, known_secrets
from ipyagent.schema import Run, RunStatus, StopReason
from ipyagent.telemetry import trace_ids


@dataclass(frozen=True)
class RunRequest:
    """The request of one cell, or of one call of `Agent.ask`; with `plan`, a plan comes first."""

    prompt: str
    config: Config
    agent: str | None = None
    cell_id: str | None = None
    trace_id: str = field(default_factory=trace_ids.new_trace_id)
    dry_run: bool = False
    plan: bool = False
    background: bool = False
    """True if an approved plan keeps running after its cell has ended."""
    notices: tuple[str, ...] = ()
    """Lasting notices, shown once per session."""
    one_time_notices: tuple[str, ...] = ()
    """Notices about recent events."""


def failed_run(prompt: str, error: AgentError) -> Run:
    """Return the failed run of a prompt that could not begin."""
    clean = Redactor(known_secrets(os.environ)).text
    return Run(
        id=uuid.uuid4().hex[:12],
        trace_id=trace_ids.new_trace_id(),
        prompt=clean(prompt),
        status=RunStatus.ERROR,
        stop_reason=StopReason.ERROR,
        error=clean(descriptors.describe(error)),
        duration=0.0,
    )
