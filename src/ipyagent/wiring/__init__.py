"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from ipyagent.wiring.clients import client_for, warm_up
from ipyagent.wiring.environment import Environment, Services
from ipyagent.wiring.run_factory import RunFactory, RunFunction
from ipyagent.wiring.run_task import RunRequest, failed_run
from ipyagent.wiring.runtime import Hold, Runtime, has_journal, journal_path, runtime

__all__ = [
    "Environment",
    "Hold",
    "RunFactory",
    "RunFunction",
    "RunRequest",
    "Runtime",
    "Services",
    "client_for",
    "failed_run",
    "has_journal",
    "journal_path",
    "runtime",
    "warm_up",
]
