"""The environment of runs: a workspace, a namespace, services, and the client of each model.

The module behind a client is imported when a client is made. Installed distributions add clients by
entry points: `acme = "acme.client:Client"` in the group `ipyagent.clients` answers for models that
are called `acme/…`, and is called with that name.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import chain
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeVar

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.prompts import Context, describe_mentions
from ipyagent.config import Config, LLMConfig, MCPServerConfig
from ipyagent.errors import AgentError, ConfigError
from ipyagent.imports import working_folder
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import Namespace, list_lines
from ipyagent.kernel.shell import CellNote
from ipyagent.kernel.threads import EngineThread
from ipyagent.llm.client import Client, Listing, NoClient
from ipyagent.llm.destinations import BUILT_IN, MOST_MODELS, SCRIPTED, Resolved
from ipyagent.llm.error_mapping import CANNOT, is_local
from ipyagent.llm.service_client import ServiceClient
from ipyagent.plaintext import spell
from ipyagent.providers import PROVIDERS
from ipyagent.schema.tables import ColumnFacts, Kind, TableFacts, WorkspaceFacts
from ipyagent.services.mcp import NamedServers, ServerSources
from ipyagent.services.openapi import has_services
from ipyagent.store.graph_file import NotebookRecordings
from ipyagent.tools import tables as table_files
from ipyagent.tools.base import Tool
from ipyagent.tools.notebook_file import CellChange
from ipyagent.tools.notebook_tools import NotebookTools
from ipyagent.tools.path_rules import Entry
from ipyagent.tools.tables import (
    MOST_BYTES,
    describe_table,
    find_named_tables,
    list_tables,
    sample_table,
)
from ipyagent.tools.tables.sample import NotTableError
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe import describe_named_tables, holds_lazy_data, is_table
from ipyagent.values.describe.libraries import table_of
from ipyagent.values.describe.python_values import module_title
from ipyagent.values.describe.safe_inspect import type_name
from ipyagent.values.describe.table import Column, Table
from ipyagent.wiring.toolset import Toolset
from ipyagent.wiring.undo import UndoHistory

if TYPE_CHECKING:
    from ipyagent.services.mcp.servers import MCPServers, Server
    from ipyagent.services.openapi.services import OpenAPIServices


_SAMPLE, _CHOICES = 1_000, 200
"""Rows whose values are looked at, and the most different values of a column of choices."""
_KINDS: dict[Kind, str] = {
    "bool": "bool", "date": "datetime|date", "number": "u?int|float|decimal|number",
    "text": "str|string|object|category|utf8|categorical|enum|text",
}  # fmt: skip
_DAY = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")


def list_table_facts(variables: Mapping[str, object]) -> Iterator[TableFacts]:
    """Yield the facts of the tables among the variables, the newest first."""
    for name in reversed([*variables]):
        with suppress(Exception):  # a table library's own object can be broken
            table = table_of(variables[name])
            if table is not None and not table.is_series:
                library: Literal["pandas", "polars"] = (
                    "polars" if type(variables[name]).__module__.startswith("polars") else "pandas"
                )
                columns = tuple(_list_columns(table))
                yield TableFacts(name, library=library, columns=columns)


def read_file_facts(workspace: Workspace, path: str, wait: float | None = None) -> TableFacts:
    """Return the facts of a table in a file; without columns if it is not described by then."""
    changed = inf
    with suppress(AgentError, NotTableError, TimeoutError):
        status = workspace.stat(path)
        changed = status.st_ctime if status else inf
        samples = sample_table(workspace, path).result(wait)
        if not isinstance(samples, str):
            columns = tuple(_list_columns(samples[0].table))
            call = samples[0].call
            return TableFacts(path=path, call=call, columns=columns, changed=changed)
    return TableFacts(path=path, changed=changed)


def name_types(variables: Mapping[str, object]) -> dict[str, str]:
    """Return the type of each variable, or the module that it is."""
    return {
        name: module_title(value) if type(value) is ModuleType else type_name(type(value))
        for name, value in variables.items()
    }


def _list_columns(table: Table) -> Iterator[ColumnFacts]:
    for column in table.columns:
        if type(column.label) is str:
            yield _describe_column(column, column.label, table.rows)


def _describe_column(column: Column, name: str, rows: int) -> ColumnFacts:
    dtype = column.dtype.partition(" with ")[0].casefold()
    kinds = (kind for kind, names in _KINDS.items() if re.match(names, dtype))
    kind: Kind = next(kinds, "other")
    if " with " in column.dtype:  # a sign that the library does not read
        kind = "text"
    choices: tuple[str, ...] = ()
    is_key = False
    with suppress(Exception):  # some types of columns cannot do it
        if kind == "text":
            texts = [each for each in column.values(slice(_SAMPLE)) if type(each) is str]
            kind = "date" if texts and all(map(_DAY.fullmatch, texts)) else kind
            choices = tuple(dict.fromkeys(texts))
        may_be_key = kind == "text" or dtype.startswith(("int", "uint"))
        is_key = bool(may_be_key and column.unique and column.unique() == rows > 1)
    few = choices if len(choices) <= _CHOICES and kind == "text" else ()
    return ColumnFacts(name, column.dtype, kind, few, is_key)


GROUP = "ipyagent.clients"
_EXPLORER = EntryPoint(BUILT_IN.rstrip("/"), "ipyagent.explorer:ExplorerClient", GROUP)
"""The built-in client, found without the metadata of an installation as well."""


def client_for(
    model: str | Resolved,
    config: LLMConfig,
    root: Path,
    last: Client | None = None,
) -> Client:
    """Return the client of a model; the path of a script is relative to `root`.

    It is the `last` one if that asks the same model in the same way: it remembers the
    conversation as it was sent, and what the service refused.
    """
    name = model.model if isinstance(model, Resolved) else model
    if name.startswith(SCRIPTED):
        from ipyagent.llm.scripted import Scripted

        return Scripted.from_file(root / name.removeprefix(SCRIPTED), model=name)
    if (point := _find_entry_point(name)) is not None:
        client: Client = point.load()(name)
        return client
    new = service_client(name, config)
    return last if isinstance(last, ServiceClient) and last.is_like(new) else new


def _find_entry_point(model: str) -> EntryPoint | None:
    """Return the entry point that answers for a model's name; those of services have none."""
    prefix, slash, _ = model.partition("/")
    if not slash or prefix in PROVIDERS:
        return None
    found = [*entry_points(group=GROUP, name=prefix)]
    return found[0] if found else _EXPLORER if prefix == _EXPLORER.name else None


def service_client(
    model: str,
    config: LLMConfig,
    *,
    environ: Mapping[str, str] | None = None,
    start: Mapping[str, str] | None = None,
) -> Client:
    """Return the client of a service's model; raises ConfigError if there is none here."""
    from ipyagent.llm.destinations import find_route

    variables = os.environ if environ is None else environ
    route = None if config.client == "litellm" else find_route(model, config, variables)
    if route is not None:
        from ipyagent.llm.direct.client import DirectClient

        return DirectClient(model, route, config, environ=environ, start=start)
    if config.client == "direct":
        raise ConfigError(
            f"llm.client is direct, but {model} is reached through LiteLLM only: set llm.client to "
            "auto, or choose a model whose service speaks OpenAI's or Anthropic's format."
        )
    if find_spec("litellm") is None:
        raise ConfigError(
            f"{model} is reached through LiteLLM, which is not installed: run `%pip install "
            "'ipyagent[litellm]'`, or choose a model whose service speaks OpenAI's or Anthropic's "
            "format."
        )
    from ipyagent.llm.gateway import LiteLLMClient

    return LiteLLMClient(model, config, environ=environ, start=start)


def list_served(client: Client) -> list[str]:
    """Return the models that a client's service lists; raises AgentError if it does not answer."""
    listing = client.list_models() if isinstance(client, Listing) else None
    return EngineThread.current().wait_for(listing) if listing else []


def add_served(found: Mapping[str, str], config: LLMConfig, root: Path) -> dict[str, str]:
    """Return the models with those that the first one's service lists, and why; may block."""
    models = {**found}
    with suppress(AgentError):  # a service that cannot be asked has no more to offer
        for name in list_served(client_for(next(iter(found)), config, root))[:MOST_MODELS]:
            models.setdefault(name, "its service lists it")
    for name, why in models.items():
        with suppress(AgentError):
            if not ServiceClient(name, config).size().calls_tools:
                models[name] = f"{why}; {CANNOT}"
    return models


def find_problem(model: str, config: LLMConfig, root: Path) -> str:
    """Return why a model cannot work, as far as that is known without asking another machine."""
    try:
        client = client_for(model, config, root)
        if not isinstance(client, ServiceClient) or not is_local(client.destination):
            return ""
        names = list_served(client)
    except AgentError as error:
        return str(error)
    if names and not {model, f"{model}:latest"} & {*names}:
        return f"{model} is not there. What is there: {', '.join(names[:MOST_MODELS])}."
    return "" if client.size().calls_tools else f"{model} {CANNOT}."


def warm_up(model: Resolved, config: LLMConfig) -> None:
    """Begin to import the dependencies of the model's client; returns at once."""
    if model.model.startswith(SCRIPTED) or _find_entry_point(model.model) is not None:
        return
    from ipyagent.llm.destinations import find_route

    if config.client != "litellm" and find_route(model.model, config, os.environ) is not None:
        threading.Thread(target=_prepare_direct, name="ipyagent-connect", daemon=True).start()
        return
    from ipyagent.llm import gateway

    gateway.warm_up()


def _prepare_direct() -> None:
    from ipyagent.llm.direct.client import prepare

    prepare()


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
        return MCPServers(self._sources, self.switches, *live)

    @cached_property
    def openapi(self) -> OpenAPIServices:
        """Return its OpenAPI services."""
        from ipyagent.services.openapi.services import OpenAPIServices

        return OpenAPIServices(self.folder, self.home, os.environ, self.configured, self.switches)

    def find_servers(self, config: Config) -> NamedServers | None:
        """Return the MCP servers that its sources name now; None if no service is to be used."""
        return self._sources.collect() if config.tools.mcp else None

    def secrets(self, servers: NamedServers | None) -> Iterator[str]:
        """Yield the secrets in the settings of all configured servers, and of these."""
        if servers is None:
            return
        yield from chain.from_iterable(each.secrets() for each in self.configured)
        for named in servers.named.values():
            with suppress(ConfigError):
                yield from named.config().secrets()

    async def load_tools(
        self, servers: NamedServers | None, list_unoffered: Callable[[], Sequence[Tool]] = tuple
    ) -> tuple[list[Tool], list[str]]:
        """Return their tools, and notices for the user; each server has its own time to connect.

        The code of a kind of service is imported once there is one. A search over tools finds
        the others that are not offered, too.
        """
        if servers is None:
            return [], []
        tools, notices = list[Tool](), [*servers.notices]
        if servers.named or self._connected:
            tools, notices = await self.mcp.tools(servers)
        if has_services(self.folder, self.configured):
            tools, notices = [*self.openapi.tools(), *tools], [*self.openapi.notices(), *notices]
        if any(each.hidden for each in tools):
            from ipyagent.services import add_search

            tools = add_search(tools, list_unoffered())
        return tools, notices

    @cached_property
    def _sources(self) -> ServerSources:
        return ServerSources(self.folder, self.home, os.environ, self.configured)


T = TypeVar("T")


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
    tools: Callable[[], Iterable[Tool]] = tuple
    """Returns the tools of an agent's own."""
    settings: Callable[[], Config] = Config
    """Returns the settings of a run that is replayed by itself."""
    connect: Callable[[], Client] = lambda: NoClient("")
    """Returns the client that such a run goes on with."""
    remarks: list[str] = field(default_factory=list)
    """Remarks for the model, with the next prompt."""
    recordings: NotebookRecordings = field(default_factory=NotebookRecordings, init=False)
    """The runs saved in notebooks, which replays repeat."""
    executed: set[str] = field(default_factory=set, init=False)
    """The cells that were executed in this kernel: their ids, or else what they asked for."""
    _services: Services | None = field(default=None, init=False)
    _client: Client | None = field(default=None, init=False)
    _glances: dict[str, str] = field(default_factory=dict, init=False)

    @property
    def settings_folder(self) -> Path:
        """Return the folder that settings and notebooks are in."""
        return self.home or self.workspace.root

    def services_for_run(self, config: Config) -> Services:
        """Return the services that bring tools from elsewhere; the last ones for equal settings."""
        folders = self.workspace.root, self.settings_folder
        before = self._services or Services(*folders, self.switches)
        self._services = before.for_run(config)
        return self._services

    def client_for(self, model: str | Resolved, config: LLMConfig) -> Client:
        """Return the client of a model: the last one, if that asks the same service."""
        self._client = client_for(model, config, self.workspace.root, last=self._client)
        return self._client

    @cached_property
    def toolset(self) -> Toolset:
        """Return the maker of the tools of runs."""
        ways = self.notes, self.last_description
        home = self.home or working_folder() or self.workspace.root
        return Toolset(self.workspace, self.namespace, home, *ways)

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
        tools = NotebookTools(self.workspace, self.toolset.open_notebooks())
        with ThreadPoolExecutor(1, thread_name_prefix="ipyagent-undo") as pool:
            return pool.submit(job, tools).result()

    @property
    def page_is_open(self) -> bool:
        """True if a page shows the notebook of this namespace."""
        return bool(self.toolset.open_notebooks().pages())

    def collect_facts(self, files: Sequence[Entry] | None = None) -> WorkspaceFacts:
        """Return the workspace as objects; `files` are its files if they are known by now.

        Files have columns if their description went with a prompt, to which another may refer.
        """
        variables = self.namespace.variables()
        files = self.workspace.find_files()[0] if files is None else files
        in_files = (
            read_file_facts(self.workspace, path, 0)
            if path in self._glances
            else TableFacts(path=path)
            for path in list_tables(files)
        )
        tables = (*list_table_facts(variables), *in_files)
        return WorkspaceFacts(tables, name_types(variables), tuple(each.path for each in files))

    def prompt_context(
        self,
        prompt: str,
        may_read: Callable[[str], bool] = lambda path: True,
        *,
        with_facts: bool = False,
    ) -> tuple[Context, tuple[str, ...]]:
        """Return the facts for the model that go with the prompt, and the files read for them.

        Of the tables that the prompt names, those are described that `may_read` allows without
        asking. `with_facts`: as objects, too.
        """
        variables = self.namespace.variables()
        files, is_cut = self.workspace.find_files()
        paths = list_tables(files)
        if paths:
            table_files.table_reader.start()  # it takes a second, and no prompt waits for longer
        # Who knows nothing but facts can say nothing without them.
        seconds = table_files.FACTS_SECONDS if with_facts else table_files.PROMPT_SECONDS
        tables = self._describe_tables(prompt, paths, variables, may_read, seconds)
        read = tuple(map(spell, tables))
        tables |= describe_named_tables(prompt, variables, MOST_BYTES, or_only=not tables)
        remarks, self.remarks = self.remarks, []
        context = Context(
            list_lines(variables),
            self.workspace.overview(files, is_cut),
            describe_mentions(prompt, variables, self.workspace.is_file, tables),
            tables,
            remarks,
            holds_lazy_data(variables.values()),
            self.collect_facts(files) if with_facts else None,
        )
        return context, read

    def _describe_tables(
        self,
        prompt: str,
        paths: list[str],
        variables: Mapping[str, object],
        may_read: Callable[[str], bool],
        seconds: float,
    ) -> dict[str, str]:
        """Describe the tables that the prompt names; if none, the only one, unless one is loaded.

        No library is imported here for it, and nothing is loaded.
        """
        named = find_named_tables(prompt, paths)
        if not named and len(paths) == 1:
            loaded = any(is_table(type(value)) for value in variables.values())
            named = [] if loaded else paths
        tables = dict[str, str]()
        for path in filter(may_read, named):
            with suppress(AgentError, NotTableError):
                tables[path] = describe_table(self.workspace, path, MOST_BYTES, seconds)
        self._glances |= tables
        return tables

    def last_description(self, path: str) -> str:
        """Return the newest description of a table that went with a prompt, or ""."""
        return self._glances.get(path, "")
