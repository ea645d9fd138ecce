"""How the tests of the gateway ask a model server on loopback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelError
from ipyagent.llm.client import Client, ModelRequest, maker_of
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.wiring.environment import service_client
from servers.model_server import ModelServer, answer

KEY = "sk-canary-0123456789abcdef"
HELLO = answer("Hello wörld", thinking="Let me think", calls=[("run_python", {"code": "1+1"})])
Ask = Callable[[ModelRequest], Awaitable[object]]
EVENTS = {"Content-Type": "text/event-stream"}


ONLY_LITELLM = pytest.mark.parametrize("engine", ["litellm"], indirect=True)
ONLY_DIRECT = pytest.mark.parametrize("engine", ["direct"], indirect=True)


class Engine:
    """What asks the services in the tests that run once with each."""

    name = "auto"


def make_client(
    model: str,
    config: LLMConfig | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    start: Mapping[str, str] | None = None,
) -> Any:
    """A client of the current engine."""
    config = (config or LLMConfig()).model_copy(update={"client": Engine.name})
    return service_client(model, config, environ=environ, start=start)


def client_of(server: ModelServer, model: str = "openai/gpt-4o", **settings: Any) -> Any:
    base = server.origin if model.startswith(("anthropic/", "gemini/")) else server.url
    config = LLMConfig.model_validate({"api_base": base, "timeout": 20, **settings})
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    return make_client(model, config, environ=keys, start={})


async def ask(client: Client, request: ModelRequest) -> ReplyBuilder:
    builder = ReplyBuilder()
    async for chunk in client.stream(request):
        builder.add(chunk)
    builder.maker = maker_of(client)
    return builder


async def failed(client: Client, request: ModelRequest) -> tuple[ModelError, ReplyBuilder]:
    """The error, and what had arrived before it."""
    builder = ReplyBuilder()
    try:
        async for chunk in client.stream(request):
            builder.add(chunk)
    except ModelError as error:
        return error, builder
    pytest.fail("the stream ended well")
