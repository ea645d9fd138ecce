"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from ipyagent.wiring.engine import Engine, Request, engine, plan_engine, refused
from ipyagent.wiring.place import Place, Services, workspace_at
from ipyagent.wiring.turns import journal_for, only_run

__all__ = [
    "Engine",
    "Place",
    "Request",
    "Services",
    "engine",
    "journal_for",
    "only_run",
    "plan_engine",
    "refused",
    "workspace_at",
]
