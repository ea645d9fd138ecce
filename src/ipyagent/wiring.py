"""The one place where rooms are wired together; `%%agent` and `Agent` are its two callers."""

from __future__ import annotations

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
from ipyagent.agent.stream import EventStream
from ipyagent.config import Config
from ipyagent.errors import AgentError, BusyError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.namespace import Namespace, digest
from ipyagent.llm.client import Client
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import Run, RunStatus, StopReason, ToolResult
from ipyagent.tools.base import Tool, Toolbox
from ipyagent.tools.files import file_tools
from ipyagent.tools.namespace import namespace_tools
from ipyagent.tools.search import search_tools
from ipyagent.tools.truncate import OutputStore, truncate
from ipyagent.tools.workspace import Workspace
from ipyagent.ui.views import View

Engine = Callable[[], Coroutine[Any, Any, Run]]


@dataclass
class Place:
    """Where runs take place: a workspace, a namespace, and the conversation so far."""

    workspace: Workspace
    namespace: Namespace
    session: Session = field(default_factory=Session)
    approvals: Approvals = field(default_factory=Approvals)

    def toolbox(self, config: Config, own: Iterable[Tool] = ()) -> Toolbox:
        """The built-in tools, `own`, and those that the person defined in the namespace."""
        tools = Toolbox(
            [
                *file_tools(self.workspace, allow_delete=config.workspace.allow_delete),
                *search_tools(self.workspace),
                *namespace_tools(self.namespace),
                *own,
                *(v for v in self.namespace.variables().values() if type(v) is Tool),
            ]
        )
        return tools.only(config.agent.allowed_tools) if config.agent.allowed_tools else tools

    def context(self, prompt: str) -> str:
        """What the model is told beside the prompt."""
        variables = self.namespace.variables()
        return context_block(
            digest(variables),
            self.workspace.overview(),
            mentioned(prompt, variables, self.workspace.is_file),
        )


def engine(
    place: Place,
    config: Config,
    client: Client,
    cell: Cell,
    view: View,
    prompt: str,
    *,
    own_tools: Iterable[Tool] = (),
    notices: tuple[str, ...] = (),
    dry_run: bool = False,
) -> Engine:
    """A run, ready to be driven. Called on the main thread, where the namespace may be read."""
    stream = EventStream([view])
    dispatcher = Dispatcher(
        toolbox=place.toolbox(config, own_tools),
        policy=Policy(config.agent.confirm_mode, place.session.always_allowed),
        approvals=place.approvals,
        asker=view,
        post=cell.main.post,
        pool=_pool(),
        tidy=partial(_tidy, OutputStore(place.workspace)),
        emit=stream.emit,
        dry_run=dry_run,
    )
    loop = Loop(config, place.session, client, SYSTEM_PROMPT, dispatcher, stream)
    return partial(loop.run, prompt, place.context(prompt), notices)


def refused(prompt: str, error: AgentError) -> Run:
    """The run of a prompt that could not even be begun."""
    return Run(
        id=uuid.uuid4().hex[:12],
        session_id="",
        trace_id=uuid.uuid4().hex,
        prompt=prompt,
        model="",
        confirm_mode="",
        max_steps=0,
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


@cache
def _pool() -> ThreadPoolExecutor:
    # Python's default of cores + 4 would make eight parallel calls two rounds on a small machine.
    return ThreadPoolExecutor(max_workers=32, thread_name_prefix="ipyagent-tool")


def _tidy(store: OutputStore, tool: str, result: ToolResult) -> ToolResult:
    """Text without terminal escapes, cut to what a model should read at once."""
    output, truncated = truncate(strip_escapes(result.output), save=store.save)
    error = result.error and truncate(strip_escapes(result.error), save=None, max_chars=2_000)[0]
    return result.model_copy(update={"output": output, "error": error, "truncated": truncated})
