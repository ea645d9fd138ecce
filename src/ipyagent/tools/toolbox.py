"""The tools that a model may call, each under a unique name, and those that it is offered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ipyagent.errors import ConfigError, DuplicateToolError, ToolNotFoundError
from ipyagent.schema import ToolDefinition
from ipyagent.tools.base import BaseTool, Tool, tool

_BUILT_IN = "ipyagent."
_LEFT_OUT = (
    "The tool {!r} of a service is left out, because another one has its name; rename the other "
    "one, or the service."
)


class Toolbox:
    """Tools by name, in the order in which the model gets them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._from_cells: set[str] = set()
        self._offered: tuple[str, ...] | None = None
        self.notices: tuple[str, ...] = ()
        """Notices about tools that were left out."""
        for each in tools:
            self.add(each)

    def add_from_cells(self, tools: Iterable[Tool | BaseTool]) -> None:
        """Add tools that cells defined; one that cannot be used is left out, with a notice."""
        for each in tools:
            try:
                self.add(tool(each))
                self._from_cells.add(each.name)
            except (ConfigError, DuplicateToolError) as error:
                reason = str(error).rstrip(".")
                self.notices += (f"Your tool {each.name!r} is left out, because {reason}.",)

    def merge_services(self, tools: Iterable[Tool]) -> Toolbox:
        """Return these and the tools of services; one without a unique name is left out.

        A service's tool takes precedence over one that a cell defined, as a built-in does, and
        comes after all others.
        """
        tools = tuple(tools)
        if not tools:
            return self
        box = Toolbox(each for each in self if each.name not in self._from_cells)
        box.notices = self.notices
        for each in tools:
            if each.name in box:
                box.notices += (_LEFT_OUT.format(each.name),)
            else:
                box.add(each)
        box.add_from_cells(each for each in self if each.name in self._from_cells)
        return box

    def add(self, new: Tool, *, allow_override: bool = False) -> None:
        """Add a tool. Re-running its cell replaces it; another tool with its name raises.

        A tool that replaces a sensitive tool is asked about like it: approved code can define tools
        as well. Rules of the user's settings may still allow it.
        """
        old = self._tools.get(new.name)
        override = allow_override or new.allow_override
        if old is not None and not override and _owner_of(old) != _owner_of(new):
            raise DuplicateToolError(
                f"two tools are named {new.name!r}; rename one of them, or make the one that is "
                "to replace the other with allow_override=True"
            )
        if old is not None and old.sensitive and not _is_redefinition(old, new):
            reaches_out = new.reaches_out if old.reaches_out is False else old.can_reach_out
            new = replace(new, sensitive=True, reaches_out=reaches_out)
        self._tools[new.name] = new

    def get(self, name: str) -> Tool:
        """Return the tool of that name; raises ToolNotFoundError with those that exist."""
        try:
            return self._tools[name]
        except KeyError:
            known = ", ".join(each.name for each in self.offered_tools()) or "none"
            raise ToolNotFoundError(f"no tool is named {name!r}; available: {known}") from None

    def select(self, names: Iterable[str], *, lenient: bool = False) -> Toolbox:
        """Return a toolbox with just these tools, or all if none is named.

        Raises ToolNotFoundError for a missing one; `lenient`: it is left out.
        """
        names = list(names)
        if not names:
            return self
        return Toolbox([self.get(name) for name in names if not lenient or name in self])

    def offer(self, names: Iterable[str]) -> Toolbox:
        """Return a toolbox with the same tools, of which the model is offered these, in order."""
        box = Toolbox(self)
        box.notices, box._from_cells = self.notices, set(self._from_cells)
        box._offered = tuple(name for name in names if name in self)
        return box

    def offered_tools(self) -> tuple[Tool, ...]:
        """Return the tools that the model is offered; by default all."""
        names = self._tools if self._offered is None else self._offered
        return tuple(self._tools[name] for name in names)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the offered tools for the model."""
        return tuple(each.definition() for each in self.offered_tools())

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def _is_redefinition(old: Tool, new: Tool) -> bool:
    """Return whether a cell of the user's was run again; built-ins are made here alone."""
    return new is old or (_owner_of(old) == _owner_of(new) and not is_built_in(old))


def is_built_in(each: Tool) -> bool:
    """Return whether a tool is one of the package's own."""
    return str(_owner_of(each)[0]).startswith(_BUILT_IN)


def _owner_of(each: Tool) -> tuple[str, str]:
    """Return the owner of a tool: re-running a cell makes another object of the same origin."""
    owner = getattr(each.function, "__self__", None)
    made_by = type(owner) if isinstance(owner, BaseTool) else each.function
    return made_by.__module__, made_by.__qualname__
