"""The environment of runs: a workspace's tools, a namespace, services."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from ipyagent.agent.approvals import Approvals
from ipyagent.agent.prompts import context_block, describe_mentions
from ipyagent.config import Config
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import Namespace, ShellNamespace, WatchedNamespace, digest
from ipyagent.kernel.open_notebooks import OpenNotebooks, current
from ipyagent.kernel.provenance import Provenance
from ipyagent.redaction import Redactor
from ipyagent.tools.ask_user import question_tool
from ipyagent.tools.base import Tool, find_tools
from ipyagent.tools.file_tools import file_tools
from ipyagent.tools.namespace_tools import namespace_tools
from ipyagent.tools.notebook.notebook_tools import NotebookTools, check_not_open
from ipyagent.tools.notebook.run_cell import Post, RunCellTool
from ipyagent.tools.notes import note_tools
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.scripts import ScriptRunner
from ipyagent.tools.search import search_tools
from ipyagent.tools.shell import shell_tools
from ipyagent.tools.todos import todo_tool
from ipyagent.tools.toolbox import Toolbox
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.truncate import OutputStore
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.services import Services


@dataclass
class Environment:
    """A workspace, a namespace, and the approvals that wait there."""

    workspace: Workspace
    namespace: Namespace
    home: Path | None = None
    """The settings' folder; None: the workspace's root."""
    approvals: Approvals = field(default_factory=Approvals)
    _known_notices: set[str] = field(default_factory=set, init=False)

    @cached_property
    def services(self) -> Services:
        """Return the services that bring tools from elsewhere."""
        return Services(self.workspace.root, self.home or self.workspace.root)

    def build_toolbox(
        self,
        config: Config,
        own_tools: Iterable[Tool] = (),
        redactor: Redactor | None = None,
        post: Post = lambda job: Future(),
        read_sources: Callable[[], Collection[str]] = tuple,
    ) -> Toolbox:
        """Return the built-in tools, `own_tools`, and those that the user defined in the namespace.

        Outputs that tools save pass the redactor, which learns the secrets among the variables;
        `post` runs a job on the main thread; `read_sources` returns the sources that the model has
        read.
        """
        # Who only lists the tools, as completion does, need not look for secrets.
        namespace = WatchedNamespace(self.namespace, redactor.learn) if redactor else self.namespace
        clean = redactor.text if redactor else str
        desktop = self._open_notebooks()
        toolbox = Toolbox(
            [
                *self._built_in_tools(config, namespace, clean, desktop, read_sources),
                *self._notebook_tools(config, namespace, desktop, post),
                *own_tools,
            ]
        )
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

    def prompt_context(self, prompt: str) -> str:
        """Return the context that the model gets with the prompt."""
        variables = self.namespace.variables()
        return context_block(
            digest(variables),
            self.workspace.overview(),
            describe_mentions(prompt, variables, self.workspace.is_file),
        )

    @cached_property
    def _provenance(self) -> Provenance:
        return Provenance()

    @cached_property
    def sandbox(self) -> Sandbox:
        """Return the sandbox in which commands run."""
        return Sandbox(self.workspace)

    def _notebook_tools(
        self, config: Config, namespace: Namespace, desktop: OpenNotebooks, post: Post
    ) -> Iterator[Tool]:
        if not config.tools.notebook:
            return
        seconds = config.workspace.edit_seconds
        yield from NotebookTools(self.workspace, desktop, seconds).tools()
        if config.tools.python and desktop.pages():
            sourced = TrackedNamespace(namespace, self._provenance)
            yield RunCellTool(sourced, desktop, post, seconds).as_tool()

    def _open_notebooks(self) -> OpenNotebooks:
        """Return the notebooks around the running cell."""
        shell = self.namespace.shell if isinstance(self.namespace, ShellNamespace) else None
        return current(shell, self.home or Path.cwd())

    def _built_in_tools(
        self,
        config: Config,
        namespace: Namespace,
        clean: Callable[[str], str],
        desktop: OpenNotebooks,
        read_sources: Callable[[], Collection[str]],
    ) -> Iterator[Tool]:
        flags, workspace = config.tools, self.workspace
        if flags.files:
            yield from file_tools(
                workspace,
                allow_delete=config.workspace.allow_delete,
                edit_seconds=config.workspace.edit_seconds,
                check=partial(check_not_open, workspace, desktop),
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
            yield ScriptRunner(workspace, self.sandbox, **ways).as_tool()
        if flags.shell:
            yield from shell_tools(self.sandbox, **ways)
        if flags.notes:
            yield from note_tools(workspace, read_sources)
        yield todo_tool(read_sources)
        yield question_tool()
