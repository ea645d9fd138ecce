"""A run without Jupyter: the shipped `Scripted` model, a real workspace, a plain namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ipyagent import schema
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.session import Session
from ipyagent.config import Layer, combine
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.kernel.namespace import PlainNamespace
from ipyagent.llm.client import Client
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import DecidedBy, Decision, Event, Run, Scope
from ipyagent.store.journal import Journal
from ipyagent.tools.base import Tool
from ipyagent.wiring import Bench, Place, Request, workspace_at

YES = Answer(Decision.APPROVED, DecidedBy.BUTTON)
ALWAYS = Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope.SESSION)
NO = Answer(Decision.DENIED, DecidedBy.BUTTON, "not today")


@dataclass
class Watcher:
    """A view that remembers what it was told and answers as it was told to."""

    place: Place
    answer: Callable[[Approval], Answer | None] | None = None
    events: list[Event] = field(default_factory=list)
    asked: list[Approval] = field(default_factory=list)
    heard: Callable[[Event], None] = lambda event: None

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.heard(event)

    def leave(self) -> None:
        """A plan goes on waiting."""

    async def ask(self, approval: Approval) -> None:
        self.asked.append(approval)
        if self.answer is None:
            raise NoFrontendError("nobody is here")
        if answer := self.answer(approval):
            self.place.approvals.decide(approval.id, answer)

    def types(self) -> list[str]:
        """The types of the events, deltas once."""
        types = [event.type for event in self.events]
        return [t for i, t in enumerate(types) if i == 0 or t != types[i - 1]]


class Lab:
    """A place to run scripted agents in."""

    def __init__(self, root: Path, variables: dict[str, Any] | None = None) -> None:
        self.variables = variables if variables is not None else {}
        self.place = Place(workspace_at(root), PlainNamespace(self.variables))
        self.session = new_session()
        self.watcher = Watcher(self.place)
        self.client: Scripted | None = None
        self.cell = Cell()

    def run(
        self,
        replies: Scripted | Iterable[Any],
        prompt: str = "Go on.",
        *,
        tools: Iterable[Tool] = (),
        answer: Answer | Callable[[Approval], Answer | None] | None = None,
        heard: Callable[[Event], None] = lambda event: None,
        dry_run: bool = False,
        plan: bool = False,
        settings: dict[str, Any] | None = None,
        model: Client | None = None,
        **agent: Any,
    ) -> Run:
        """Play `replies` to a prompt, or ask `model`; keyword arguments are `agent.…` settings."""
        config = combine(Layer("the test", {"agent": agent, **(settings or {})}))
        self.client = replies if isinstance(replies, Scripted) else Scripted(replies)
        reply = (lambda _approval: answer) if isinstance(answer, Answer) else answer
        self.watcher = Watcher(self.place, reply, heard=heard)
        self.cell = Cell()
        bench = Bench(
            self.place,
            self.session,
            Request(prompt, config, dry_run=dry_run, plan=plan),
            model or self.client,
            self.cell,
            lambda: self.watcher,
            tools,
        )
        return drive_sync(self.cell, bench.engine())


@cache
def journal() -> Journal:
    """In memory, one for all labs."""
    return Journal.open(None)


def new_session(where: Journal | None = None) -> Session:
    """One without a past. Runs whose ids are given need a journal of their own."""
    kept = where or journal()
    record = schema.Session()
    kept.create(record)
    return Session(record, kept)


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A scripted tool call."""
    return {"name": name, "arguments": arguments}
