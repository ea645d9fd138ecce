"""The tools and the redactor of a run, and the choice of tools that its model is offered."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

from ipyagent.agent.session.session import Session
from ipyagent.config import Config, Rule
from ipyagent.config.rules import BUILT_IN_TOOLS, fold_text, keeps_back
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import Namespace, ShellNamespace
from ipyagent.kernel.pages import OpenNotebooks, current
from ipyagent.kernel.shell import CellNote
from ipyagent.kernel.threads import Post
from ipyagent.llm.client import ModelSize
from ipyagent.redaction import Redactor
from ipyagent.tools.base import Tool, Toolbox, find_tools
from ipyagent.tools.file_change import Previews
from ipyagent.tools.file_tools import file_tools, search_tools
from ipyagent.tools.namespace_tools import QueryTool, find_authors, namespace_tools
from ipyagent.tools.notebook_tools import NotebookTools, RunCellTool, check_not_open
from ipyagent.tools.notes import ask_user, note_tools, todo_tool
from ipyagent.tools.result_conversion import OutputStore
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.scripts import ScriptRunner, shell_tools
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace
from ipyagent.values.describe import secret_strings
from ipyagent.wiring.delegation import Delegate, delegate_tool, refuse_task

RECENT = 50
"""Runs in which the author of a variable is looked for."""


@dataclass
class Toolset:
    """Makes the tools of runs in a workspace and a namespace.

    `notes` returns what the user's own cells changed, `description_of` the newest description of a
    table that went with a prompt, or "".
    """

    workspace: Workspace
    namespace: Namespace
    home: Path
    notes: Callable[[], Sequence[CellNote]]
    description_of: Callable[[str], str]
    _redactor: Redactor | None = field(default=None, init=False)
    _kept: _BuiltInTools | None = field(default=None, init=False)

    @cached_property
    def sandbox(self) -> Sandbox:
        """Return the sandbox in which commands run."""
        return Sandbox(self.workspace)

    def redactor(self, secrets: Iterable[str]) -> Redactor:
        """Return the redactor of a run, which knows `secrets` and those among the variables.

        It is that of the last run if it knows exactly these.
        """
        new = Redactor({*secrets, *secret_strings(self.namespace.variables())})
        if self._redactor is None or self._redactor.values != new.values:
            self._redactor = new
        return self._redactor

    def track(self, namespace: Namespace | None = None) -> TrackedNamespace:
        """Return the namespace, or this form of it, whose results have their sources."""
        return TrackedNamespace(namespace or self.namespace)

    def build(
        self,
        config: Config,
        own_tools: Iterable[Tool] = (),
        redactor: Redactor | None = None,
        post: Post = lambda job: Future(),
        session: Session | None = None,
        delegate: Delegate | None = refuse_task,
    ) -> Toolbox:
        """Return the built-in tools, `own_tools`, and those that the user defined in the namespace.

        Outputs that tools save pass the redactor, which learns the secrets that code brings among
        the variables; `post` runs a job on the main thread; the session knows the sources that the
        model has read; `delegate` carries out delegated tasks. A run's built-in tools are those of
        the last run, unless something that they depend on has changed; only those for notebooks
        belong to the running cell.
        """
        desktop = self.open_notebooks()
        built_in = self._built_in_tools(config, redactor, session, desktop)
        notebook_tools = self._notebook_tools(config, built_in.namespace, desktop, post)
        delegation = [delegate_tool(delegate)] if delegate else []
        toolbox = Toolbox([*built_in.tools, *notebook_tools, *delegation, *own_tools])
        toolbox.add_from_cells(find_tools(self.namespace.variables().values()))
        return toolbox

    def describe_author(self, session: Session | None, name: str) -> str:
        """Return who made or changed a variable last; "" if that is not known."""
        runs = session.runs[-RECENT:] if session else ()
        found = find_authors(runs, self.notes(), name)
        return str(found[0]) if found else ""

    def open_notebooks(self) -> OpenNotebooks:
        """Return the notebooks around the running cell."""
        shell = self.namespace.shell if isinstance(self.namespace, ShellNamespace) else None
        return current(shell, self.home)

    def _notebook_tools(
        self, config: Config, namespace: Namespace, desktop: OpenNotebooks, post: Post
    ) -> Iterator[Tool]:
        if not config.tools.notebook:
            return
        yield from NotebookTools(self.workspace, desktop).tools()
        if config.tools.python and desktop.pages():
            yield RunCellTool(self.track(namespace), desktop, post).as_tool()

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
            *(config.tools, config.workspace, config.policy.rules, redactor, session),
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
        toolset: Toolset,
        inputs: object,
        config: Config,
        redactor: Redactor | None,
        session: Session | None,
        notebooks: OpenNotebooks,
    ) -> None:
        self.inputs = inputs
        self.namespace = toolset.namespace
        if redactor is not None:
            self.namespace = self.namespace.watched_by(redactor)
        self._previews = Previews()
        self._scripts: ScriptRunner | None = None
        self._clean = redactor.text if redactor else str
        self._session = session
        self.tools = tuple(self._make_tools(toolset, config, notebooks))

    def forget_previews(self) -> None:
        """Forget what the last run previewed: nobody approved that for another one."""
        self._previews.clear()
        if self._scripts is not None:
            self._scripts.previewed_digests.clear()

    def _read_sources(self) -> tuple[str, ...]:
        """Return the sources that the model has read."""
        return tuple(self._session.conversation.sources) if self._session else ()

    def _make_tools(
        self, toolset: Toolset, config: Config, notebooks: OpenNotebooks
    ) -> Iterator[Tool]:
        flags, workspace = config.tools, toolset.workspace
        if flags.files:
            skips = partial(keeps_back, config.policy.rules, workspace.root)
            yield from file_tools(
                workspace,
                allow_delete=config.workspace.allow_delete,
                previews=self._previews,
                check=partial(check_not_open, workspace, notebooks),
                skips=skips,
            )
            yield from search_tools(workspace, skips)
        yield from namespace_tools(
            self.namespace,
            variables=flags.namespace,
            python=flags.python,
            description_of=toolset.description_of,
            find_author=partial(toolset.describe_author, self._session),
            workspace=workspace,
        )
        if flags.namespace and flags.files and find_spec("duckdb") is not None:
            yield QueryTool(self.namespace.variables, workspace).as_tool()
        store = OutputStore(workspace)
        ways: JsonDict = {
            "save": lambda text: store.save(self._clean(text)),
            "timeout": flags.timeout,
            "max_timeout": flags.max_timeout,
        }
        if flags.scripts:
            self._scripts = ScriptRunner(workspace, toolset.sandbox, **ways)
            yield self._scripts.as_tool()
        if flags.shell:
            yield from shell_tools(toolset.sandbox, **ways)
        if flags.notes:
            yield from note_tools(workspace, self._read_sources)
        yield todo_tool(self._read_sources)
        yield ask_user


CORE = frozenset(
    {
        "list_files", "read_file", "write_file", "edit_file", "search_files",
        "inspect_file", "list_variables", "inspect_variable", "run_python",
        "todo_write", "ask_user", "delegate",
    }
)  # fmt: skip
"""The built-in tools that every model is offered."""

SMALL = frozenset(
    {"read_file", "write_file", "inspect_file", "inspect_variable", "run_python", "ask_user"}
)
"""The built-in tools that a small model is offered; the context lists its files."""

SHORT_RESULT = 8_000
"""Characters of a result for a small model, or one with a short context."""

_CELLS = re.compile(r"\b(?:cells?|notebooks?)\b|\.ipynb\b", re.IGNORECASE)
_NOTES = re.compile(r"\b(?:notes?|remember|recall|memor(?:y|i[sz]e))\b", re.IGNORECASE)
_SQL = re.compile(r"\b(?:sql|duckdb|quer(?:y|ies)|parquet)\b", re.IGNORECASE)
_DELETE = re.compile(r"\bdelet\w+|\b(?:remov|clean)\w*\b.*\bfiles?\b", re.IGNORECASE)
_SCRIPTS = re.compile(r"\bscripts?\b", re.IGNORECASE)

_SUBJECTS: Mapping[str, re.Pattern[str]] = {
    "read_notebook": _CELLS,
    "insert_cell": _CELLS,
    "edit_cell": _CELLS,
    "run_cell": _CELLS,
    "record_note": _NOTES,
    "recall_notes": _NOTES,
    "python_script": _SCRIPTS,
    "query": _SQL,
    "delete_file": _DELETE,
}
"""Words in a prompt that ask for a tool."""


@dataclass(frozen=True)
class Occasion:
    """The facts about a run that decide which tools are of use."""

    prompt: str = ""
    page_is_open: bool = False
    has_notes: bool = False
    model_is_small: bool = False


def offer_tools(
    toolbox: Toolbox, config: Config, occasion: Occasion, earlier: Collection[str] = ()
) -> Toolbox:
    """Return the toolbox that offers the tools of use on this occasion.

    `earlier` are the names that the conversation's last request offered, in order. They stay, and
    stay first: with other tools a provider's cache does not know the request any more.
    """
    if config.agent.allowed_tools or config.tools.offer == "all":
        return toolbox
    is_small = wants_small_set(config, occasion.model_is_small)
    known = BUILT_IN_TOOLS | _SUBJECTS.keys()
    wanted = {each.name for each in toolbox if each.name not in known or not each.is_built_in}
    wanted |= SMALL if is_small else CORE | set(_useful_tools(config, occasion))
    wanted |= set(_named_tools(config, occasion.prompt))
    if not is_small or not any(name in CORE - SMALL for name in earlier):
        wanted |= set(earlier)
    names = dict.fromkeys([*earlier, *[each.name for each in toolbox]])
    return toolbox.offer([name for name in names if name in wanted])


def wants_small_set(config: Config, model_is_small: bool) -> bool:
    """Return whether the settings, or the model's size, ask for the small set of tools."""
    chosen = config.tools.offer
    return chosen == "small" or (chosen == "auto" and model_is_small)


def describe_small_set(model: str, size: ModelSize) -> str:
    """Return the notice that a small model gets fewer tools."""
    return (
        f"{model} is a small model ({size.reason}), so it gets fewer tools and shorter results. "
        "`%agent config tools.offer=core` gives it the usual ones."
    )


def find_idle_rules(rules: Iterable[Rule], toolbox: Toolbox) -> Iterator[str]:
    """Yield a notice for each name in a rule that no tool has now.

    Raises ConfigError for a rule that no call of a built-in tool can match.
    """
    tools = {name: each for each in toolbox for name in (each.part_of, each.name) if name}
    for rule in rules:
        for name in (each for each in rule.tool if not {*each} & {*"*?["}):
            found = tools.get(fold_text(name))
            if found is None and name not in BUILT_IN_TOOLS and not name.startswith("mcp_"):
                close = get_close_matches(name, BUILT_IN_TOOLS, n=1)
                hint = f"; did you mean {close[0]}?" if close else "."
                yield f"The rule “{rule}” ({rule.source}) names no tool that there is now{hint}"
            elif found is not None and found.is_built_in and found.name == fold_text(name):
                known = found.arguments.schema.get("properties", {})
                missing = [f"an argument {each}" for each in rule.arguments if each not in known]
                if rule.path is not None and not found.paths and "path" not in known:
                    missing.append("a path")
                if missing:
                    raise ConfigError(
                        f"{rule.source}: the rule “{rule}” never holds for {name}, "
                        f"whose calls do not have {missing[0]}"
                    )


def _useful_tools(config: Config, occasion: Occasion) -> Iterator[str]:
    """Yield the names of tools beyond the core that are of use now."""
    asked_for = {name for name, words in _SUBJECTS.items() if words.search(occasion.prompt)}
    yield from asked_for
    if config.tools.shell:
        yield "run_shell"
    if config.workspace.allow_delete:
        yield "delete_file"
    if "scripts" in config.tools.model_fields_set:  # switched on, not only on by default
        yield "python_script"
    if occasion.has_notes:
        yield from ("record_note", "recall_notes")
    if occasion.page_is_open:
        yield from ("read_notebook", "insert_cell", "edit_cell", "run_cell")


def _named_tools(config: Config, prompt: str) -> Iterator[str]:
    """Yield the built-in tools that the prompt, or a rule that lets them run, names."""
    for rule in config.policy.rules:
        if rule.effect != "deny":
            yield from rule.tool
    yield from BUILT_IN_TOOLS & set(re.findall(r"\w+_\w+", prompt))
