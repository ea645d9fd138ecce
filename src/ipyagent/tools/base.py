"""The definition of a tool: a function, its arguments, and where it may run.

A toolbox has the tools that a model may call, each under a unique name, and knows those that it is
offered.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from pydantic import BaseModel

from ipyagent.errors import (
    AgentError,
    ConfigError,
    DuplicateToolError,
    InvalidArgumentsError,
    ToolNotFoundError,
)
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.schema import STANDARD, Preview, Question, ToolCall, ToolDefinition, TruncationConfig
from ipyagent.tools import argument_schema
from ipyagent.tools.static_analysis import Effects
from ipyagent.values.describe.safe_inspect import is_a

if TYPE_CHECKING:
    from ipyagent.tools.rehearsal import Rehearser

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes


class Where(StrEnum):
    """The place where a tool's function runs."""

    MAIN = "main"  # the kernel's main thread, one at a time: the user's own objects live there
    THREAD = "thread"  # a pool: blocking calls that touch nothing of the user's
    LOOP = "loop"  # the engine's event loop: async functions
    RELAY = "relay"  # the same, for functions that send jobs to the main thread from there


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    The callables here get the checked arguments by name. What `validate`, `requires` and `preview`
    raise becomes the call's failed result before the user is asked.
    """

    name: str
    description: str
    function: Callable[..., object]
    arguments: argument_schema.ArgumentSchema
    sensitive: bool = False
    where: Where = Where.MAIN
    preview: Callable[..., Preview] | None = None
    """Returns the preview on the approval card."""
    validate: Callable[..., object] | None = None
    """Raises AgentError for a call that can never run. Called on any thread, in dry runs too."""
    requires: Callable[..., object] | None = None
    """The same for conditions that may change until then; called where the function would run."""
    truncate: TruncationConfig = STANDARD
    """How much of the output the model gets at once."""
    allow_override: bool = False
    """True if it may replace another tool with its name."""
    gives_way: bool = False
    """True if any other tool with its name replaces it."""
    idempotent: bool = False
    """True if a failed call may be repeated as it is."""
    reaches_out: bool | Callable[[], bool] = False
    """True if it sends data away or runs code: asked about again after untrusted content.

    A function finds out when it matters, as where that depends on a sandbox.
    """
    paths: Callable[..., Iterable[str]] | None = None
    """Returns the files and folders that a call concerns."""
    target: Callable[..., str | None] | None = None
    """Returns the name of all that a call changes; None: of a call that is asked about alone.

    Calls in a row with different targets are asked about together: none of them needs that another
    has run, and a call whose preview is not valid any more fails.
    """
    source: Callable[..., str | None] | None = None
    """Returns the source of untrusted content in the output: a file, a server."""
    always_asks: Callable[..., str | None] | None = None
    """Returns why this call always needs approval; None if it does not."""
    question: Callable[..., Question] | None = None
    """Returns a question to the user; the answer is the result, and the function is not called."""
    command: str | None = None
    """The argument with code or a command, if there is one; `a.b`: field `b` of `a`."""
    refuse_controls: bool = False
    """True if control characters are refused in all arguments; in `command` they always are."""
    effects: Callable[[Preview], Effects] | None = None
    """Returns the effects of the call in this preview, as far as static analysis can tell."""
    make_rehearser: Callable[[], Rehearser] | None = None
    """Returns what runs the code in `command` where it can change nothing."""
    hidden: bool = False
    """True if the model is not offered it, but finds it by a search."""
    part_of: str | None = None
    """A tool by which the model calls this one: rules for that one count here, too."""
    redirect: Callable[..., tuple[str, JsonDict] | None] | None = None
    """Returns the name of the tool that a call of this one is meant for, and its arguments."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"a tool cannot be named {self.name!r}: models take 1 to 64 of the characters "
                "a-z, A-Z, 0-9, _ and -"
            )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the plain function: a tool stays callable by its author."""
        return self.function(*args, **kwargs)

    @cached_property
    def owner(self) -> tuple[str, str]:
        """Its origin, which another object has too that is made when its cell is run again."""
        owner = getattr(self.function, "__self__", None)
        made_by = type(owner) if isinstance(owner, BaseTool) else self.function
        return made_by.__module__, made_by.__qualname__

    @cached_property
    def is_built_in(self) -> bool:
        """True if it is one of the package's own."""
        return str(self.owner[0]).startswith(_BUILT_IN)

    @property
    def parallel(self) -> bool:
        """True if calls may run in parallel."""
        return not self.sensitive and self.where is not Where.MAIN

    def can_reach_out(self) -> bool:
        """Return whether it sends data away or runs code."""
        return self.reaches_out() if callable(self.reaches_out) else self.reaches_out

    def definition(self) -> ToolDefinition:
        """Return the definition for the model."""
        return _define(self.name, self.description, self.arguments)

    def to_schema(self) -> JsonDict:
        """Return the definition in Anthropic's format."""
        return self.definition().to_anthropic()

    def get_schema(self) -> JsonDict:
        """Return the definition in OpenAI's format."""
        return self.definition().to_openai()

    def check_arguments(self, arguments: JsonDict) -> JsonDict:
        """Return the arguments as the function takes them; raises InvalidArgumentsError."""
        checked = arguments if self.refuse_controls else self._command_argument(arguments)
        try:
            argument_schema.check_control_characters(checked)
            return self.arguments.validate(arguments)
        except InvalidArgumentsError as error:
            raise InvalidArgumentsError(f"{self.name}: {error}") from None

    def _command_argument(self, arguments: JsonDict) -> JsonDict:
        found = get_command(arguments, self.command) if self.command else None
        return {str(self.command): found} if found is not None else {}


@lru_cache(maxsize=256)  # asked for with each request, and each time for all tools
def _define(
    name: str, description: str, arguments: argument_schema.ArgumentSchema
) -> ToolDefinition:
    words = "\n\n".join(filter(None, (description, arguments.conditions)))
    return ToolDefinition(name=name, description=words, input_schema=arguments.schema)


class BaseTool:
    """A tool written as a class: it has a `name` and a method `execute`, sync or async.

    The arguments of `execute` are described by `args_model` (a pydantic model), else by
    `parameters` (a JSON Schema), else by its own signature; it gets them as keyword arguments.
    Everything else is as in `tool`.
    """

    name: str
    description: str = ""
    args_model: type[BaseModel] | None = None
    parameters: JsonMapping | None = None
    execute: Callable[..., object]
    sensitive: bool = False
    where: Where | str | None = None
    truncate: TruncationConfig = STANDARD
    allow_override: bool = False

    def as_tool(self) -> Tool:
        """Return it as a Tool; raises ConfigError if something is missing."""
        for needed in ("name", "execute"):
            if not hasattr(self, needed):
                raise ConfigError(f"{type(self).__name__} is not a tool yet: it lacks {needed!r}")
        return _from_object(self)

    def to_schema(self) -> JsonDict:
        """Return the definition in Anthropic's format."""
        return self.as_tool().to_schema()

    def get_schema(self) -> JsonDict:
        """Return the definition in OpenAI's format."""
        return self.as_tool().get_schema()


def _describes_tool(thing: object) -> bool:
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

    if (model := trait("args_model")) is not None:
        arguments: argument_schema.ArgumentSchema = argument_schema.TypedArgumentSchema(model)
    elif (schema := trait("parameters")) is not None:
        arguments = argument_schema.JsonArgumentSchema(schema)
    else:
        arguments = argument_schema.signature_schema(thing.execute)
    return Tool(
        name=thing.name,
        description=trait("description") or inspect.cleandoc(type(thing).__doc__ or ""),
        function=thing.execute,
        arguments=arguments,
        sensitive=trait("sensitive"),
        where=_choose_where(trait("where"), thing.execute),
        truncate=trait("truncate"),
        allow_override=trait("allow_override"),
    )


class ToolOptions(TypedDict, total=False):
    """The options of a tool beside its function; `Tool` explains each."""

    sensitive: bool
    preview: Callable[..., Preview] | None
    validate: Callable[..., object] | None
    requires: Callable[..., object] | None
    truncate: TruncationConfig
    allow_override: bool
    gives_way: bool
    idempotent: bool
    reaches_out: bool | Callable[[], bool]
    paths: Callable[..., Iterable[str]] | None
    target: Callable[..., str | None] | None
    source: Callable[..., str | None] | None
    always_asks: Callable[..., str | None] | None
    question: Callable[..., Question] | None
    command: str | None
    refuse_controls: bool
    effects: Callable[[Preview], Effects] | None
    make_rehearser: Callable[[], Rehearser] | None
    redirect: Callable[..., tuple[str, JsonDict] | None] | None


@overload
def tool(function: Callable[..., object] | BaseTool, /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, where: Where | str | None = None, **traits: Unpack[ToolOptions]
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | BaseTool | None = None,
    /,
    *,
    name: str | None = None,
    where: Where | str | None = None,
    **traits: Unpack[ToolOptions],
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a function a tool; its docstring is the description, its signature the schema.

    Sync functions run on the kernel's main thread, where the user's connections and figures live,
    unless `where="thread"`; async functions run in the engine's loop. With `sensitive=True` each
    call is asked about first. A tool is returned as a Tool, and so is an object of any class with
    `name`, `description`, `parameters` and `execute`, as in `BaseTool`.
    """
    # A tool made inside a function may have annotations that are defined there.
    caller: FrameType | None = getattr(inspect.currentframe(), "f_back", None)
    local = caller.f_locals if caller is not None else {}

    def make(function: object) -> Tool:
        if isinstance(function, type):
            raise ConfigError(f"{function.__name__} is a class; a tool is an object of it")
        if not callable(function):
            raise ConfigError(
                f"an object of type {type(function).__name__} is not a tool: a tool is a function, "
                "or an object with a name, a description, parameters (a JSON Schema) and a method "
                "execute"
            )
        call = function if inspect.isroutine(function) else function.__call__
        return Tool(
            name=name or str(getattr(function, "__name__", type(function).__name__)),
            description=inspect.getdoc(function) or "",
            function=call,
            arguments=argument_schema.signature_schema(call, local),
            where=_choose_where(where, call),
            **traits,
        )

    match function:
        case None:
            return make
        case Tool():
            return function
        case BaseTool():
            return function.as_tool()
    return _from_object(function) if _describes_tool(function) else make(function)


def find_tools(values: Iterable[Any]) -> list[Tool | BaseTool]:
    """Return the tools among any objects, without calling code of the objects."""
    return [each for each in values if is_a(each, Tool) or is_a(each, BaseTool)]


def _choose_where(where: Where | str | None, function: Callable[..., object]) -> Where:
    if where:
        return Where(where)
    return Where.LOOP if inspect.iscoroutinefunction(function) else Where.MAIN


COMMAND = "command"
"""The argument in which foreign tools take a command."""


def find_command(schema: Mapping[str, object], body_argument: str | None = None) -> str | None:
    """Return the path to the only command in a JSON Schema; None if there is none.

    `body_argument` is an argument that is sent as a whole; the command may be inside it.
    """
    properties = _properties(schema)
    if _is_text(properties.get(COMMAND)):
        return COMMAND
    if body_argument and _is_text(_properties(properties.get(body_argument)).get(COMMAND)):
        return f"{body_argument}.{COMMAND}"
    return None


def get_command(arguments: Mapping[str, object], argument_path: str) -> str | None:
    """Return the command among the arguments of a call, or None."""
    name, _, field = argument_path.partition(".")
    value = arguments.get(name)
    if field:
        value = value.get(field) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def replace_command(arguments: JsonMapping, argument_path: str, command: str) -> JsonDict:
    """Return the arguments with another command."""
    name, _, field = argument_path.partition(".")
    return {**arguments, name: {**arguments[name], field: command} if field else command}


def _properties(schema: object) -> JsonMapping:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _is_text(schema: object) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


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
            if each.name in self._tools:
                self.add(each)
            else:
                self._tools[each.name] = each

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

    def lend(self, own: Toolbox) -> Toolbox:
        """Return these tools for a run within this one: of built-in ones its own.

        One that gives way is left out if that run lacks it.
        """
        lent = (own._tools.get(each.name, each) if each.is_built_in else each for each in self)
        return Toolbox(each for each in lent if each.name in own or not each.gives_way)

    def add(self, new: Tool) -> None:
        """Add a tool. Re-running its cell replaces it; another tool with its name raises.

        A tool that replaces a sensitive tool is asked about like it: approved code can define tools
        as well. Rules of the user's settings may still allow it.
        """
        old = self._tools.get(new.name)
        override = new.allow_override or (old is not None and old.gives_way)
        if old is not None and not override and old.owner != new.owner:
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
        named = [self.get(name) for name in names if not lenient or name in self]
        parts = (each for each in self if each.part_of in names and each.name not in names)
        shown = (replace(each, hidden=False) if each.hidden else each for each in named)
        return Toolbox([*shown, *parts])

    def redirect(self, call: ToolCall) -> ToolCall:
        """Return the call that is meant: of a tool that the model calls by another one."""
        tool = self._tools.get(call.name)
        if tool is None or tool.redirect is None or call.parse_error is not None:
            return call
        try:
            meant = tool.redirect(**tool.check_arguments(call.arguments))
        except AgentError:  # the call's result says why
            return call
        if meant is None or meant[0] not in self:
            return call
        return call.model_copy(update={"name": meant[0], "arguments": meant[1]})

    def offer(self, names: Iterable[str]) -> Toolbox:
        """Return a toolbox with the same tools, of which the model is offered these, in order."""
        box = copy(self)
        box._tools, box._from_cells = dict(self._tools), set(self._from_cells)
        box._offered = tuple([name for name in names if name in self._tools])
        return box

    def offered_tools(self) -> tuple[Tool, ...]:
        """Return the tools that the model is offered; by default all that are not hidden."""
        names = self._tools if self._offered is None else self._offered
        return tuple([each for name in names if not (each := self._tools[name]).hidden])

    def unoffered_tools(self) -> tuple[Tool, ...]:
        """Return the tools that the model is not offered."""
        offered = {each.name for each in self.offered_tools()}
        return tuple([each for each in self if each.name not in offered])

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the offered tools for the model."""
        return tuple([each.definition() for each in self.offered_tools()])

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def _is_redefinition(old: Tool, new: Tool) -> bool:
    """Return whether a cell of the user's was run again; built-ins are made here alone."""
    return new is old or (old.owner == new.owner and not old.is_built_in)
