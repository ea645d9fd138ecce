"""Where runs take place, and what is there: the tools of a workspace, a namespace, services."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.context import context_block, mentioned
from ipyagent.config import Config, MCPServerConfig
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.documents import Desktop, around
from ipyagent.kernel.interrupt import uninterrupted
from ipyagent.kernel.namespace import Namespace, ShellNamespace, WatchedNamespace, digest
from ipyagent.kernel.provenance import Provenance
from ipyagent.redaction import Redactor
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.services.openapi import OpenAPIServices
from ipyagent.tools.base import Tool, tools_among
from ipyagent.tools.files import file_tools
from ipyagent.tools.namespace import namespace_tools
from ipyagent.tools.notebook.run import Post, RunCell
from ipyagent.tools.notebook.tools import Notebooks, check_closed
from ipyagent.tools.notes import note_tools
from ipyagent.tools.questions import question_tool
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.scripts import script_tools
from ipyagent.tools.search import search_tools
from ipyagent.tools.shell import shell_tools
from ipyagent.tools.sourced import SourcedNamespace
from ipyagent.tools.todos import todo_tool
from ipyagent.tools.toolbox import Toolbox
from ipyagent.tools.truncate import OutputStore
from ipyagent.tools.workspace import Workspace


@cache
@uninterrupted
def workspace_at(root: Path) -> Workspace:
    """The workspace at a folder, opened once and then frozen."""
    return Workspace(root)


@dataclass
class Services:
    """What brings tools from elsewhere to a folder; `home` is where its settings are."""

    folder: Path
    home: Path
    configured: tuple[MCPServerConfig, ...] = ()
    """Those of the settings in force."""
    here: Mapping[str, bool] = field(default_factory=dict)
    """What is switched on and off for the session that goes on, as `api:shop` and `mcp:files`."""

    @cached_property
    def mcp(self) -> MCPServers:
        """Its MCP servers."""
        here = partial(self._here, "mcp")
        return MCPServers(self.folder, self.home, os.environ, lambda: self.configured, here)

    @cached_property
    def openapi(self) -> OpenAPIServices:
        """Its OpenAPI services."""
        here = partial(self._here, "api")
        configured = lambda: self.configured  # noqa: E731
        return OpenAPIServices(self.folder, self.home, os.environ, configured, here)

    def _here(self, kind: str) -> dict[str, bool]:
        """Return what is switched of the services of a kind, by name."""
        named = ((key.partition(":"), on) for key, on in self.here.items())
        return {name: on for (of, _, name), on in named if of == kind}

    def secrets(self) -> Iterator[str]:
        """What must not be told of the servers that are named anywhere."""
        yield from chain.from_iterable(each.secrets() for each in self.configured)
        for named in self.mcp.sources.named()[0].values():
            with suppress(ConfigError):
                yield from named.config().secrets()

    async def tools(self, config: Config) -> tuple[list[Tool], list[str]]:
        """Their tools, and what the person should know; a server has its own time to connect."""
        if not config.tools.mcp:
            return [], []
        tools, notices = await self.mcp.tools()
        return [*self.openapi.tools(), *tools], [*self.openapi.notices(), *notices]


@dataclass
class Place:
    """A workspace, a namespace, and the approvals that wait there."""

    workspace: Workspace
    namespace: Namespace
    home: Path | None = None
    """Where the settings are; None: at the workspace's root."""
    approvals: Approvals = field(default_factory=Approvals)
    _told: set[str] = field(default_factory=set, init=False)

    @cached_property
    def services(self) -> Services:
        """What brings tools from elsewhere."""
        return Services(self.workspace.root, self.home or self.workspace.root)

    def toolbox(
        self,
        config: Config,
        own: Iterable[Tool] = (),
        redactor: Redactor | None = None,
        post: Post = lambda job: Future(),
        read: Callable[[], Collection[str]] = tuple,
    ) -> Toolbox:
        """The built-in tools, `own`, and those that the person defined in the namespace.

        Outputs that tools keep in files pass the redactor, which learns the secrets among the
        variables; `post` runs a job on the main thread; `read` returns whose words the model has
        read.
        """
        # Who only lists the tools, as completion does, need not look for secrets.
        namespace = WatchedNamespace(self.namespace, redactor.learn) if redactor else self.namespace
        clean = redactor.text if redactor else str
        desktop = self._desktop()
        toolbox = Toolbox(
            [
                *self._built_in(config, namespace, clean, desktop, read),
                *self._of_notebooks(config, namespace, desktop, post),
                *own,
            ]
        )
        toolbox.add_defined(tools_among(self.namespace.variables().values()))
        return toolbox

    def new_notices(self, toolbox: Toolbox) -> tuple[str, ...]:
        """Return what the user should know of the tools and has not been told before."""
        new = tuple(each for each in toolbox.notices if each not in self._told)
        self._told.update(new)
        return new

    def context(self, prompt: str) -> str:
        """What the model is told beside the prompt."""
        variables = self.namespace.variables()
        return context_block(
            digest(variables),
            self.workspace.overview(),
            mentioned(prompt, variables, self.workspace.is_file),
        )

    @cached_property
    def _provenance(self) -> Provenance:
        return Provenance()

    @cached_property
    def sandbox(self) -> Sandbox:
        """Where commands run."""
        return Sandbox(self.workspace)

    def _of_notebooks(
        self, config: Config, namespace: Namespace, desktop: Desktop, post: Post
    ) -> Iterator[Tool]:
        if not config.tools.notebook:
            return
        seconds = config.workspace.edit_seconds
        yield from Notebooks(self.workspace, desktop, seconds).tools()
        if config.tools.python and desktop.pages():
            sourced = SourcedNamespace(namespace, self._provenance)
            yield RunCell(sourced, desktop, post, seconds).tool()

    def _desktop(self) -> Desktop:
        """The notebooks around the cell that is running now."""
        shell = self.namespace.shell if isinstance(self.namespace, ShellNamespace) else None
        return around(shell, self.home or Path.cwd())

    def _built_in(
        self,
        config: Config,
        namespace: Namespace,
        clean: Callable[[str], str],
        desktop: Desktop,
        read: Callable[[], Collection[str]],
    ) -> Iterator[Tool]:
        flags, workspace = config.tools, self.workspace
        if flags.files:
            yield from file_tools(
                workspace,
                allow_delete=config.workspace.allow_delete,
                edit_seconds=config.workspace.edit_seconds,
                check=partial(check_closed, workspace, desktop),
            )
            yield from search_tools(workspace)
        yield from namespace_tools(
            namespace,
            variables=flags.namespace,
            python=flags.python,
            provenance=self._provenance,
        )
        store = OutputStore(workspace)
        ways: JsonDict = {
            "save": lambda text: store.save(clean(text)),
            "timeout": flags.timeout,
            "max_timeout": flags.max_timeout,
        }
        if flags.scripts:
            yield from script_tools(workspace, self.sandbox, **ways)
        if flags.shell:
            yield from shell_tools(self.sandbox, **ways)
        if flags.notes:
            yield from note_tools(workspace, read)
        yield todo_tool(read)
        yield question_tool()
