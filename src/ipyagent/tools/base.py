"""What a tool is: a function, the schema of its arguments, and where it may run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ipyagent.errors import DuplicateToolError, InvalidArgumentsError, ToolNotFoundError
from ipyagent.schema import Preview, ToolDefinition


class Where(StrEnum):
    """Where a tool's function runs."""

    MAIN = "main"  # the kernel's main thread, one at a time: the person's own objects live there
    THREAD = "thread"  # a pool: blocking calls that touch nothing of the person's
    LOOP = "loop"  # the engine's event loop: async functions


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    `preview` gets the checked arguments and returns what the approval card shows; what it raises
    becomes the call's failed result before anybody is asked.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[BaseModel]
    sensitive: bool = False
    where: Where = Where.MAIN
    preview: Callable[..., Preview] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function: a tool stays callable by its author."""
        return self.function(*args, **kwargs)

    @property
    def parallel(self) -> bool:
        """Whether calls may run beside each other."""
        return not self.sensitive and self.where is not Where.MAIN

    def definition(self) -> ToolDefinition:
        """The tool as the model is told of it."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        for prop in schema.get("properties", {}).values():
            prop.pop("title", None)
        return ToolDefinition(name=self.name, description=self.description, parameters=schema)

    def check(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them; raises InvalidArgumentsError."""
        try:
            checked = self.arguments.model_validate(arguments)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()
            )
            raise InvalidArgumentsError(f"{self.name}: {problems}") from None
        return {name: getattr(checked, name) for name in type(checked).model_fields}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    sensitive: bool = False,
    where: Where | str | None = None,
    preview: Callable[..., Preview] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    sensitive: bool = False,
    where: Where | str | None = None,
    preview: Callable[..., Preview] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool; its docstring is the description, its signature the schema.

    Sync functions run on the kernel's main thread, where the person's connections and figures
    live, unless `where="thread"`; async functions run in the engine's loop. `sensitive=True` means
    that each call is asked about first.
    """

    def make(function: Callable[..., Any]) -> Tool:
        is_async = inspect.iscoroutinefunction(function)
        return Tool(
            name=name or function.__name__,
            description=inspect.getdoc(function) or "",
            function=function,
            arguments=_arguments_of(function),
            sensitive=sensitive,
            where=Where(where) if where else (Where.LOOP if is_async else Where.MAIN),
            preview=preview,
        )

    return make(function) if function is not None else make


def _arguments_of(function: Callable[..., Any]) -> type[BaseModel]:
    # Only the parameters' annotations are resolved: a return type may name a module that the
    # author never imported ("pandas.DataFrame").
    hints = {k: v for k, v in function.__annotations__.items() if k != "return"}
    types = get_type_hints(
        SimpleNamespace(__annotations__=hints), function.__globals__, include_extras=True
    )
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{function.__name__}: a tool cannot take *{parameter.name}")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (types.get(parameter.name, Any), default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


class Toolbox:
    """Tools by name, in the order in which the model is told of them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.add(each)

    def add(self, new: Tool) -> None:
        """Add a tool. Re-running its cell replaces it; a stranger with its name raises."""
        old = self._tools.get(new.name)
        if old is not None and _origin(old) != _origin(new):
            raise DuplicateToolError(f"two tools are named {new.name!r}; rename one of them")
        self._tools[new.name] = new

    def get(self, name: str) -> Tool:
        """The tool of that name; raises ToolNotFoundError listing those there are."""
        try:
            return self._tools[name]
        except KeyError:
            known = ", ".join(self._tools) or "none"
            raise ToolNotFoundError(f"no tool is named {name!r}; available: {known}") from None

    def only(self, names: Iterable[str]) -> Toolbox:
        """A toolbox with just these; raises ToolNotFoundError for a name it doesn't have."""
        return Toolbox(self.get(name) for name in names)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """All tools as the model is told of them."""
        return tuple(each.definition() for each in self._tools.values())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def _origin(each: Tool) -> tuple[str, str]:
    return each.function.__module__, each.function.__qualname__
