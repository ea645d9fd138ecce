"""What a tool is: a function, the arguments that it takes, and where it may run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import Any, TypedDict, Unpack, overload

from pydantic import BaseModel

from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.kernel.describe.inert import is_a
from ipyagent.schema import STANDARD, Preview, Question, ToolDefinition, TruncationConfig
from ipyagent.tools.arguments import (
    Arguments,
    DescribedArguments,
    TypedArguments,
    arguments_of,
)
from ipyagent.tools.commands import read_command
from ipyagent.tools.controls import check_controls
from ipyagent.tools.reach import Reach

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes


class Where(StrEnum):
    """Where a tool's function runs."""

    MAIN = "main"  # the kernel's main thread, one at a time: the person's own objects live there
    THREAD = "thread"  # a pool: blocking calls that touch nothing of the person's
    LOOP = "loop"  # the engine's event loop: async functions
    RELAY = "relay"  # the same, for those that send jobs to the main thread from there


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    What is callable here gets the checked arguments by name. What `validate`, `requires` and
    `preview` raise becomes the call's failed result before anybody is asked.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: Arguments
    sensitive: bool = False
    where: Where = Where.MAIN
    preview: Callable[..., Preview] | None = None
    """What the approval card shows."""
    validate: Callable[..., object] | None = None
    """Raises AgentError for a call that can never run. Called from any thread, in dry runs too."""
    requires: Callable[..., object] | None = None
    """The same for what is not there, but may be by then; called where the function would run."""
    truncate: TruncationConfig = STANDARD
    """How much of the output the model gets to read at once."""
    allow_override: bool = False
    """Whether it takes the place of another tool of its name."""
    idempotent: bool = False
    """Whether a call that failed may be made again as it is."""
    reaches_out: bool = False
    """Whether it sends something away or runs code in the kernel: asked about once more after
    what others wrote was read."""
    paths: Callable[..., Iterable[str]] | None = None
    """The files and folders that a call is about."""
    source: Callable[..., str | None] | None = None
    """Whose words the output may hold, if not the person's: a file, a server."""
    always_asks: Callable[..., str | None] | None = None
    """Why this very call is asked about whatever is allowed; None where it need not be."""
    question: Callable[..., Question] | None = None
    """What the person is asked; their answer is the result, and the function is not called."""
    command: str | None = None
    """The argument that holds code or a command, where there is one; `a.b`: field `b` of `a`."""
    refuse_controls: bool = False
    """Whether calls with control characters in any argument are refused before anybody is asked;
    in `command` they always are."""
    reach: Callable[[Preview], Reach] | None = None
    """What the call that this preview shows would touch, as far as reading can tell."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"a tool cannot be named {self.name!r}: models take 1 to 64 of the characters "
                "a-z, A-Z, 0-9, _ and -"
            )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """The plain function: a tool stays callable by its author."""
        return self.function(*args, **kwargs)

    @property
    def parallel(self) -> bool:
        """Whether calls may run beside each other."""
        return not self.sensitive and self.where is not Where.MAIN

    def definition(self) -> ToolDefinition:
        """The tool as the model is told of it."""
        return ToolDefinition(
            name=self.name, description=self.description, input_schema=self.arguments.schema
        )

    def to_schema(self) -> JsonDict:
        """The definition in Anthropic's format."""
        return self.definition().to_anthropic()

    def get_schema(self) -> JsonDict:
        """The definition in OpenAI's format."""
        return self.definition().to_openai()

    def check(self, arguments: JsonDict) -> JsonDict:
        """The arguments as the function takes them; raises InvalidArgumentsError."""
        checked = arguments if self.refuse_controls else self._command_of(arguments)
        try:
            check_controls(checked)
            return self.arguments.check(arguments)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(f"{self.name}: {error}") from None

    def _command_of(self, arguments: JsonDict) -> JsonDict:
        found = read_command(arguments, self.command) if self.command else None
        return {str(self.command): found} if found is not None else {}


class BaseTool:
    """A tool written as a class: it has a `name` and a method `execute`, sync or async.

    What `execute` takes is said by `args_model` (a pydantic model), else by `parameters` (a JSON
    Schema), else by its own signature; it gets them as keyword arguments. All else is as in `tool`.
    """

    name: str
    description: str = ""
    args_model: type[BaseModel] | None = None
    parameters: JsonMapping | None = None
    execute: Callable[..., Any]
    sensitive: bool = False
    where: Where | str | None = None
    truncate: TruncationConfig = STANDARD
    allow_override: bool = False

    def as_tool(self) -> Tool:
        """The same as a Tool; raises ConfigError where something is missing."""
        for needed in ("name", "execute"):
            if not hasattr(self, needed):
                raise ConfigError(f"{type(self).__name__} is no tool yet: it has no {needed!r}")
        return _from_object(self)

    def to_schema(self) -> JsonDict:
        """The definition in Anthropic's format."""
        return self.as_tool().to_schema()

    def get_schema(self) -> JsonDict:
        """The definition in OpenAI's format."""
        return self.as_tool().get_schema()


def _is_described(thing: object) -> bool:
    """Return whether an object of any class describes a tool, as a BaseTool does."""
    if inspect.isroutine(thing) or isinstance(thing, type):
        return False
    return isinstance(getattr(thing, "name", None), str) and callable(
        getattr(thing, "execute", None)
    )


def _from_object(thing: Any) -> Tool:
    """Return the tool that a BaseTool, or an object like one, describes."""

    def trait(name: str) -> Any:
        return getattr(thing, name, getattr(BaseTool, name))

    return Tool(
        name=thing.name,
        description=trait("description") or inspect.cleandoc(type(thing).__doc__ or ""),
        function=thing.execute,
        arguments=_arguments_of(trait("args_model"), trait("parameters"), thing.execute),
        sensitive=trait("sensitive"),
        where=_where(trait("where"), thing.execute),
        truncate=trait("truncate"),
        allow_override=trait("allow_override"),
    )


def _arguments_of(
    model: type[BaseModel] | None, schema: Mapping[str, object] | None, execute: Callable[..., Any]
) -> Arguments:
    if model is not None:
        return TypedArguments(model)
    if schema is not None:
        return DescribedArguments(schema)
    return arguments_of(execute)


class Traits(TypedDict, total=False):
    """What may be said of a tool beside its function; `Tool` explains each."""

    sensitive: bool
    preview: Callable[..., Preview] | None
    validate: Callable[..., object] | None
    requires: Callable[..., object] | None
    truncate: TruncationConfig
    allow_override: bool
    idempotent: bool
    reaches_out: bool
    paths: Callable[..., Iterable[str]] | None
    source: Callable[..., str | None] | None
    always_asks: Callable[..., str | None] | None
    question: Callable[..., Question] | None
    command: str | None
    refuse_controls: bool
    reach: Callable[[Preview], Reach] | None


@overload
def tool(function: Callable[..., Any] | BaseTool, /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, where: Where | str | None = None, **traits: Unpack[Traits]
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | BaseTool | None = None,
    /,
    *,
    name: str | None = None,
    where: Where | str | None = None,
    **traits: Unpack[Traits],
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool; its docstring is the description, its signature the schema.

    Sync functions run on the kernel's main thread, where the person's connections and figures
    live, unless `where="thread"`; async functions run in the engine's loop. `sensitive=True` means
    that each call is asked about first. What is a tool already is returned as a Tool, and so is an
    object of any class with `name`, `description`, `parameters` and `execute`, as in `BaseTool`.
    """
    # Where a tool is made inside a function, its annotations may name what is defined there.
    caller: FrameType | None = getattr(inspect.currentframe(), "f_back", None)
    local = caller.f_locals if caller is not None else {}

    def make(function: object) -> Tool:
        if isinstance(function, type):
            raise ConfigError(f"{function.__name__} is a class; a tool is an object of it")
        if not callable(function):
            raise ConfigError(
                f"an object of type {type(function).__name__} is no tool: a tool is a function, or "
                "an object with a name, a description, parameters (a JSON Schema) and a method "
                "execute"
            )
        call = function if inspect.isroutine(function) else function.__call__
        return Tool(
            name=name or str(getattr(function, "__name__", type(function).__name__)),
            description=inspect.getdoc(function) or "",
            function=call,
            arguments=arguments_of(call, local),
            where=_where(where, call),
            **traits,
        )

    match function:
        case None:
            return make
        case Tool():
            return function
        case BaseTool():
            return function.as_tool()
    return _from_object(function) if _is_described(function) else make(function)


def tools_among(values: Iterable[Any]) -> list[Tool]:
    """The tools among any objects, which are not asked what they are."""
    return [tool(each) for each in values if is_a(each, Tool) or is_a(each, BaseTool)]


def _where(where: Where | str | None, function: Callable[..., Any]) -> Where:
    if where:
        return Where(where)
    return Where.LOOP if inspect.iscoroutinefunction(function) else Where.MAIN
