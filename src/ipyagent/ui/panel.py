"""The content of the side panel and the status bar.

`labextension/src/protocol.ts` is generated from these classes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ipyagent.schema import ToolStatus
from ipyagent.schema.base import Model
from ipyagent.ui.transcript import Call, Plan, State, Todo


class RunLine(Model):
    """A run in one line; `facts` is everything but the prompt."""

    id: str
    cell_id: str | None
    live: bool
    prompt: str
    title: str
    state: State
    glyph: str
    state_text: str
    facts: tuple[str, ...]
    steps: int
    started_at: datetime
    duration: float | None


class PendingApproval(Model):
    """A waiting decision about a call or a whole plan; `about` names it in a word."""

    approval_id: str
    run_id: str
    cell_id: str | None
    about: str
    call: Call | None = None
    plan: Plan | None = None


class WaitingPlan(Model):
    """A plan that waits while no cell asks about it."""

    run_id: str
    cell_id: str | None
    plan: Plan


class PlanStepLine(Model):
    """The progress of a plan's step."""

    name: str
    note: str
    status: ToolStatus
    glyph: str
    status_text: str


class SessionLine(Model):
    """A conversation of the workspace, with the time of its last activity."""

    id: str
    name: str
    current: bool
    ended: bool
    at: datetime


class VariableLine(Model):
    """The last change of a variable."""

    name: str
    change: Literal["created", "changed", "deleted"]
    type: str
    run_id: str


class SessionName(Model):
    """The session of the notebook."""

    id: str
    name: str


class Overview(Model):
    """An overview of a notebook: the newest entries of each list.

    `model` would answer now. `runs` are oldest first; `plan` and `todos` are those of the newest
    run, `done` is their progress; `usage` is that of all runs of the session; `status` is the line
    of the status bar.
    """

    model: str
    session: SessionName | None
    sessions: tuple[SessionLine, ...]
    runs: tuple[RunLine, ...]
    approvals: tuple[PendingApproval, ...]
    waiting: WaitingPlan | None
    plan: tuple[PlanStepLine, ...]
    todos: tuple[Todo, ...]
    done: str
    variables: tuple[VariableLine, ...]
    usage: tuple[str, ...]
    status: str
