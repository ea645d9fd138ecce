"""A call that is given up while LiteLLM prepares it: nothing is left that Python would warn of."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from asking import HELLO, ONLY_LITELLM, ask, client_of

from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.gateway import close_if_given_up
from patience import PATIENCE
from servers.model_server import ModelServer


class Preparation:
    """What LiteLLM does: a thread makes the request, a coroutine, which is awaited after that."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.request = self._ask()
        self.asked = asyncio.Event()

    async def _ask(self) -> str:
        self.asked.set()
        await asyncio.sleep(0.01)
        return "hello"

    def _prepare(self) -> Coroutine[Any, Any, str]:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return self.request

    async def call(self) -> str:
        return await (await asyncio.to_thread(self._prepare))

    async def give_up(self, call: Coroutine[Any, Any, str]) -> None:
        """Cancel `call` while the thread prepares, and let the thread end after that."""
        task = asyncio.create_task(call)
        await asyncio.to_thread(self.begun.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.go.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)


async def waits(call: Coroutine[Any, Any, str]) -> str:
    return await close_if_given_up(call)


async def test_a_request_that_comes_too_late_is_dropped_by_a_call_that_is_only_awaited() -> None:
    dropped = Preparation()
    await dropped.give_up(dropped.call())
    assert inspect.getcoroutinestate(dropped.request) == inspect.CORO_CREATED
    dropped.request.close()


async def test_a_request_that_comes_too_late_is_closed() -> None:
    late = Preparation()
    await late.give_up(waits(late.call()))
    assert inspect.getcoroutinestate(late.request) == inspect.CORO_CLOSED


async def test_what_fails_in_the_thread_fails_in_the_call() -> None:
    def prepare() -> None:
        raise ValueError("no such model")

    async def call() -> str:
        try:
            await asyncio.to_thread(prepare)
        except ValueError as error:
            return f"{error}, said plainly"
        return "none"

    assert await waits(call()) == "no such model, said plainly"


async def test_a_thread_may_fail_after_the_call_was_given_up() -> None:
    begun, go = threading.Event(), threading.Event()

    def prepare() -> None:
        begun.set()
        assert go.wait(PATIENCE)
        raise ValueError("nobody hears of it")

    prepared = Preparation()
    prepared.begun, prepared.go = begun, go
    prepared.request.close()
    await prepared.give_up(waits(asyncio.to_thread(prepare)))


@ONLY_LITELLM
@pytest.mark.spec("N14")
async def test_a_stop_while_litellm_prepares_the_request_warns_of_nothing(
    request_: ModelRequest, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = gateway.import_litellm()
    begun, go, made = threading.Event(), threading.Event(), threading.Event()
    completion: Callable[..., object] = litellm.main.completion

    def slow(*args: object, **kwargs: object) -> object:
        begun.set()
        assert go.wait(PATIENCE)
        request = completion(*args, **kwargs)
        made.set()
        return request

    monkeypatch.setattr(litellm.main, "completion", slow)
    with ModelServer([HELLO]) as server, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        reading = asyncio.create_task(ask(client_of(server), request_))
        await asyncio.to_thread(begun.wait, 20)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        go.set()
        await asyncio.to_thread(made.wait, 20)
        await asyncio.get_running_loop().shutdown_default_executor()
        await asyncio.sleep(0)
        gc.collect()
        assert [str(warning.message) for warning in said if "await" in str(warning.message)] == []
        assert server.requests == []
