from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator

import pytest
from asking import Engine

from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.client import close
from ipyagent.schema import Message, Role, ToolDefinition

RUN_PYTHON = ToolDefinition(
    name="run_python",
    description="Run Python code.",
    input_schema={"type": "object", "properties": {"code": {"type": "string"}}},
)


@pytest.fixture
def request_() -> ModelRequest:
    messages = (Message.of(Role.SYSTEM, "Be brief."), Message.of(Role.USER, "Hello"))
    return ModelRequest(messages, (RUN_PYTHON,))


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    gateway.warm_up()
    for thread in threading.enumerate():
        if thread.name == "ipyagent-warm-up":
            thread.join()
    # For a cut stream it counts tokens, and its tables take 100 MB.
    gateway.import_litellm().disable_token_counter = True


@pytest.fixture(autouse=True)
async def connections() -> AsyncIterator[None]:
    """Close what is kept open for a next call: every test has an event loop of its own."""
    yield
    await close()
    if (litellm := sys.modules.get("litellm")) is not None:
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()


@pytest.fixture(params=["direct", "litellm"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tests that use this run once with each way to ask a service."""
    monkeypatch.setattr(Engine, "name", request.param)
    return str(request.param)
