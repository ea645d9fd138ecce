"""A run without Jupyter: the shipped `Scripted` model, a real workspace, a plain namespace."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ipyagent import schema
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.session.session import Session
from ipyagent.config import Layer, resolve_config
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.kernel.namespace import Namespace
from ipyagent.llm.client import Client
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import DecidedBy, Decision, Event, Run, RunState, Scope, advance
from ipyagent.schema.events import Listener
from ipyagent.store.journal import Journal
from ipyagent.tools.base import Tool
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring import Environment, RunFactory, RunRequest

YES = Answer(Decision.APPROVED, DecidedBy.BUTTON)
ALWAYS = Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope.SESSION)
NO = Answer(Decision.DENIED, DecidedBy.BUTTON, "not today")


class Follower:
    """Hands a listener each event with the state of the run after it, as the stream does."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.state: RunState | None = None

    def __call__(self, event: Event) -> None:
        self.state = advance(self.state, event)
        self.listener(event, self.state)


@dataclass
class Watcher:
    """A view that remembers what it was told and answers as it was told to."""

    environment: Environment
    answer: Callable[[Approval], Answer | None] | None = None
    events: list[Event] = field(default_factory=list)
    asked: list[Approval] = field(default_factory=list)
    heard: Callable[[Event], object] = lambda event: None

    def __call__(self, event: Event, state: RunState) -> None:
        self.events.append(event)
        self.heard(event)

    async def ask(self, approval: Approval) -> None:
        self.asked.append(approval)
        if self.answer is None:
            raise NoFrontendError("nobody is here")
        if answer := self.answer(approval):
            self.environment.approvals.decide(approval.id, answer)

    def types(self) -> list[str]:
        """The types of the events, deltas once."""
        types = [event.type for event in self.events]
        return [t for i, t in enumerate(types) if i == 0 or t != types[i - 1]]


class Lab:
    """A place to run scripted agents in."""

    def __init__(self, root: Path, variables: dict[str, Any] | None = None) -> None:
        self.variables = variables if variables is not None else {}
        self.environment = Environment(Workspace(root), Namespace(self.variables))
        self.session = new_session()
        self.watcher = Watcher(self.environment)
        self.client: Scripted | None = None
        self.view_class: Callable[..., Any] = Watcher
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
        model: Client | Callable[[], Client] | None = None,
        request: dict[str, Any] | None = None,
        **agent: Any,
    ) -> Run:
        """Play `replies` to a prompt, or ask `model`; keyword arguments are `agent.…` settings.

        `request` are further fields of the request.
        """
        # What is asked about is what most tests are about.
        agent = {"look_freely": False, **agent}
        config = resolve_config(Layer("the test", {"agent": agent, **(settings or {})}))
        self.client = replies if isinstance(replies, Scripted) else Scripted(replies)
        reply = (lambda _approval: answer) if isinstance(answer, Answer) else answer
        self.cell = Cell()
        self.environment.tools = lambda: tools
        self.watcher = self.view_class(self.environment, reply, heard=heard)
        runs = RunFactory(
            self.environment,
            self.session,
            model or self.client,
            self.cell,
            lambda: self.watcher,
        )
        asked = RunRequest(prompt, config, dry_run=dry_run, plan=plan, **(request or {}))
        return drive_sync(self.cell, runs.build(asked))


class Clock:
    """The clock of a loop, by which time limits are measured.

    A test advances it when what must not be late is there, so that limits may be long.
    """

    def __init__(self, patch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop) -> None:
        self.ahead, self.loop = 0.0, loop
        patch.setattr(loop, "time", lambda: time.monotonic() + self.ahead, raising=False)

    def advance(self, seconds: float) -> None:
        """Let that much time pass at once, from any thread."""
        self.ahead += seconds
        self.loop.call_soon_threadsafe(lambda: None)  # it may wait for what is due now


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


def at_once(jobs: list[Callable[[], object]]) -> None:
    """Do the jobs in threads of their own, which begin together."""
    gate = threading.Barrier(len(jobs))

    def work(job: Callable[[], object]) -> None:
        gate.wait()
        job()

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
