"""`ipyagent.map(…, on=client)` on real worker processes of Dask, some of which are killed.

`make lazy` runs it, in the environment that has Dask's cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import ipyagent
from ipyagent.errors import AgentInterrupted, ConfigError
from ipyagent.many import ItemMap
from patience import wait_until
from test_map import Label, item_service, layer_for, paid_in, tell

distributed = pytest.importorskip("distributed")

AT_ONCE = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each; a killed one is replaced, however often."""
    import dask

    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "memory_limit": None}
    patience = {"distributed.deploy.lost-worker-timeout": "600s"}
    with pytest.MonkeyPatch.context() as patch, dask.config.set(patience):
        patch.setenv("LITELLM_API_KEY", "sk-none")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
            yield cluster


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def wait_for_held(address: str) -> None:
    """Wait until all that is under way waits for its answer: all else is stored."""
    wait_until(lambda: tell(address, "/held") == AT_ONCE)


def ask(address: str, count: int, on: Any, **options: Any) -> Any:
    layers = [layer_for(address, key=None)]
    return ipyagent.map(
        "item {n}", range(count), result=Label, layers=layers, at_once=AT_ONCE, on=on, **options
    )


@pytest.mark.parametrize("allowed_failures", [3, 0])
def test_two_killed_workers_cost_only_what_was_under_way(
    client: Any, allowed_failures: int
) -> None:
    """Dask sends a request again so often; after that we do."""
    client.run_on_scheduler(allow_failures, count=allowed_failures)
    killed: list[int] = []

    def kill_twice() -> None:
        for _ in range(2):
            wait_for_held(address)
            pids = {*client.run(os.getpid, on_error="ignore").values()} - {*killed}
            killed.append(min(pids))
            worker = psutil.Process(killed[-1])
            worker.kill()
            worker.wait(60)  # until all of its requests are closed
            tell(address, "/release")

    with item_service("--hold", "60", "150") as address:
        killing = threading.Thread(target=kill_twice)
        killing.start()
        table = ask(address, 300, client)
        killing.join()
        paid, lost = paid_in(address), tell(address, "/lost")
    assert len({*killed}) == 2
    assert [*table.n] == [*range(300)]
    assert table.error.isna().all()
    assert paid == {str(number): 1 for number in range(300)}
    assert 0 < sum(lost.values()) <= 2 * AT_ONCE


def allow_failures(dask_scheduler: Any, count: int) -> None:
    dask_scheduler.allowed_failures = count


CLIENT = """
import sys
from distributed import Client
from test_map_on_dask import ask
if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        ask(sys.argv[2], 200, client)
"""


def test_after_the_client_died_only_what_was_under_way_is_asked_again(client: Any) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with item_service("--hold", "100") as address:
        command = [sys.executable, "-c", CLIENT, client.scheduler.address, address]
        with subprocess.Popen(command, env=environment) as process:
            wait_for_held(address)
            process.kill()
        tell(address, "/release")
        table = ask(address, 200, client)
        paid = paid_in(address)
    assert [*table.n] == [*range(200)]
    assert {*paid} == {str(number) for number in range(200)}
    assert {*paid.values()} <= {1, 2}
    assert sum(paid.values()) <= 200 + AT_ONCE


def test_both_workers_ask_at_once_although_each_has_one_thread(client: Any) -> None:
    """As many requests are under way as may be: Dask's threads wait for none."""
    with item_service("--hold", "0") as address:
        done: list[Any] = []
        asking = threading.Thread(target=lambda: done.append(ask(address, AT_ONCE, client)))
        asking.start()
        wait_for_held(address)
        long = client.run_on_scheduler(
            lambda dask_scheduler: [len(each.long_running) for each in workers(dask_scheduler)]
        )
        tell(address, "/release")
        asking.join()
    assert sum(long) == AT_ONCE
    assert min(long) >= AT_ONCE // 4
    assert [*done[0].n] == [*range(AT_ONCE)]


def workers(scheduler: Any) -> list[Any]:
    return [*scheduler.workers.values()]


def test_after_a_stop_nothing_goes_on(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[Any] = []
    begin = ItemMap.run

    async def run(self: Any) -> None:
        running.append(self)
        await begin(self)

    def stop() -> None:
        wait_for_held(address)
        running[0].cell.stop()

    monkeypatch.setattr(ItemMap, "run", run)
    with item_service("--hold", "50") as address:
        stopping = threading.Thread(target=stop)
        stopping.start()
        with pytest.raises(AgentInterrupted):
            ask(address, 500, client)
        stopping.join()
        wait_until(lambda: not client.run_on_scheduler(count_tasks))
        tell(address, "/release")
        assert sum(paid_in(address).values()) <= 50 + AT_ONCE
        assert [*ask(address, 60, client).n] == [*range(60)]


def count_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def test_functions_of_the_notebook_travel_as_tools(client: Any) -> None:
    factor = 2

    def double(number: int) -> int:
        """Double a number."""
        return factor * number * bool(distributed.get_worker())

    def reply(request: Any) -> Any:
        results = [each.text for message in request.messages for each in message.tool_results]
        if not results:
            return {"calls": [{"name": "double", "arguments": {"number": 21}}]}
        return json.dumps({"n": int(results[-1])})

    model = Stateless(reply)
    table = ipyagent.map("{n}", [1], result=Label, tools=[double], model=model, on=client)
    assert ([*table.error], [*table.n]) == ([None], [42])


class Stateless:
    """A model that replies by a function to whatever it is sent, wherever it is."""

    model, context_window = "stateless", None

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def stream(self, request: Any) -> Any:
        async for chunk in ipyagent.Scripted([self.reply]).stream(request):
            yield chunk


def test_the_address_of_the_dashboard_is_shown(client: Any) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with item_service() as address:
        code = f"""
from distributed import Client
from test_map_on_dask import ask
with Client({client.scheduler.address!r}) as client:
    ask({address!r}, 3, client)
"""
        shell = [sys.executable, "-m", "IPython", "-c", code]
        done = subprocess.run(shell, env=environment, capture_output=True, text=True, check=True)
    assert f"Dask's dashboard: {client.dashboard_link}" in done.stdout
    assert client.dashboard_link.startswith("http://127.0.0.1:")


def test_an_asynchronous_client_is_refused(client: Any) -> None:
    async def ask_there() -> None:
        async with distributed.Client(client.scheduler.address, asynchronous=True) as on:
            with pytest.raises(ConfigError, match="asynchronous"):
                ask("http://127.0.0.1:1", 1, on)

    client.sync(ask_there)
