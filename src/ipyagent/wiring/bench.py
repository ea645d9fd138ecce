"""A run from end to end: what a prompt needs, and how its events get to whoever watches."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from ipyagent import descriptors, imports
from ipyagent.agent.approvals import Answer
from ipyagent.agent.context import SYSTEM_PROMPT
from ipyagent.agent.dispatch import Dispatcher
from ipyagent.agent.loop import Loop
from ipyagent.agent.permissions import Standing
from ipyagent.agent.plan_runner import PlanRunner
from ipyagent.agent.planning import check_untied, found, propose_and_run, settle
from ipyagent.agent.policy import Policy
from ipyagent.agent.session import Session
from ipyagent.agent.stream import EventStream, Listener
from ipyagent.agent.validation import (
    VALIDATORS,
    Validator,
    configured_validators,
    installed_validators,
    validate,
)
from ipyagent.config import Config, is_lenient
from ipyagent.errors import AgentError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.interrupt import uninterrupted
from ipyagent.llm.client import Client
from ipyagent.redaction import Redactor, known_secrets, masked
from ipyagent.schema import STANDARD, Decision, Run, RunStatus, StopReason, ToolResult
from ipyagent.services.skills import Skills, personal_folder
from ipyagent.telemetry import logs, trace_ids, tracing
from ipyagent.telemetry.eventlog import EventLog
from ipyagent.tools.base import Tool
from ipyagent.tools.reading import text_of
from ipyagent.tools.results import tidied
from ipyagent.tools.truncate import OutputStore
from ipyagent.tools.workspace import Workspace
from ipyagent.ui.views import View
from ipyagent.wiring.place import Place

Engine = Callable[[], Coroutine[Any, Any, Run]]

HIDDEN_FROM_PROMPT = (
    "The prompt held what looks like a secret. It is hidden from the model, the record and this "
    "transcript; name the environment variable that holds it instead."
)


@dataclass(frozen=True)
class Request:
    """What one cell, or one call of `Agent.ask`, asks for; with `plan`, a plan comes first."""

    prompt: str
    config: Config
    agent: str | None = None
    cell_id: str | None = None
    trace_id: str = field(default_factory=trace_ids.new)
    dry_run: bool = False
    plan: bool = False
    background: bool = False
    """Whether a plan that is approved runs on when its cell has ended."""
    notices: tuple[str, ...] = ()
    """What holds for longer than this request; told where the session was not told before."""
    here: Mapping[str, bool] | None = None
    """What services are switched on and off where it is asked; None: those of the session."""
    news: tuple[str, ...] = ()
    """What has just happened."""


class Bench:
    """What the runs of one request share; made on the main thread, where namespaces are read."""

    def __init__(
        self,
        place: Place,
        session: Session,
        request: Request,
        client: Client,
        cell: Cell,
        show: Callable[[], View],
        own_tools: Iterable[Tool] = (),
    ) -> None:
        self.place, self.session, self.request = place, session, request
        self.client, self.cell, self.show = client, cell, show
        config = request.config
        place.services.configured = config.mcp.servers
        place.services.here = session.services if request.here is None else request.here
        self.standing = Standing(place.workspace.root)
        self.redactor = self._redactor()
        logs.setup(config.logging.level, self.redactor)
        self.instructions, self.notes = _instructions(config, place.workspace)
        self.skills = Skills(place.workspace, personal_folder()) if config.tools.skills else None
        own = [*own_tools, *self._offer_skills()]
        self.toolbox = place.toolbox(
            config, own, self.redactor, cell.main.post, lambda: session.conversation.sources
        )
        self.prompt = self.redactor.text(request.prompt)
        self.notes += place.new_notices(self.toolbox)

    def engine(self, validators: Iterable[Validator] = VALIDATORS) -> Engine:
        """The run that answers the prompt, ready to be driven.

        Raises AgentError for a prompt that cannot be answered, before anything is shown.
        """
        validate(self.request.prompt, (*validators, *self._validators()))
        self.session.check_ready()
        return partial(self._answer, self.place.context(self.request.prompt))

    def plan_engine(self, answer: Answer, reference: str = "") -> Engine:
        """A person's decision on a plan that waits and what follows, ready to be driven."""
        return partial(self._settle, answer, reference)

    def _validators(self) -> Iterator[Validator]:
        """Yield those that packages, settings and the session add."""
        yield from installed_validators()
        folder = self.place.home or self.place.workspace.root
        yield from configured_validators(self.request.config.chat.validators, folder)
        yield from self.session.validators

    async def _answer(self, context: str) -> Run:
        request = self.request
        await self._open_services()
        view = await self._shown()
        stream = self._stream(view)
        loop = Loop(
            request.config,
            self.session,
            self.client,
            self.instructions,
            self._dispatcher(view, stream),
            stream,
            planning=request.plan and not request.dry_run,
        )
        return await propose_and_run(
            loop,
            self.prompt,
            context,
            self._runner,
            notices=self._notices(),
            agent=request.agent,
            cell_id=request.cell_id,
            trace_id=request.trace_id,
        )

    async def _settle(self, answer: Answer, reference: str) -> Run:
        await self._open_services()
        if self.request.background and answer.decision is Decision.APPROVED:
            check_untied(self.toolbox, found(self.session, reference))
        return await settle(self.session, answer, reference, partial(self._on_main, self._runner))

    async def _open_services(self) -> None:
        tools, notes = await self.place.services.tools(self.request.config)
        settings = self.request.config.agent
        lenient = is_lenient(self.request.agent, settings)
        offered = self.toolbox.with_services(tools)
        self.toolbox = offered.only(settings.allowed_tools, lenient=lenient)
        self.notes += (*notes, *self.place.new_notices(offered))

    def _redactor(self) -> Redactor:
        """It knows the secrets of the environment and of the settings."""
        config = self.request.config
        key = config.llm.api_key.get_secret_value() if config.llm.api_key else ""
        servers = self.place.services.secrets() if config.tools.mcp else ()
        return Redactor({*known_secrets(os.environ), key, *servers})

    def _offer_skills(self) -> list[Tool]:
        """Tell the model which skills there are, if any; the tool that reads them."""
        if self.skills is None:
            return []
        self.notes += self.skills.notices()
        if not self.skills.all():
            return []
        self.instructions += f"\n\n{self.skills.prompt()}"
        return [self.skills.tool()]

    async def _on_main(self, job: Callable[[], Any]) -> Any:
        return await asyncio.wrap_future(self.cell.main.post(partial(_whole, job)))

    async def _shown(self) -> View:
        """Open the view. Where the run is stopped meanwhile it is that view that says so."""
        opening = asyncio.ensure_future(self._on_main(self.show))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            try:
                view: View = await opening
            except RuntimeError:  # the cell was stopped first, and nothing was shown
                raise asyncio.CancelledError from None
            if task := asyncio.current_task():
                task.cancel()  # met again where the run has begun
            return view

    def _runner(self) -> PlanRunner:
        """For a plan, with a view of its own; on the main thread."""
        view = self.show()
        stream = self._stream(view)
        return PlanRunner(
            self.request.config,
            self.session,
            self.client,
            self._dispatcher(view, stream),
            stream,
            view.leave,
            release=self.cell.release if self.request.background else None,
        )

    def _stream(self, view: View) -> EventStream:
        watchers = _watchers(self.request.config, self.place.workspace)
        return EventStream(self.session, [view, *watchers], self.redactor)

    def _dispatcher(self, view: View, stream: EventStream) -> Dispatcher:
        return Dispatcher(
            toolbox=self.toolbox,
            policy=self._policy(),
            approvals=self.place.approvals,
            asker=view,
            post=self.cell.main.post,
            pool=_pool(),
            tidy=self._tidy,
            emit=stream.emit,
            recorded=self.session.recorded,
            dry_run=self.request.dry_run,
            clean=self.redactor.of,
        )

    def _policy(self) -> Policy:
        config = self.request.config
        return Policy(
            config.agent.confirm_mode,
            self.session.granted,
            self.session.conversation.sources,
            rules=config.policy.rules,
            standing=self.standing,
            allowed=config.agent.allowed_tools,
            refuses=self.skills.refuses if self.skills else lambda name: None,
            root=self.place.workspace.root,
        )

    def _tidy(self, tool: str, result: ToolResult) -> ToolResult:
        """Without secrets, and cut to what a model should read at once; the whole is in a file."""
        limits = self.toolbox.get(tool).truncate if tool in self.toolbox else STANDARD
        save = OutputStore(self.place.workspace).save
        return tidied(self.redactor.of(result), tool=tool, save=save, limits=limits)

    def _notices(self) -> tuple[str, ...]:
        held = () if self.prompt == self.request.prompt else (HIDDEN_FROM_PROMPT,)
        own = (*self.request.notices, *self.notes, *self.standing.notices())
        standing = (*own, *imports.shadowing_notices())
        return (*self.request.news, *self.session.take_notices(standing), *held)


@uninterrupted
def _whole(job: Callable[[], Any]) -> Any:
    """A job of ours: a view that is half made would stay in the cell."""
    return job()


def _watchers(config: Config, workspace: Workspace) -> Iterator[Listener]:
    """Those who keep an eye on runs beside the view: the event log and traces, where asked for."""
    if config.logging.file:
        yield EventLog(workspace.root / config.logging.file, mask=masked)
    if config.chat.enable_observability:
        yield tracing.spans(os.environ)


def _instructions(config: Config, workspace: Workspace) -> tuple[str, tuple[str, ...]]:
    """The system prompt, and a notice where the person's own could not be read."""
    own, path = config.agent.system_prompt, config.agent.system_prompt_path
    notes: tuple[str, ...] = ()
    if path:
        try:
            own = text_of(workspace.read_bytes(path), path)
        except AgentError as error:
            notes = (f"agent.system_prompt_path: {error}; the standard instructions are used.",)
    return f"{SYSTEM_PROMPT}\n\n{own.strip()}" if own else SYSTEM_PROMPT, notes


def refused(prompt: str, error: AgentError) -> Run:
    """The run of a prompt that could not even be begun."""
    clean = Redactor(known_secrets(os.environ)).text
    return Run(
        id=uuid.uuid4().hex[:12],
        trace_id=trace_ids.new(),
        prompt=clean(prompt),
        status=RunStatus.ERROR,
        stop_reason=StopReason.ERROR,
        error=clean(descriptors.describe(error)),
        duration=0.0,
    )


@cache
def _pool() -> ThreadPoolExecutor:
    # Python's default of cores + 4 would make eight parallel calls two rounds on a small machine.
    return ThreadPoolExecutor(max_workers=32, thread_name_prefix="ipyagent-tool")
