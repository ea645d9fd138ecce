"""The environment of runs: a workspace's tools, a namespace, services."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.prompts import PUSH_DOWN, context_block, describe_mentions
from ipyagent.agent.session.session import Session
from ipyagent.config import Config, LLMConfig, MCPServerConfig
from ipyagent.errors import AgentError, ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.cell_notes import CellNote
from ipyagent.kernel.describe import holds_lazy_data, is_table
from ipyagent.kernel.describe.secrets import secret_strings
from ipyagent.kernel.main_thread import Post
from ipyagent.kernel.namespace import (
    Namespace,
    Provenance,
    ShellNamespace,
    WatchedNamespace,
    digest,
)
from ipyagent.kernel.open_notebooks import OpenNotebooks, current
from ipyagent.llm.client import Client, ModelSize
from ipyagent.llm.local_servers import size_of
from ipyagent.llm.resolve import Resolved
from ipyagent.redaction import Redactor
from ipyagent.services.mcp.sources import ServerSources
from ipyagent.services.openapi.stored_services import has_services
from ipyagent.tools.authors import find_authors
from ipyagent.tools.base import Tool, Toolbox, find_tools
from ipyagent.tools.file_change import Previews
from ipyagent.tools.file_tools import file_tools
from ipyagent.tools.namespace_tools import namespace_tools
from ipyagent.tools.notebook.notebook_file import CellChange
from ipyagent.tools.notebook.notebook_tools import NotebookTools, RunCellTool, check_not_open
from ipyagent.tools.notes import note_tools, question_tool, todo_tool
from ipyagent.tools.result_conversion import OutputStore
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.scripts import ScriptRunner, shell_tools
from ipyagent.tools.search import search_tools
from ipyagent.tools.tables.inspect import describe_table, find_named_tables, list_tables
from ipyagent.tools.tables.sample import GLANCE, MOST_BYTES, NotTableError
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.clients import client_for
from ipyagent.wiring.undo_history import UndoHistory

if TYPE_CHECKING:
    from ipyagent.services.mcp.server import Server
    from ipyagent.services.mcp.servers import MCPServers
    from ipyagent.services.openapi.services import OpenAPIServices


@dataclass(frozen=True)
class Services:
    """The services of a folder, for certain settings; `home` is where its settings are.

    `switches` returns those of the notebook, such as `api:shop` and `mcp:files`, at each use.
    """

    folder: Path
    home: Path
    switches: Callable[[], Mapping[str, bool]] = dict
    configured: tuple[MCPServerConfig, ...] = ()
    """The MCP servers of the settings in force."""
    _connected: dict[str, Server] = field(default_factory=dict)
    _seen: dict[str, JsonDict] = field(default_factory=dict)

    def for_run(self, config: Config) -> Services:
        """Return those of a run by its settings, with the same connections."""
        same = config.mcp.servers == self.configured
        return self if same else replace(self, configured=config.mcp.servers)

    @cached_property
    def mcp(self) -> MCPServers:
        """Return its MCP servers."""
        from ipyagent.services.mcp.servers import MCPServers

        live = self._connected, self._seen
        return MCPServers(self.folder, self.home, os.environ, self.configured, self.switches, *live)

    @cached_property
    def openapi(self) -> OpenAPIServices:
        """Return its OpenAPI services."""
        from ipyagent.services.openapi.services import OpenAPIServices

        return OpenAPIServices(self.folder, self.home, os.environ, self.configured, self.switches)

    def secrets(self) -> Iterator[str]:
        """Yield the secrets in the settings of all configured servers."""
        yield from chain.from_iterable(each.secrets() for each in self.configured)
        for named in self._sources.collect()[0].values():
            with suppress(ConfigError):
                yield from named.config().secrets()

    async def load_tools(self, config: Config) -> tuple[list[Tool], list[str]]:
        """Return their tools, and notices for the user; each server has its own time to connect.

        The code of a kind of service is imported once there is one.
        """
        if not config.tools.mcp:
            return [], []
        tools: list[Tool] = []
        servers, notices = self._sources.collect()
        if servers or self._connected:
            tools, notices = await self.mcp.tools()
        if has_services(self.folder, self.configured):
            return [*self.openapi.tools(), *tools], [*self.openapi.notices(), *notices]
        return tools, notices

    @cached_property
    def _sources(self) -> ServerSources:
        return ServerSources(self.folder, self.home, os.environ, self.configured)


T = TypeVar("T")

RECENT = 50
"""Runs in which the author of a variable is looked for."""


@dataclass
class Environment:
    """A workspace, a namespace, and the approvals that wait there."""

    workspace: Workspace
    namespace: Namespace
    home: Path | None = None
    """The settings' folder; None: the workspace's root."""
    approvals: Approvals = field(default_factory=Approvals)
    notes: Callable[[], Sequence[CellNote]] = tuple
    """Returns what the user's own cells changed."""
    switches: Callable[[], Mapping[str, bool]] = dict
    """Returns the switches of services here."""
    remarks: list[str] = field(default_factory=list)
    """Remarks for the model, with the next prompt."""
    _services: Services | None = field(default=None, init=False)
    _client: Client | None = field(default=None, init=False)
    _sized: tuple[Client, ModelSize] | None = field(default=None, init=False)
    _known_notices: set[str] = field(default_factory=set, init=False)
    _redactor: Redactor | None = field(default=None, init=False)
    _kept: _BuiltInTools | None = field(default=None, init=False)
    _glances: dict[str, tuple[object, str]] = field(default_factory=dict, init=False)

    def services_for_run(self, config: Config) -> Services:
        """Return the services that bring tools from elsewhere; the last ones for equal settings."""
        root = self.workspace.root
        before = self._services or Services(root, self.home or root, self.switches)
        self._services = before.for_run(config)
        return self._services

    def client_for(self, model: str | Resolved, config: LLMConfig) -> Client:
        """Return the client of a model: the last one, if that asks the same service."""
        self._client = client_for(model, config, self.workspace.root, last=self._client)
        return self._client

    async def size_of(self, client: Client) -> ModelSize:
        """Return the size of a client's model, looked up once."""
        if self._sized is None or self._sized[0] is not client:
            self._sized = client, await asyncio.to_thread(size_of, client)
        return self._sized[1]

    @cached_property
    def undo(self) -> UndoHistory:
        """Return the calls that can be taken back."""
        return UndoHistory(self.namespace)

    def limit_undo(self, megabytes: int | None) -> None:
        """Set how much memory may be kept to take changes back; None: as there is memory."""
        self.namespace.undo_memory = None if megabytes is None else megabytes * 10**6

    def check_cell(self, change: CellChange) -> None:
        """Raise AgentError if a change of a cell cannot be taken back."""
        self._ask_page(lambda tools: tools.check_cell(change))

    def revert_cell(self, change: CellChange) -> CellChange:
        """Take back a change of a cell; return the change that this was. Raises AgentError."""
        return self._ask_page(lambda tools: tools.revert_cell(change))

    def _ask_page(self, job: Callable[[NotebookTools], T]) -> T:
        """Run a job that needs a page: not on the main thread, where the answer may come."""
        tools = NotebookTools(self.workspace, self._open_notebooks(), 0)
        with ThreadPoolExecutor(1, thread_name_prefix="ipyagent-undo") as pool:
            return pool.submit(job, tools).result()

    def redactor(self, secrets: Iterable[str]) -> Redactor:
        """Return the redactor of a run, which knows `secrets` and those among the variables.

        It is that of the last run if it knows exactly these.
        """
        new = Redactor({*secrets, *secret_strings(self.namespace.variables())})
        if self._redactor is None or self._redactor.values != new.values:
            self._redactor = new
        return self._redactor

    def build_toolbox(
        self,
        config: Config,
        own_tools: Iterable[Tool] = (),
        redactor: Redactor | None = None,
        post: Post = lambda job: Future(),
        session: Session | None = None,
    ) -> Toolbox:
        """Return the built-in tools, `own_tools`, and those that the user defined in the namespace.

        Outputs that tools save pass the redactor, which learns the secrets that code brings among
        the variables; `post` runs a job on the main thread; the session knows the sources that the
        model has read. A run's built-in tools are those of the last run, unless something that
        they depend on has changed; only those for notebooks belong to the running cell.
        """
        desktop = self._open_notebooks()
        built_in = self._built_in_tools(config, redactor, session, desktop)
        notebook_tools = self._notebook_tools(config, built_in.namespace, desktop, post)
        toolbox = Toolbox([*built_in.tools, *notebook_tools, *own_tools])
        toolbox.add_from_cells(find_tools(self.namespace.variables().values()))
        return toolbox

    @property
    def page_is_open(self) -> bool:
        """True if a page shows the notebook of this namespace."""
        return bool(self._open_notebooks().pages())

    def take_new_notices(self, toolbox: Toolbox) -> tuple[str, ...]:
        """Return notices about the tools that the user has not seen yet."""
        new = tuple(each for each in toolbox.notices if each not in self._known_notices)
        self._known_notices.update(new)
        return new

    def describe(self) -> str:
        """Return the context of a prompt that names nothing."""
        return context_block(digest(self.namespace.variables()), self.workspace.overview(), [])

    def prompt_context(
        self,
        prompt: str,
        may_read: Callable[[str], bool] = lambda path: True,
        is_known: Callable[[str], bool] = lambda text: False,
    ) -> str:
        """Return the context that the model gets with the prompt.

        Of the tables that the prompt names, those are described that `may_read` allows without
        asking, unless the model knows the description already.
        """
        variables = self.namespace.variables()
        tables = self._describe_tables(prompt, variables, may_read)
        remarks, self.remarks = self.remarks, []
        if holds_lazy_data(variables.values()) and not is_known(PUSH_DOWN):
            remarks = [*remarks, PUSH_DOWN]
        return context_block(
            digest(variables),
            self.workspace.overview(),
            describe_mentions(prompt, variables, self.workspace.is_file, tables),
            [text for text in tables.values() if not is_known(text)],
            remarks,
        )

    def _describe_tables(
        self, prompt: str, variables: Mapping[str, object], may_read: Callable[[str], bool]
    ) -> dict[str, str]:
        """Describe the tables that the prompt names; if none, the only one, unless one is loaded.

        No library is imported for it, and nothing is loaded.
        """
        paths = list_tables(self.workspace)
        named = find_named_tables(prompt, paths)
        if not named and len(paths) == 1:
            loaded = any(is_table(type(value)) for value in variables.values())
            named = [] if loaded else paths
        described = ((path, self._describe_table(path)) for path in filter(may_read, named))
        return {path: text for path, text in described if text}

    def _describe_table(self, path: str) -> str:
        """Describe a table for the context, once for each state of its file; "" if that fails."""
        with contextlib.suppress(AgentError):
            status = self.workspace.stat(path)
            state = status and (status.st_ino, status.st_size, status.st_mtime_ns)
            if path not in self._glances or self._glances[path][0] != state:
                self._glances[path] = state, ""
                with contextlib.suppress(NotTableError):
                    text = describe_table(self.workspace, path, GLANCE, MOST_BYTES)
                    self._glances[path] = state, text
            return self._glances[path][1]
        return ""

    def last_description(self, path: str) -> str:
        """Return the newest description of a table that went with a prompt, or ""."""
        return self._glances.get(path, (None, ""))[1]

    @cached_property
    def provenance(self) -> Provenance:
        """Return the sources of the variables' values."""
        return Provenance()

    @cached_property
    def sandbox(self) -> Sandbox:
        """Return the sandbox in which commands run."""
        return Sandbox(self.workspace)

    def describe_author(self, session: Session | None, name: str) -> str:
        """Return who made or changed a variable last; "" if that is not known."""
        runs = session.runs[-RECENT:] if session else ()
        found = find_authors(runs, self.notes(), name)
        return str(found[0]) if found else ""

    def _notebook_tools(
        self, config: Config, namespace: Namespace, desktop: OpenNotebooks, post: Post
    ) -> Iterator[Tool]:
        if not config.tools.notebook:
            return
        seconds = config.workspace.edit_seconds
        yield from NotebookTools(self.workspace, desktop, seconds).tools()
        if config.tools.python and desktop.pages():
            sourced = TrackedNamespace(namespace, self.provenance)
            yield RunCellTool(sourced, desktop, post, seconds).as_tool()

    def _open_notebooks(self) -> OpenNotebooks:
        """Return the notebooks around the running cell."""
        shell = self.namespace.shell if isinstance(self.namespace, ShellNamespace) else None
        return current(shell, self.home or Path.cwd())

    def _built_in_tools(
        self,
        config: Config,
        redactor: Redactor | None,
        session: Session | None,
        desktop: OpenNotebooks,
    ) -> _BuiltInTools:
        """Return the tools that do not depend on the running cell."""
        lasting = replace(desktop, client=None, cell_id=None, number=None, next_input=None)
        inputs = (
            *(config.tools, config.workspace, redactor, session),
            *(lasting.folder, lasting.saved),
        )
        if redactor is None:  # whoever only lists the tools, as completion does, gets others
            return _BuiltInTools(self, inputs, config, redactor, session, lasting)
        if self._kept is None or self._kept.inputs != inputs:
            self._kept = _BuiltInTools(self, inputs, config, redactor, session, lasting)
        self._kept.forget_previews()
        return self._kept


class _BuiltInTools:
    """The built-in tools for certain `inputs`, and the namespace that they use."""

    def __init__(
        self,
        around: Environment,
        inputs: object,
        config: Config,
        redactor: Redactor | None,
        session: Session | None,
        notebooks: OpenNotebooks,
    ) -> None:
        self.inputs = inputs
        self.namespace: Namespace = around.namespace
        if redactor is not None:
            self.namespace = WatchedNamespace(around.namespace, redactor.learn, redactor.data)
        self._previews = Previews(config.workspace.edit_seconds)
        self._scripts: ScriptRunner | None = None
        self._clean = redactor.text if redactor else str
        self._session = session
        self.tools = tuple(self._make_tools(around, config, notebooks))

    def forget_previews(self) -> None:
        """Forget what the last run previewed: nobody approved that for another one."""
        self._previews.clear()
        if self._scripts is not None:
            self._scripts.forget_previews()

    def _read_sources(self) -> tuple[str, ...]:
        """Return the sources that the model has read."""
        return tuple(self._session.conversation.sources) if self._session else ()

    def _make_tools(
        self, around: Environment, config: Config, notebooks: OpenNotebooks
    ) -> Iterator[Tool]:
        flags, workspace = config.tools, around.workspace
        if flags.files:
            yield from file_tools(
                workspace,
                allow_delete=config.workspace.allow_delete,
                previews=self._previews,
                check=partial(check_not_open, workspace, notebooks),
            )
            yield from search_tools(workspace)
        yield from namespace_tools(
            self.namespace,
            variables=flags.namespace,
            python=flags.python,
            provenance=around.provenance,
            description_of=around.last_description,
            find_author=partial(around.describe_author, self._session),
            workspace=workspace,
        )
        store = OutputStore(workspace)
        ways: JsonDict = {
            "save": lambda text: store.save(self._clean(text)),
            "timeout": flags.timeout,
            "max_timeout": flags.max_timeout,
        }
        if flags.scripts:
            self._scripts = ScriptRunner(workspace, around.sandbox, **ways)
            yield self._scripts.as_tool()
        if flags.shell:
            yield from shell_tools(around.sandbox, **ways)
        if flags.notes:
            yield from note_tools(workspace, self._read_sources)
        yield todo_tool(self._read_sources)
        yield question_tool()
