"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from ipyagent.wiring.bench import Bench, Engine, Request, refused
from ipyagent.wiring.place import Place, Services, workspace_at
from ipyagent.wiring.turns import journal_for, only_run

__all__ = [
    "Bench",
    "Engine",
    "Place",
    "Request",
    "Services",
    "journal_for",
    "only_run",
    "refused",
    "workspace_at",
]
