"""`ipyagent.map(…, on=…)`: the workers of executors send the requests."""

from __future__ import annotations

import asyncio
import json
import operator
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import ipyagent
from ipyagent import Scripted
from ipyagent.config import Layer
from ipyagent.errors import AgentInterrupted, ConfigError, ModelError, ModelUnavailableError
from ipyagent.llm.client import ModelRequest
from ipyagent.many import ItemMap
from ipyagent.schema import StreamChunk
from patience import wait_until
from test_map import Echo, Label, item_service, layer_for, paid_in, tell


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LITELLM_API_KEY", "sk-none")


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> Any:
    """A pool of two processes, begun in one of the ways; `make lazy` has loky's."""
    if (way := getattr(request, "param", "spawn")) == "loky":
        with pytest.importorskip("loky").ProcessPoolExecutor(2) as pool:
            yield pool
    elif way == "fork" and sys.version_info >= (3, 12):
        pytest.skip("Python warns of forks beside threads, and has another default from 3.14 on")
    else:
        with ProcessPoolExecutor(2, get_context(way)) as pool:
            yield pool


@pytest.fixture
def threads() -> Any:
    with ThreadPoolExecutor(8) as pool:
        yield pool


class Pickling(Executor):
    """An executor in this process, which pickles everything as others do."""

    def submit(self, function: Callable[..., Any], /, *work: Any, **more: Any) -> Future[Any]:
        import pickle

        future: Future[Any] = Future()

        def run() -> None:
            try:
                call, arguments = pickle.loads(pickle.dumps((function, work)))
                future.set_result(pickle.loads(pickle.dumps(call(*arguments))))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


def ask(address: str, count: int, on: Any) -> Any:
    layers = [layer_for(address, key=None)]
    return ipyagent.map("item {n}", range(count), result=Label, layers=layers, on=on)


def ask_twice(on: Any) -> None:
    with item_service("--faults") as address:
        for count in (60, 100):
            assert [*ask(address, count, on).n] == [*range(count)]
        assert paid_in(address) == {str(number): 1 for number in range(100)}


def test_threads_ask_and_nothing_is_paid_for_twice(threads: Any) -> None:
    ask_twice(threads)


@pytest.mark.parametrize("processes", ["spawn", "fork", "loky"], indirect=True)
def test_processes_ask_and_nothing_is_paid_for_twice(processes: Any) -> None:
    ask_twice(processes)


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["spawn", "loky"], indirect=True)
def test_a_process_that_dies_costs_no_answer_and_the_way_out_is_named(processes: Any) -> None:
    def kill() -> None:
        wait_until(lambda: tell(address, "/held") == 2)
        os.kill(min(processes._processes), signal.SIGKILL)

    with item_service("--hold", "40") as address:
        killing = threading.Thread(target=kill)
        killing.start()
        with pytest.warns(UserWarning, match="the executor is broken.* make a new one"):
            table = ask(address, 100, processes)
        killing.join()
        wait_until(lambda: sum(tell(address, "/lost").values()) == 2)
        tell(address, "/release")
        assert table.error.isna().sum() == 40
        with pytest.raises(ModelError, match="the executor is broken"):
            ask(address, 100, processes)
        with ThreadPoolExecutor(2) as other:
            assert [*ask(address, 100, other).n] == [*range(100)]
        paid = paid_in(address)
    assert {*paid.values()} == {1}


def test_a_type_that_does_not_travel_is_validated_here_and_asked_for_again() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("it is odd")
            return n

    with item_service() as address:
        layers = [layer_for(address, key=None)]
        table = ipyagent.map("item {n}", range(4), result=Even, layers=layers, on=Pickling())
        paid = paid_in(address)
    assert [*table.error.notna()] == [False, True, False, True]
    assert "it is odd" in table.error[1]
    assert paid == {"0": 1, "1": 3, "2": 1, "3": 3}


class Busy:
    """A model that says how long to wait, once."""

    model, context_window = "busy", None

    def __init__(self) -> None:
        self.asked = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.asked += 1
        if self.asked == 1:
            raise ModelUnavailableError("slow down", 0.01)
        yield StreamChunk(data='{"n": 1}')
        yield StreamChunk(type="finish", data="stop")


def test_the_budget_the_limits_and_the_circuit_breaker_hold_over_all_workers(threads: Any) -> None:
    dear = Echo(cost_usd=0.25)
    with pytest.warns(UserWarning, match=r"the budget of \$1.00 is used up"):
        table = ipyagent.map("Item {n}", range(50), result=Label, model=dear, max_usd=1, on=threads)
    assert (table.cost_usd.sum(), len(dear.prompts)) == (1.0, 4)
    broken = Echo(lambda text: "nonsense", model="broken")
    with pytest.warns(UserWarning, match="10 in a row failed"):
        ipyagent.map("Item {n}", range(50), result=Label, model=broken, at_once=4, on=threads)
    assert len({*broken.prompts}) <= 13
    busy = Busy()
    assert [*ipyagent.map("{n}", [1], result=int, model=busy, on=threads).value.isna()] == [True]
    assert [*ipyagent.map("{n}", [1], result=Label, model=busy, on=threads).n] == [1]


def test_a_stop_ends_what_waits_for_a_worker(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[Any] = []
    begin = ItemMap.run

    async def run(self: Any) -> None:
        running.append(self)
        await begin(self)

    def reply(text: str) -> str:
        if len(model.prompts) >= 100:
            running[0].cell.stop()
        return json.dumps({"n": int(text.split()[-1])})

    model = Echo(reply)
    monkeypatch.setattr(ItemMap, "run", run)
    with pytest.raises(AgentInterrupted):
        ipyagent.map("Item {n}", range(5_000), result=Label, model=model, on=threads)
    threads.shutdown()  # waits for what still runs
    assert len(model.prompts) < 200
    asked = len(model.prompts)
    ipyagent.map("Item {n}", range(100), result=Label, model=model)
    assert len(model.prompts) - asked <= 8


def test_an_engine_that_is_shut_down_or_fails_fails_the_items() -> None:
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(ConfigError, match="cannot schedule new futures after shutdown"):
        ipyagent.map("Item {n}", range(3), model=Echo(), on=closed)

    class Cancelling(Pickling):
        def submit(self, function: Any, /, *work: Any, **more: Any) -> Future[Any]:
            future = super().submit(function, *work)
            if function.__name__ == "_send":
                future = Future()
                future.cancel()
            return future

    table = ipyagent.map("Item {n}", range(3), model=Scripted([]), on=Cancelling())
    assert {*table.error} == {"the engine was shut down"}


@pytest.mark.parametrize("on", ["http://scheduler:8786", ThreadPoolExecutor])
def test_what_is_no_engine_is_refused(on: object) -> None:
    with pytest.raises(ConfigError, match=r"give a dask\.distributed\.Client, or an Executor"):
        ipyagent.map("Item {n}", range(3), model=Echo(), on=on)


def test_a_client_that_cannot_be_pickled_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="the workers cannot send requests: "):
        ipyagent.map("Item {n}", range(3), model=Echo(lambda text: text), on=Pickling())


def test_a_key_travels_only_if_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The settings of this process hold it; later the environment of the workers does."""
    monkeypatch.delenv("LITELLM_API_KEY")
    with item_service() as address:
        layers = [layer_for(address)]

        def ask(**options: Any) -> Any:
            return ipyagent.map("item {n}", [1], result=Label, layers=layers, **options)

        with pytest.raises(ConfigError, match=r"no key for openai/m: set \w+ .* send_key=True"):
            ask(on=Pickling())
        assert paid_in(address) == {}
        assert [*ask(on=Pickling(), send_key=True).n] == [1]
        monkeypatch.setenv("LITELLM_API_KEY", "sk-of-the-worker")
        assert [*ask(on=Pickling(), persist=False).n] == [1]


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def halve(number: int) -> float:
    """Halve a number."""
    await asyncio.sleep(0)
    return number / 2


def test_functions_of_tools_are_called_on_workers(processes: Any) -> None:
    call = {"calls": [{"name": "double", "arguments": {"number": 21}}]}
    later = {"calls": [{"name": "halve", "arguments": {"number": 21}}]}

    def reply(request: ModelRequest) -> Any:
        results = [each.text for message in request.messages for each in message.tool_results]
        return [call, later, json.dumps({"n": int(float(results[-1])) if results else 0})][
            len(results)
        ]

    class Here(ThreadPoolExecutor):
        """Sends requests from this process, and calls functions elsewhere."""

        def submit(self, function: Any, /, *work: Any, **more: Any) -> Future[Any]:
            calls = function.__name__ in ("_call", "_receive")
            called.append(function.__name__)
            return (processes if calls else super()).submit(function, *work)

    called: list[str] = []
    tools = [double, halve, "list_files"]
    with Here(2) as on:
        table = ipyagent.map(
            "{n}", [1], result=Label, tools=tools, model=Scripted([reply] * 3), on=on
        )
    assert ([*table.error], [*table.n]) == ([None], [10])
    assert called.count("_call") == 2


def test_a_tool_that_cannot_travel_is_refused_at_once() -> None:
    here = operator.attrgetter("n")

    def local(number: int) -> int:
        """Use what is here."""
        return int(here(number))

    with pytest.raises(ConfigError, match="the tool local cannot be sent to the workers"):
        ipyagent.map("{n}", [1], tools=[local], model=Scripted([]), on=Pickling())


def test_the_settings_travel_without_a_key() -> None:
    from ipyagent.config import LLMConfig
    from ipyagent.wiring.environment import service_client
    from ipyagent.wiring.workers import RemoteModel

    secret = Layer("the test", {"llm": {"model": "openai/m", "api_key": "sk-canary-0123456789"}})
    config = LLMConfig.model_validate(secret.values["llm"])
    model = RemoteModel.of(service_client("openai/m", config), config, Path(), False)
    assert "canary" not in repr(model) + str(vars(model))
    sent = RemoteModel.of(service_client("openai/m", config), config, Path(), True)
    assert "canary" not in repr(sent)
    assert sent.key == "sk-canary-0123456789"
