"""`ipyagent.map`: one prompt for many items."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from pydantic import BaseModel, Field, create_model

import ipyagent
from ipyagent import Scripted, tool
from ipyagent.agent.session.sessions import Sessions
from ipyagent.config import Layer
from ipyagent.config.sources import UserDataFile
from ipyagent.errors import AgentInterrupted, ConfigError, ModelUnavailableError
from ipyagent.llm.client import LimitedClient, ModelRequest
from ipyagent.many import ItemMap
from ipyagent.schema import StreamChunk, TokenUsage
from ipyagent.store.journal import Journal
from ipyagent.wiring import runtime
from patience import PATIENCE, wait_until
from repository import ROOT
from virtual_time import run_in_virtual_time


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Label(BaseModel):
    n: int
    mood: Mood = Mood.GOOD


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Echo:
    """A model that answers with the number in a prompt, as `reply` makes it; remembers prompts."""

    context_window = None

    def __init__(
        self,
        reply: Callable[[str], str] = lambda text: json.dumps({"n": int(text.split()[-1])}),
        *,
        model: str = "echo",
        cost_usd: float | None = None,
    ) -> None:
        self.model, self.reply, self.cost_usd = model, reply, cost_usd
        self.prompts: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.prompts.append(request.messages[0].text)
        await asyncio.sleep(0)
        yield StreamChunk(data=self.reply(request.messages[-1].text))
        yield StreamChunk(type="finish", data="stop")
        yield StreamChunk(type="usage", usage=TokenUsage(), cost_usd=self.cost_usd)


def test_the_answers_come_in_the_order_of_the_items_as_a_table_of_fields() -> None:
    table = ipyagent.map("Item {n}", range(300), result=Label, model=Echo())
    assert isinstance(table, pd.DataFrame)
    assert [*table.columns] == ["n", "mood", "error", "cost_usd"]
    assert table.n.tolist() == [*range(300)]
    assert {*table.mood} == {"good"}
    assert table.error.isna().all()


def test_columns_fill_the_prompt_and_the_index_stays() -> None:
    model = Echo(str.upper)
    frame = pd.DataFrame({"a": [1, 2], "b c": ["x", "y"], "d": 0}, index=[7, 3])
    table = ipyagent.map('{a} is {b c}, {"json": 1}', frame, model=model)
    assert table.value.to_dict() == {7: '1 IS X, {"JSON": 1}', 3: '2 IS Y, {"JSON": 1}'}
    series = ipyagent.map("See {text}", frame["b c"], model=model)
    assert series.value.to_dict() == {7: "SEE X", 3: "SEE Y"}


class Places(pd.DataFrame):
    """A table as GeoPandas makes it: a class of its own, and series of another one."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return Places

    @property
    def _constructor_sliced(self) -> type[pd.Series]:
        return Lines


class Lines(pd.Series):
    """A column of `Places`."""


class Table(pl.DataFrame):
    """A table of polars with a class of its own."""


def test_tables_of_derived_classes_keep_their_index_and_library() -> None:
    model = Echo(str.upper)
    index = pd.MultiIndex.from_tuples([("b", 2), ("a", 1)], names=["name", "n"])
    places = Places({"a": ["x", "y"]}, index=index)
    for items in (places, places["a"]):
        table = ipyagent.map("Is {a}", items, model=model)
        assert type(table) is pd.DataFrame
        assert table.index.equals(index)
        assert [*table.value] == ["IS X", "IS Y"]
    assert isinstance(ipyagent.map("Is {a}", Table({"a": ["x"]}), model=model), pl.DataFrame)


def test_polars_gets_polars_and_dicts_and_generators_will_do() -> None:
    model = Echo(str.upper)
    frame = ipyagent.map("Is {a}", pl.DataFrame({"a": ["x", "y"]}), model=model)
    assert isinstance(frame, pl.DataFrame)
    assert frame["value"].to_list() == ["IS X", "IS Y"]
    dicts = ipyagent.map("Is {a}", [{"a": "x"}, {"a": "z"}], model=model)
    lazy = ipyagent.map("Is {a}", (letter for letter in "xz"), model=model)
    assert [*dicts.value] == [*lazy.value] == ["IS X", "IS Z"]
    assert len(ipyagent.map("Is {a}", [], model=model)) == 0


@pytest.mark.parametrize(
    ("prompt", "items", "why"),
    [
        ("No field", ["a"], "has no {field}"),
        ("{a} {b}", ["a"], "the prompt's {b}"),
        ("{a} {b}", [("a", "b")], "{b}: a field is a name alone; several need a table or dicts"),
        (
            "{text}",
            pd.DataFrame({"a": [1], "b": [2]}),
            "{text}: a field is a name alone; there are a, b",
        ),
        ("{x}", [{"a": 1}], "there are a"),
        ("{n} {n:.2f}", [1.5], "the prompt's {n:.2f}: a field is a name alone"),
        ("{ n } {n}", [1.5], "the prompt's { n }"),
        ("{} {0}", ["a"], "has no {field}"),
        ("{a}", pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns are called a: rename"),
        ("{1}", pd.DataFrame([[1, 2]], columns=[1, "1"]), "several columns are called 1: rename"),
        (["a"], "{text}", "the prompt is not a text; it comes first"),
        ("{text}", "one text", "the items are a str: give a table or a list"),
        ("{text}", {"text": "one"}, "the items are a dict: give a table or a list"),
        ("{text}", None, "the items are a NoneType: give a table or a list"),
        (
            "{text}",
            pl.LazyFrame({"text": ["a"]}),
            "the items are a LazyFrame: give items.collect()",
        ),
    ],
)
def test_what_cannot_be_filled_is_refused(prompt: Any, items: Any, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        ipyagent.map(prompt, items, model=Echo())
    assert why in str(error.value)


@pytest.mark.parametrize("limit", ["at_once", "requests_per_minute", "max_usd"])
def test_a_limit_that_lets_nothing_through_is_refused(limit: str) -> None:
    for value in (0, -1, "5", float("nan"), *([None] if limit == "at_once" else [])):
        with pytest.raises(ConfigError, match=r"a limit is .*: give a number above 0"):
            ipyagent.map("{a}", ["a"], model=Echo(), **{limit: value})


def test_an_item_with_a_missing_value_is_not_asked_about() -> None:
    model = Echo(str.upper)
    for frame in (pd.DataFrame, pl.DataFrame):
        items = frame({"a": ["x", None, "y"], "b": [1.5, 2.0, None]})
        table = ipyagent.map("{a} {b}", items, model=model)
        assert len({*table["error"]}) == 2
        assert [*table["value"]][:1] == ["X 1.5"]
    table = ipyagent.map("{a}", ["", "None", pd.NA, pd.NaT], model=model)
    assert [*table.error.notna()] == [True, False, True, True]
    assert table.error[0] == "not asked: a value of this item is missing (None or NaN) or empty"
    assert model.prompts == ["x 1.5", "None"]


def test_a_table_has_its_columns_without_items() -> None:
    for items in ([], pd.DataFrame({"n": []}), pl.DataFrame({"n": []})):
        table = ipyagent.map("{n}", items, result=Label, tools="list_files", model=Echo())
        assert [*table.columns] == ["n", "mood", "error", "cost_usd", "run_id"]
    assert table.schema["error"] == pl.String


def test_a_text_longer_than_a_user_types_is_an_item() -> None:
    model = Echo(str.upper)
    long = ["a" * 50_000]
    assert ipyagent.map("{text}", long, model=model).value[0] == "A" * 50_000
    (error,) = ipyagent.map("{text}", long, tools=[look], model=model).error
    assert "at most 10,000 can be typed. Put the text into a file or a variable" in error


def test_one_tool_is_given_alone_by_its_name() -> None:
    model = Scripted(["Done."])
    assert ipyagent.map("{n}", [1], tools="list_files", model=model).value[0] == "Done."
    assert [each.name for each in model.requests[0].tools] == ["list_files"]


def test_numbers_stay_whole_and_bools_a_mask_where_an_answer_is_missing() -> None:
    class Sign(BaseModel):
        n: int
        is_odd: bool

    model = Echo(lambda text: json.dumps({"n": 10 ** int(text), "is_odd": text == "0"}))
    table = ipyagent.map("{n}", [0, None, 18], result=Sign, model=model)
    assert [*table.n.dropna()] == [1, 10**18]
    assert [*table[table.is_odd].n] == [1]
    assert [*ipyagent.map("{n}", [None, 30], result=Sign, model=model).n.dropna()] == [10**30]


class Part(BaseModel):
    pair: tuple[int, str]
    moods: list[Mood]
    when: date
    price: Decimal
    either: int | list[str] = 0


def test_values_of_any_type_come_into_a_table() -> None:
    """Polars has no type for some: these are objects."""
    replies = [
        {"pair": [1, "x"], "moods": ["good"], "when": "2026-01-01", "price": "1.5"},
        {"pair": [2, "y"], "moods": [], "when": "2026-01-02", "price": "2", "either": ["z"]},
    ]
    model = Echo(lambda text: json.dumps(replies[int(text)]))
    for frame in (pd.DataFrame, pl.DataFrame):
        table = ipyagent.map("{n}", frame({"n": [0, 1]}), result=Part, model=model)
        assert [*table["pair"]] == [(1, "x"), (2, "y")]
        assert [*table["moods"]] == [[Mood.GOOD], []]
        assert [*table["when"]] == [date(2026, 1, 1), date(2026, 1, 2)]
        assert [*table["price"]] == [Decimal("1.5"), Decimal(2)]
        assert [*table["either"]] == [0, ["z"]]


def test_a_field_that_is_called_like_a_column_of_ours_is_refused() -> None:
    class Taken(BaseModel):
        error: str

    with pytest.raises(ConfigError, match="is called error"):
        ipyagent.map("{a}", ["a"], result=Taken, model=Echo())


def test_what_was_answered_is_not_asked_again() -> None:
    model = Echo()
    ipyagent.map("Item {n}", [1, 2, 2, 1], result=Label, model=model)
    assert sorted(model.prompts) == ["Item 1", "Item 2"]
    table = ipyagent.map("Item {n}", [2, 3, 1], result=Label, model=model)
    assert (sorted(model.prompts)[2:], [*table.n]) == (["Item 3"], [2, 3, 1])
    ipyagent.map("Item {n}", [1], result=int, model=Echo(lambda text: '{"value": 1}'))
    other = Echo(model="another")
    ipyagent.map("Item {n}", [1], result=Label, model=other)
    ipyagent.map("The item {n}", [1], result=Label, model=model)
    assert (other.prompts, model.prompts[3:]) == (["Item 1"], ["The item 1"])
    assert [*Path(".ipyagent").glob("answers.db*")] == [Path(".ipyagent/answers.db")]  # closed


def test_answers_that_somebody_else_stored_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Echo()
    for user in ("other", "own", "own"):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / user))
        ipyagent.map("Item {n}", [1, 2], model=model)
    assert len(model.prompts) == 4


def test_a_lost_secret_is_replaced_by_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))
    model = Echo()
    ipyagent.map("Item {n}", [1], model=model)
    UserDataFile("secret.json").path.write_text("not JSON")
    for _ in range(2):
        ipyagent.map("Item {n}", [1], model=model)
    assert len(model.prompts) == 2


def test_without_persistence_nothing_is_kept(tmp_path: Path) -> None:
    model = Echo()
    for _ in range(2):
        ipyagent.map("Item {n}", [1], result=Label, model=model, persist=False)
    assert (len(model.prompts), [*tmp_path.iterdir()]) == (2, [])


def test_an_answer_that_is_not_valid_any_more_is_asked_for_again() -> None:
    class Strict(BaseModel):
        n: int

    model = Echo()
    ipyagent.map("Item {n}", [1, 20], result=Strict, model=model)
    changed = create_model("Strict", n=(int, Field(lt=10)))
    kept = ipyagent.map("Item {n}", [1, 20], result=changed, model=model)
    assert [*kept.error.isna()] == [True, False]


def test_one_bad_item_ends_no_other_and_says_why() -> None:
    def reply(text: str) -> str:
        if "13" in text:
            raise RuntimeError("unlucky")
        return "none" if "14" in text or "JSON" in text else json.dumps({"n": int(text[-2:])})

    model = Echo(reply)
    table = ipyagent.map("Item {n}", range(10, 20), result=Label, model=model)
    errors = table.error.dropna()
    assert errors[3] == "RuntimeError: unlucky"
    assert errors[4].startswith("The answer is not Label: Invalid JSON")
    assert [*errors.index] == [3, 4]
    assert len([each for each in model.prompts if each == "Item 14"]) == 3


def test_ten_failures_in_a_row_of_one_kind_end_it() -> None:
    model = Echo(lambda text: "nonsense")
    with pytest.warns(UserWarning, match="10 in a row failed"):
        table = ipyagent.map("Item {n}", range(100), result=Label, model=model, at_once=4)
    assert len({*model.prompts}) <= 13
    assert table.error.str.startswith("not asked: 10 in a row failed").sum() >= 87
    assert table.n.isna().all()


def test_the_budget_is_kept_to() -> None:
    with pytest.warns(UserWarning, match=r"the budget of \$1.00 is used up"):
        table = ipyagent.map(
            "Item {n}", range(100), result=Label, model=Echo(cost_usd=0.25), max_usd=1
        )
    assert (table.cost_usd.sum(), table.error.isna().sum()) == (1.0, 4)
    more = ipyagent.map("Item {n}", range(4), result=Label, model=Echo(cost_usd=0.25), max_usd=1)
    assert more.error.isna().all()


def test_without_a_price_there_is_no_budget() -> None:
    model = Echo()
    with pytest.warns(UserWarning, match="price of this model is not known"):
        ipyagent.map("Item {n}", range(9), result=Label, model=model, max_usd=1)
    assert len(model.prompts) == 1


async def test_it_can_be_awaited_and_a_cancelled_one_keeps_what_is_done() -> None:
    half = asyncio.Event()

    def reply(text: str) -> str:
        if len(model.prompts) >= 100:
            loop.call_soon_threadsafe(half.set)
        return json.dumps({"n": int(text.split()[-1])})

    loop, model = asyncio.get_running_loop(), Echo(reply)
    task = asyncio.ensure_future(ipyagent.amap("Item {n}", range(5_000), result=Label, model=model))
    await half.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asked = len(model.prompts)
    assert asked < 5_000
    table = await ipyagent.amap("Item {n}", range(asked), result=Label, model=model)
    assert [*table.n] == [*range(asked)]
    assert len(model.prompts) - asked <= 64  # what was under way


def test_a_stop_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(text: str) -> str:
        if len(model.prompts) >= 100:
            running[0].cell.stop()
        return json.dumps({"n": int(text.split()[-1])})

    running: list[Any] = []
    begin = ItemMap.run

    async def run(self: Any) -> None:
        running.append(self)
        await begin(self)

    model = Echo(reply)
    monkeypatch.setattr(ItemMap, "run", run)
    with pytest.raises(AgentInterrupted):
        ipyagent.map("Item {n}", range(5_000), result=Label, model=model)
    asked = len(model.prompts)
    ipyagent.map("Item {n}", range(asked), result=Label, model=model)
    assert len(model.prompts) - asked <= 64


@tool(where="loop")
async def look() -> str:
    """Look."""
    return "Seven."


def test_with_tools_each_item_is_a_run_and_what_must_be_asked_about_is_denied() -> None:
    @tool(sensitive=True, where="loop")
    async def change() -> str:
        """Change."""
        raise AssertionError("nobody allowed it")

    def reply(request: ModelRequest) -> Any:
        number = int(request.messages[1].text.split()[-1])
        results = [each.text for message in request.messages for each in message.tool_results]
        if not results:
            return {"calls": [{"name": "change" if number == 5 else "look"}]}
        return json.dumps({"n": number, "mood": "good" if "Seven." in results else "bad"})

    def ask() -> pd.DataFrame:
        tools = [look, change, "list_files"]
        return ipyagent.map("Item {n}", range(30), result=Label, tools=tools, model=model)

    model = Scripted([reply] * 100)
    table = ask()
    done = table.drop(index=5)
    assert [*done.n] == [*range(5), *range(6, 30)]
    assert {*done.mood} == {"good"}
    assert done.error.isna().all()
    assert "change was not run: it needs an approval" in table.error[5]
    assert len({*table.run_id}) == 30
    assert {each.name for each in model.requests[0].tools} == {"look", "change", "list_files"}
    assert len(model.requests) == 60
    again = ask()
    assert [*again.run_id.drop(index=5)] == [*done.run_id]
    assert len(model.requests) == 62


def test_an_item_leaves_no_session_open_and_its_run_is_found(tmp_path: Path) -> None:
    def reply(request: ModelRequest) -> Any:
        return "Done." if request.messages[-1].tool_results else {"calls": [{"name": "look"}]}

    table = ipyagent.map("{n}", range(20), tools=[look], model=Scripted([reply] * 40))
    journal = Journal.open(tmp_path / ".ipyagent/state.db")
    runs = [journal.run(each) for each in table.run_id]
    assert [each.prompt for each in runs] == [*map(str, range(20))]
    assert {each.executions[0].result.output for each in runs} == {"Seven."}
    assert all(map(journal.claim, {each.session_id for each in runs}))
    journal.close()
    assert not runtime().journal(runtime().workspace(tmp_path), persist=True).open_sessions


def test_sessions_of_items_are_in_no_list_and_resumed_by_id(tmp_path: Path) -> None:
    table = ipyagent.map("{n}", range(3), tools=[look], model=Scripted(["Done."] * 3))
    sessions = Sessions(runtime().journal(runtime().workspace(tmp_path), persist=True))
    assert sessions.journal.sessions() == []
    item = sessions.journal.run(table.run_id[1]).session_id
    assert sessions.resume(item).session.id == item
    assert len({each.id for each in sessions.journal.sessions(items=True)}) == 3
    sessions.close()


def test_a_session_that_begins_while_a_stop_comes_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is locked until the stop has ended the item that waits for its session."""
    folder = tmp_path / ".ipyagent"
    running: list[Any] = []
    ended = threading.Event()
    begin = ItemMap.run

    async def run(self: Any) -> None:
        running.append(self)
        try:
            await begin(self)
        finally:
            ended.set()

    def stop() -> None:
        wait_until(lambda: [*folder.glob("locks/*")])
        running[0].cell.stop()
        ended.wait(PATIENCE)
        other.rollback()

    monkeypatch.setattr(ItemMap, "run", run)
    runtime().journal(runtime().workspace(tmp_path), persist=True)
    with closing(sqlite3.connect(folder / "state.db", check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        stopping = threading.Thread(target=stop)
        stopping.start()
        with pytest.raises(AgentInterrupted):
            ipyagent.map("{n}", [1], tools=[look], model=Scripted([]))
        stopping.join()
    assert [*folder.glob("locks/*")] == []


def test_validators_and_secrets_hold_for_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "canary-0123456789-abcdef")
    model = Echo(str.upper)
    ipyagent.map("Say {a}", ["canary-0123456789-abcdef"], model=model)
    assert "canary" not in model.prompts[0]


class Refusing:
    """A model whose first `count` requests are put off for `seconds`; remembers all moments."""

    model, context_window = "refusing", None

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds
        self.moments: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.moments.append(asyncio.get_running_loop().time())
        refused = len(self.moments) <= self.count
        await asyncio.sleep(0.5)
        if refused:
            raise ModelUnavailableError("slow down", self.seconds)
        yield StreamChunk(type="usage", usage=TokenUsage(completion_tokens=100))


async def ask_all(client: Any, count: int) -> None:
    async def ask() -> None:
        async for _ in client.stream(ModelRequest(())):
            pass

    await asyncio.gather(*(ask() for _ in range(count)))


def test_all_wait_when_the_service_says_so_and_half_as_many_ask_after_that() -> None:
    model = Refusing(8, 5.0)
    run_in_virtual_time(ask_all(LimitedClient(model, 8), 12))
    assert model.moments[:8] == [0.0] * 8
    assert model.moments[8:12] == [5.5] * 4
    assert len(model.moments) == 20


def test_a_limited_client_has_the_prices_of_the_one_that_it_asks() -> None:
    class Priced(Echo):
        def cost(self, usage: TokenUsage) -> float:
            return usage.total_tokens / 4

    usage = TokenUsage(prompt_tokens=3)
    assert LimitedClient(Priced(), 1).cost(usage) == 0.75
    assert LimitedClient(Echo(), 1).cost(usage) is None


def test_a_request_that_is_put_off_for_ever_fails() -> None:
    model = Refusing(10**6, 1.0)
    with pytest.raises(ModelUnavailableError):
        run_in_virtual_time(ask_all(LimitedClient(model, 1), 1))
    assert len(model.moments) == 7


def test_requests_and_tokens_a_minute_are_kept_to() -> None:
    model = Refusing(0, 0)
    run_in_virtual_time(ask_all(LimitedClient(model, 100, requests_per_minute=60), 10))
    assert model.moments == [float(second) for second in range(10)]
    model = Refusing(0, 0)
    run_in_virtual_time(ask_all(LimitedClient(model, 1, tokens_per_minute=600), 4))
    assert model.moments == [0.0, 10.5, 21.0, 31.5]


@contextmanager
def item_service(*options: str) -> Iterator[str]:
    """The address of a service of items, in a process of its own."""
    command = [sys.executable, str(ROOT / "tests/servers/item_service.py"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def layer_for(address: str, key: str | None = "sk-none") -> Layer:
    llm = {"model": "openai/m", "api_base": f"{address}/v1", "api_key": key}
    return Layer("the test", {"llm": llm | {"retry": {"initial_delay": 0.05}}})


def tell(address: str, path: str) -> Any:
    with urllib.request.urlopen(address + path) as answer:
        return json.load(answer)


def paid_in(address: str) -> dict[str, int]:
    paid: dict[str, int] = tell(address, "/paid")
    return paid


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_with_faults_and_limits_all_is_done_and_nothing_is_paid_for_twice(count: int) -> None:
    with item_service("--faults") as address:
        table = ipyagent.map(
            "item {n}", range(count), result=Label, layers=[layer_for(address)], at_once=100
        )
        paid = paid_in(address)
    assert [*table.n] == [*range(count)]
    assert table.error.isna().all()
    assert paid == {str(number): 1 for number in range(count)}


MEMORY = """
import resource, sys
import ipyagent
from ipyagent.config import Layer
llm = {"model": "openai/m", "api_base": sys.argv[1], "api_key": "sk-none"}
def look():
    "Look."
    return "Seven."
tools, first, last = [look][:int(sys.argv[2])], *map(int, sys.argv[3:])
def ask(numbers):
    layers = [Layer("the test", {"llm": llm})]
    ipyagent.map("item {n} " + "x" * 1000, numbers, tools=tools, layers=layers)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = ask(range(first))
print((ask(range(first, last)) - before) / (last - first))
"""


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [("0", "500", "4500"), ("1", "200", "1200")])
def test_an_item_takes_little_memory(tmp_path: Path, sizes: tuple[str, ...]) -> None:
    """Without tools, and as an agent with one."""
    with item_service() as address:
        command = [sys.executable, "-c", MEMORY, f"{address}/v1", *sizes]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True
        )
    assert float(done.stdout) < 20  # kilobytes
