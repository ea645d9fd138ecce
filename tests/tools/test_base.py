"""What makes a tool, the box that keeps tools apart, and how they are called."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, field_validator

from harness import NO, YES, Lab, call
from ipyagent.errors import (
    AgentError,
    ConfigError,
    DuplicateToolError,
    InvalidArgumentsError,
    ToolNotFoundError,
)
from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import Outcome, Preview, ToolStatus, TruncationConfig
from ipyagent.tools.base import BaseTool, Tool, Toolbox, Where, find_tools, tool
from ipyagent.tools.namespace_tools import namespace_tools

if TYPE_CHECKING:
    from pandas import DataFrame


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["city"],
}


class Asked(BaseModel):
    city: str
    days: int = 1


class Weather(BaseTool):
    """Tell the weather."""

    name = "weather"

    def execute(self, city: str, days: int = 1) -> str:
        return f"{city}: {days}"


class ByModel(Weather):
    args_model = Asked


class BySchema(Weather):
    description = "Ask the sky."
    parameters = SCHEMA

    async def execute(self, **arguments: Any) -> str:
        return str(arguments)


@tool(sensitive=True)
def query(sql: str, limit: int = 100) -> DataFrame:
    """Run a read-only SQL query."""
    return f"{sql} {limit}"


# --- functions -----------------------------------------------------------------------------------


@pytest.mark.spec("M19")
def test_a_function_becomes_a_tool_by_its_signature_and_docstring() -> None:
    assert (query.name, query.description) == ("query", "Run a read-only SQL query.")
    assert (query.sensitive, query.where) == (True, Where.MAIN)
    assert query("select 1") == "select 1 100", "it stays callable by its author"

    @tool
    async def fetch(url: str) -> str:
        return url

    assert (fetch.where, fetch.description) == (Where.LOOP, "")
    assert tool(query) is query


@pytest.mark.spec("M20")
def test_a_tool_is_told_in_the_formats_of_both_providers() -> None:
    schema = {
        "type": "object",
        "properties": {"sql": {"type": "string"}, "limit": {"type": "integer", "default": 100}},
        "required": ["sql"],
        "additionalProperties": False,
    }
    described = {"name": "query", "description": "Run a read-only SQL query."}
    assert query.to_schema() == {**described, "input_schema": schema}
    assert query.get_schema() == {
        "type": "function",
        "function": {**described, "parameters": schema},
    }
    assert query.to_schema() == query.definition().to_anthropic()
    assert query.get_schema() == query.definition().to_openai()


@pytest.mark.spec("M19")
def test_methods_wrapped_functions_and_callable_objects_are_functions_too() -> None:
    class Shop:
        def price(self, item: str) -> str:
            """Look it up."""
            return item

    class Greet:
        """Say hello."""

        async def __call__(self, name: str) -> str:
            return name

    def noisy(function: FunctionType) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @noisy
    def half(asked: Asked) -> str:
        return asked.city

    made = [tool(Shop().price), tool(Greet()), half]
    assert [(each.name, each.where) for each in made] == [
        ("price", Where.MAIN),
        ("Greet", Where.LOOP),
        ("half", Where.MAIN),
    ]
    assert [list(each.arguments.schema["properties"]) for each in made] == [
        ["item"],
        ["name"],
        ["asked"],
    ]
    assert made[0](**made[0].check_arguments({"item": "tea"})) == "tea"
    assert made[2](**made[2].check_arguments({"asked": {"city": "Rome"}})) == "Rome"


def test_an_annotation_may_name_what_is_defined_beside_the_tool() -> None:
    class Point(BaseModel):
        x: int

    @tool(sensitive=True)
    def go(to: Point, by: list[Point] | None = None) -> str:
        return str(to.x)

    assert go(**go.check_arguments({"to": {"x": 3}})) == "3"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: tool(lambda *paths: 1), r"by name only, not \*paths"),
        (lambda: tool(lambda **more: 1), r"by name only, not \*\*more"),
        (lambda: tool(lambda a, /: 1), "by name only, not a"),
        (lambda: tool(lambda: 1), "cannot be named '<lambda>'"),
        (lambda: tool(name="mcp_my srv_get.it")(lambda: 1), "cannot be named"),
        (lambda: tool(name="größe")(lambda: 1), "cannot be named"),
        (lambda: tool(name="x" * 65)(lambda: 1), "cannot be named"),
        (lambda: tool(name="x\n")(lambda: 1), "cannot be named"),
        (lambda: tool(Weather), "Weather is a class"),
        (lambda: tool(tells_a_lie), "name 'Nowhere' is not defined; define the type"),
        (lambda: tool(takes_anything), "cannot take these"),
    ],
)
@pytest.mark.spec("M19", "D12")
def test_what_no_model_could_call_is_refused_when_it_is_defined(make: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make()


def tells_a_lie(x: Nowhere) -> None:  # noqa: F821
    """Take what isn't there."""


def takes_anything(x: FunctionType) -> None:
    """Take what JSON cannot say."""


def test_the_longest_name_and_every_character_that_providers_take() -> None:
    name = "aZ09_-".ljust(64, "x")
    assert tool(name=name)(lambda: 1).name == name


# --- classes -------------------------------------------------------------------------------------


@pytest.mark.spec("M19", "M20")
@pytest.mark.parametrize("kind", [Weather, ByModel, BySchema])
def test_a_class_is_a_tool_by_signature_model_or_schema(kind: type[BaseTool]) -> None:
    made = tool(kind())
    assert isinstance(made, Tool)
    assert kind().to_schema() == made.to_schema() == made.definition().to_anthropic()
    assert kind().get_schema() == made.get_schema() == made.definition().to_openai()
    for wrong in ({}, {"city": 3}, {"city": "Rome", "days": "soon"}, {"city": "R", "colour": 1}):
        with pytest.raises(InvalidArgumentsError, match=r"weather: .*(city|days|colour)"):
            made.check_arguments(wrong)


@pytest.mark.spec("M19")
def test_a_class_runs_where_its_execute_belongs_with_all_that_tool_can_say() -> None:
    class Careful(BySchema):
        sensitive = True
        where = "thread"
        truncate = TruncationConfig(max_chars=50)

    assert (tool(Weather()).where, tool(BySchema()).where) == (Where.MAIN, Where.LOOP)
    made = tool(Careful())
    assert (made.sensitive, made.where, made.truncate.max_chars) == (True, Where.THREAD, 50)
    assert tool(ByModel())(**made.check_arguments({"city": "Rome"})) == "Rome: 1"
    assert [tool(each()).description for each in (Weather, ByModel, BySchema)] == [
        "Tell the weather.",
        "",
        "Ask the sky.",
    ]


@pytest.mark.spec("M20", "D12")
def test_a_schema_is_told_as_it_was_written() -> None:
    assert BySchema().to_schema()["input_schema"] == SCHEMA
    assert BySchema().get_schema()["function"]["parameters"] == SCHEMA


def test_an_unfinished_class_says_what_it_lacks() -> None:
    class Nameless(BaseTool):
        def execute(self) -> None:
            """Do nothing."""

    class Idle(BaseTool):
        name = "idle"

    for kind, lacks in ((Nameless, "'name'"), (Idle, "'execute'")):
        with pytest.raises(
            ConfigError, match=f"{kind.__name__} is not a tool yet: it lacks {lacks}"
        ):
            tool(kind())


def test_tools_are_found_among_variables_without_asking_any_object() -> None:
    class Liar:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("do not ask")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("do not ask")

    with pytest.raises(RuntimeError):
        isinstance(Liar(), Tool)
    found = find_tools([1, Liar(), query, Weather, Weather(), len, None])
    assert [each.name for each in found] == ["query", "weather"]


# --- the box -------------------------------------------------------------------------------------


def named(name: str, **options: Any) -> Tool:
    def stranger(x: int) -> None:
        """Belong to somebody else."""

    return tool(name=name, **options)(stranger)


@pytest.mark.spec("A49")
def test_another_owners_tool_of_the_same_name_is_refused_unless_it_may_override() -> None:
    box = Toolbox([query])
    with pytest.raises(DuplicateToolError, match=r"two tools are named 'query'.*allow_override"):
        box.add(named("query"))
    assert box.get("query") is query
    mine = named("query", allow_override=True)
    box.add(mine)
    assert box.get("query").function is mine.function
    box.add(replace(query, allow_override=True))
    assert box.get("query").function is query.function


@pytest.mark.spec("A49")
def test_a_tool_that_gives_way_is_replaced_by_any_other_of_its_name() -> None:
    other = named("query")
    (kept,) = Toolbox([replace(query, gives_way=True), other])
    assert kept.function is other.function
    with pytest.raises(DuplicateToolError):
        Toolbox([other, replace(query, gives_way=True)])


@pytest.mark.spec("A49", "P03")
def test_what_replaces_a_sensitive_tool_is_asked_about_as_that_was() -> None:
    box = Toolbox([named("act", sensitive=True, reaches_out=True), named("look")])
    for name in ("act", "look"):
        box.add(tool(name=name, allow_override=True)(lambda: "done"))
    act, look = box
    assert (act.sensitive, act.can_reach_out(), act()) == (True, True, "done")
    assert (look.sensitive, look()) == (False, "done")


@pytest.mark.spec("A49", "P03")
def test_a_function_that_says_it_is_built_in_is_asked_about_all_the_same() -> None:
    built_in = namespace_tools(Namespace({}))[-1]
    posing = tool(name="run_python")(lambda code: "ran")
    posing.function.__module__ = built_in.function.__module__
    posing.function.__qualname__ = built_in.function.__qualname__
    assert Toolbox([built_in, posing]).get("run_python").sensitive


@pytest.mark.spec("A49")
def test_a_tool_of_a_cell_whose_name_is_taken_is_left_out_with_a_notice() -> None:
    box = Toolbox([query])
    first = tool(name="extra")(lambda: "first")
    box.add_from_cells([named("query"), first, named("extra"), named("query")])
    assert (box.get("query"), box.get("extra")) == (query, first)
    assert [each.partition(" is left out, because two tools")[0] for each in box.notices] == [
        "Your tool 'query'",
        "Your tool 'extra'",
        "Your tool 'query'",
    ]


@pytest.mark.spec("A49")
def test_running_the_cell_that_defines_a_tool_again_replaces_it() -> None:
    cell = "from ipyagent import tool\n@tool\ndef probe(x: int) -> int:\n    return x + {n}\n"
    cell += "from ipyagent.tools.base import BaseTool\nclass Sky(BaseTool):\n    name = 'sky'\n"
    cell += "    def execute(self): return {n}\nsky = Sky()\n"
    runs: list[dict[str, Any]] = []
    for n in range(2):
        notebook: dict[str, Any] = {"__name__": "__main__"}
        exec(cell.format(n=n), notebook)
        runs.append(notebook)
    box = Toolbox(map(tool, find_tools([*runs[0].values(), *runs[1].values()])))
    assert len(box) == 2
    assert (box.get("probe")(1), box.get("sky")()) == (2, 1), "the newer one counts"


@pytest.mark.spec("A49")
def test_another_class_with_the_same_name_is_another_owner() -> None:
    class Other(Weather):
        pass

    box = Toolbox([tool(Weather())])
    box.add(tool(Weather()))
    with pytest.raises(DuplicateToolError):
        box.add(tool(Other()))


@pytest.mark.spec("A48", "H14")
def test_a_name_that_nobody_has_is_answered_with_those_there_are() -> None:
    box = Toolbox([query, tool(Weather())])
    with pytest.raises(ToolNotFoundError, match="'fly'; available: query, weather"):
        box.get("fly")
    with pytest.raises(ToolNotFoundError, match="available: none"):
        Toolbox().get("fly")


@pytest.mark.spec("A11")
def test_only_some_tools_all_of_them_or_an_error_that_lists_them() -> None:
    box = Toolbox([query, tool(Weather())])
    assert [each.name for each in box.select(["weather"])] == ["weather"]
    assert [each.name for each in box.select([])] == ["query", "weather"]
    assert [each.name for each in box.select(["weather", "weather"])] == ["weather"]
    with pytest.raises(ToolNotFoundError, match="'wether'; available: query, weather"):
        box.select(["query", "wether"])
    with pytest.raises(ToolNotFoundError, match="available: weather"):
        box.select(["weather"]).get("query")


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def dig() -> None:
    dig()


def thrower(error: BaseException | None, where: str) -> Tool:
    """A tool that raises `error`; None: what Python raises by itself when it digs too deep."""

    def throw() -> None:
        """Fail."""
        if error is None:
            dig()
        else:
            raise error

    async def throw_later() -> None:
        """Fail."""
        throw()

    return tool(name="throw", where=where)(throw_later if where == "loop" else throw)


RAISED = [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
RAISED += [StopIteration(), StopAsyncIteration(), UnreadableError(), AgentError()]


@pytest.mark.spec("A36", "A37", "A38", "D10", "D26")
@pytest.mark.parametrize("where", ["main", "thread", "loop"])
@pytest.mark.parametrize("error", [*RAISED, None], ids=lambda error: type(error).__name__)
def test_whatever_a_tool_raises_wherever_it_runs_is_its_failed_result(
    lab: Lab, error: BaseException | None, where: str
) -> None:
    made = thrower(error, where)
    with pytest.raises(type(error) if error else RecursionError):
        thrower(error, "main")()
    run = lab.run([{"calls": [call("throw")]}, "Still here."], tools=[made])
    (execution,) = run.executions
    assert execution.status is ToolStatus.FAILED
    name = type(error).__name__ if error else "RecursionError"
    assert name in (execution.result.error or "")
    assert name in execution.result.output
    assert (run.output, run.outcome) == ("Still here.", Outcome.SUCCESS)
    told = lab.client.requests[-1].messages[-1].tool_results[0]
    assert (told.is_error, name in told.text) == (True, True)


class Shouting(str):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit


@pytest.mark.spec("A36")
def test_a_value_that_fights_back_is_a_failed_result(lab: Lab) -> None:
    @tool
    def give() -> str:
        """Give."""
        return Shouting("x")

    run = lab.run([{"calls": [call("give")]}, "Still here."], tools=[give])
    assert run.output == "Still here."
    assert len(run.results) == 1


@pytest.mark.spec("A11", "A48", "H14")
def test_only_allowed_tools_are_offered_and_answer(lab: Lab) -> None:
    calls = [call("list_files"), call("read_file", path="x"), call("fly")]
    run = lab.run([{"calls": calls}, "Ok."], allowed_tools=["list_files"])
    offered = lab.client.requests[0].tools
    assert [each.name for each in offered] == ["list_files"]
    assert [result.success for result in run.results] == [True, False, False]
    for result, name in zip(run.results[1:], ["read_file", "fly"], strict=True):
        assert result.error == f"no tool is named {name!r}; available: list_files"
    assert run.outcome is Outcome.SUCCESS


@pytest.mark.spec("A18")
@pytest.mark.parametrize(
    ("allowed", "answer", "mode", "gone", "says"),
    [
        (False, YES, "confirm-sensitive", False, "disabled; set workspace.allow_delete=true"),
        (False, YES, "yolo", False, "disabled; set workspace.allow_delete=true"),
        (True, YES, "confirm-sensitive", True, "deleted a.txt"),
        (True, NO, "confirm-sensitive", False, "denied"),
        (True, None, "confirm-sensitive", False, "delete_file was not run"),
    ],
)
def test_deleting_needs_the_setting_and_an_approval(
    lab: Lab, allowed: bool, answer: Any, mode: str, gone: bool, says: str
) -> None:
    path = lab.environment.workspace.root / "a.txt"
    path.write_text("x")
    run = lab.run(
        [{"calls": [call("delete_file", path="a.txt")]}, "Ok."],
        answer=answer,
        settings={"workspace": {"allow_delete": allowed}},
        confirm_mode=mode,
    )
    assert says in run.results[0].output
    assert path.exists() is not gone
    assert bool(lab.watcher.asked) is (allowed and mode != "yolo")
    offered = lab.client.requests[0].tools
    assert ("delete_file" in {each.name for each in offered}) is allowed


@pytest.mark.spec("N21", "N22")
def test_the_model_pages_through_what_was_cut(lab: Lab) -> None:
    text = "".join(f"row {number}\n" for number in range(2_000))

    @tool
    def long() -> str:
        """Say much."""
        return text

    @tool(truncate=TruncationConfig(max_chars=300))
    def short() -> str:
        """Say less."""
        return text

    @tool(truncate=TruncationConfig(enabled=False))
    def whole() -> str:
        """Say all."""
        return text

    @tool
    def wail() -> str:
        """Fail at length."""
        raise ValueError("woe " * 20_000)

    calls = [call(each) for each in ("long", "short", "whole", "wail")]
    run = lab.run([{"calls": calls}, "Ok."], tools=[long, short, whole, wail])
    assert [result.full_output for result in run.results[:3]] == [text] * 3
    assert len(run.results[3].error or "") <= 2_000
    assert run.results[2].output == text
    assert len(run.results[1].output) <= 300
    assert len(run.results[0].output.splitlines()) <= 1_000
    cut = run.results[0].truncated
    again = lab.run([{"calls": [call("read_file", path=cut.path, offset=1_500, limit=1)]}, "Ok."])
    assert again.results[0].output.startswith("  1500\trow 1499")


@pytest.mark.spec("A36", "D10")
@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, KeyError])
def test_a_preview_or_a_validator_that_raises_is_a_failed_call_too(
    lab: Lab, raised: type[BaseException]
) -> None:
    def show() -> Preview:
        raise raised("no preview")

    class Arguments(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def refuse(cls, value: int) -> int:
            raise raised("no value")

    class Refusing(BaseTool):
        name = "refusing"
        args_model = Arguments

        def execute(self, x: int) -> int:
            return x

    @tool(sensitive=True, preview=show)
    def shown() -> str:
        return "ran"

    replies = [{"calls": [call("shown"), call("refusing", x=1)]}, "Ok."]
    run = lab.run(replies, tools=[shown, tool(Refusing())])
    assert run.output == "Ok."
    assert [e.status for e in run.executions] == [ToolStatus.FAILED] * 2


def test_calls_beside_each_other_begin_in_the_order_of_the_model(lab: Lab) -> None:
    """However long their checks take."""

    def check(n: int) -> None:
        time.sleep(0.02 * (5 - n))

    @tool(validate=check, where=Where.THREAD)
    def look(n: int) -> int:
        """Look."""
        return n

    calls = [call("look", n=n) for n in range(5)]
    run = lab.run([{"calls": calls}, "Ok."], tools=[look])
    assert [result.output for result in run.results] == ["0", "1", "2", "3", "4"]
