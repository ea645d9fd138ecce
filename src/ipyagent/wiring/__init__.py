"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from ipyagent.wiring.bench import Bench, Engine, Request, refused
from ipyagent.wiring.clients import client_for, warm_up
from ipyagent.wiring.place import Place, Services, workspace_at
from ipyagent.wiring.turns import (
    has_journal,
    journal_for,
    journal_path,
    only_run,
    running_behind,
)

__all__ = [
    "Bench",
    "Engine",
    "Place",
    "Request",
    "Services",
    "client_for",
    "has_journal",
    "journal_for",
    "journal_path",
    "only_run",
    "refused",
    "running_behind",
    "warm_up",
    "workspace_at",
]
