"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.context import SYSTEM_PROMPT, context_block, mentioned
from ipyagent.agent.dispatch import Dispatcher
from ipyagent.agent.loop import Loop
from ipyagent.agent.policy import Policy
from ipyagent.agent.session import Session
from ipyagent.agent.stream import EventStream, Listener
from ipyagent.agent.validation import VALIDATORS, Validator, validate
from ipyagent.config import Config
from ipyagent.errors import AgentError, BusyError, JournalError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.llm.client import Client
from ipyagent.schema import STANDARD, Run, RunStatus, StopReason, ToolResult
from ipyagent.store.database import WITHOUT
from ipyagent.store.journal import Journal
from ipyagent.telemetry import logs, trace_ids, tracing
from ipyagent.telemetry.eventlog import EventLog
from ipyagent.tools.base import Tool, Toolbox, tools_among
from ipyagent.tools.files import file_tools
from ipyagent.tools.namespace import namespace_tools
from ipyagent.tools.reading import text_of
from ipyagent.tools.results import tidied
from ipyagent.tools.search import search_tools
from ipyagent.tools.truncate import OutputStore
from ipyagent.tools.workspace import Workspace
from ipyagent.ui.secrets import masked
from ipyagent.ui.views import View

Engine = Callable[[], Coroutine[Any, Any, Run]]


@dataclass
class Place:
    """Where runs take place: a workspace, a namespace, and the approvals that wait there."""

    workspace: Workspace
    namespace: Namespace
    approvals: Approvals = field(default_factory=Approvals)

    def toolbox(self, config: Config, own: Iterable[Tool] = ()) -> Toolbox:
        """The built-in tools, `own`, and those that the person defined in the namespace."""
        tools = Toolbox(
            [
                *self._built_in(config),
                *own,
                *tools_among(self.namespace.variables().values()),
            ]
        )
        return tools.only(config.agent.allowed_tools)

    def _built_in(self, config: Config) -> Iterator[Tool]:
        if config.tools.files:
            yield from file_tools(self.workspace, allow_delete=config.workspace.allow_delete)
            yield from search_tools(self.workspace)
        flags = config.tools
        yield from namespace_tools(self.namespace, variables=flags.namespace, python=flags.python)

    def context(self, prompt: str) -> str:
        """What the model is told beside the prompt."""
        variables = self.namespace.variables()
        return context_block(
            digest(variables),
            self.workspace.overview(),
            mentioned(prompt, variables, self.workspace.is_file),
        )


@dataclass(frozen=True)
class Request:
    """What one cell, or one call of `Agent.ask`, asks for."""

    prompt: str
    config: Config
    agent: str | None = None
    trace_id: str = field(default_factory=trace_ids.new)
    dry_run: bool = False
    notices: tuple[str, ...] = ()


def engine(
    place: Place,
    session: Session,
    request: Request,
    client: Client,
    cell: Cell,
    show: Callable[[], View],
    *,
    own_tools: Iterable[Tool] = (),
    validators: Iterable[Validator] = VALIDATORS,
) -> Engine:
    """A run, ready to be driven. Called on the main thread, where the namespace may be read.

    Raises AgentError for a prompt that cannot be answered, before anything is shown.
    """
    validate(request.prompt, validators)
    session.check_ready()
    config = request.config
    toolbox = place.toolbox(config, own_tools)
    instructions, notes = _instructions(config, place.workspace)
    if config.mcp.servers:
        notes += ("mcp.servers is set, but this version does not connect to MCP servers.",)
    watchers = tuple(_watchers(config, place.workspace))
    view = show()
    stream = EventStream(session, [view, *watchers])
    dispatcher = Dispatcher(
        toolbox=toolbox,
        policy=Policy(config.agent.confirm_mode, session.always_allowed),
        approvals=place.approvals,
        asker=view,
        post=cell.main.post,
        pool=_pool(),
        tidy=partial(_tidy, OutputStore(place.workspace), toolbox),
        emit=stream.emit,
        recorded=session.recorded,
        dry_run=request.dry_run,
    )
    loop = Loop(config, session, client, instructions, dispatcher, stream)
    return partial(
        loop.run,
        request.prompt,
        place.context(request.prompt),
        notices=(*request.notices, *notes),
        agent=request.agent,
        trace_id=request.trace_id,
    )


def _watchers(config: Config, workspace: Workspace) -> Iterator[Listener]:
    """Those who keep an eye on runs beside the view: the event log and traces, where asked for."""
    logs.setup(config.logging.level)
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
    return Run(
        id=uuid.uuid4().hex[:12],
        trace_id=trace_ids.new(),
        prompt=prompt,
        status=RunStatus.ERROR,
        stop_reason=StopReason.ERROR,
        error=str(error),
        duration=0.0,
    )


_busy = threading.Lock()


@contextmanager
def only_run() -> Iterator[None]:
    """One run at a time in a kernel; raises BusyError for a second one, nested ones included."""
    if not _busy.acquire(blocking=False):
        raise BusyError("an agent is already running in this kernel; wait for it or stop it")
    try:
        yield
    finally:
        _busy.release()


@cache
def workspace_at(root: Path) -> Workspace:
    """The workspace at a folder, opened once and then frozen."""
    return Workspace(root)


def journal_for(workspace: Workspace, *, persist: bool) -> Journal:
    """The journal of a workspace, opened once, or one in memory; raises JournalError."""
    return _journal(workspace) if persist else Journal.open(None)


@cache
def _journal(workspace: Workspace) -> Journal:
    try:
        folder = workspace.state().root
    except AgentError as error:
        raise JournalError(
            f"{error}. Nothing was run, because it could not be recorded. Make the folder "
            f"writable, or {WITHOUT}."
        ) from None
    return Journal.open(folder / "state.db")


@cache
def _pool() -> ThreadPoolExecutor:
    # Python's default of cores + 4 would make eight parallel calls two rounds on a small machine.
    return ThreadPoolExecutor(max_workers=32, thread_name_prefix="ipyagent-tool")


def _tidy(store: OutputStore, toolbox: Toolbox, tool: str, result: ToolResult) -> ToolResult:
    """Cut to what a model should read at once; the whole is in a file."""
    limits = toolbox.get(tool).truncate if tool in toolbox else STANDARD
    return tidied(result, tool=tool, save=store.save, limits=limits)
