from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from asking import EVENTS, HELLO, ONLY_LITELLM, ask, failed, make_client

from ipyagent.config import LLMConfig
from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.error_mapping import hide_keys
from patience import PATIENCE
from servers.model_server import Cut, ModelServer, Reply, Silence, delta, failure, stream

pytestmark = pytest.mark.usefixtures("engine")

KEYS = ["sk-canary-0123456789abcdef", "canary0123456789abcdef"]
"""A key that looks like one, and one that no pattern finds."""

MODELS = ["openai/x", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"]


def errors(key: str) -> dict[str, Reply]:
    """One reply for each kind of failure; services do tell keys back."""
    return {
        "401": failure(401, f"Incorrect API key provided: {key}"),
        "400": failure(400, f"bad key {key}"),
        "too long": failure(400, f"maximum context length of {key}"),
        "429": failure(429, f"too many requests with {key}", headers={"Retry-After": "1"}),
        "500": failure(500, f"exploded at {key}"),
        "mid-stream": stream(delta(content="he"), {"error": {"message": f"lost {key}"}}),
        "malformed": stream(delta(content="he"), f"[{key}"),
        "cut": HELLO.cut(700),
        "reset": HELLO.cut(700, Cut("rst")),
        "none": Reply(before=(Cut(),)),
        "silence": Reply((*HELLO.frames[:3], Silence()), headers=EVENTS),
    }


def client_with(
    key: str, model: str, server: ModelServer, way: str, timeout: float = PATIENCE
) -> Any:
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    environ = dict.fromkeys(names, key) if way == "environment" else {}
    settings: dict[str, Any] = {"api_key": key} if way == "api_key" else {}
    base = server.url if model.startswith("openai/") else server.origin
    config = LLMConfig(api_base=base, timeout=timeout, **settings)
    return make_client(model, config, environ=environ, start={})


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "LiteLLM"), caplog.at_level(logging.DEBUG, "ipyagent"):
        yield caplog


@pytest.mark.spec("A06")
@pytest.mark.parametrize("way", ["environment", "api_key"])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("model", MODELS)
async def test_a_key_shows_in_no_error_and_in_no_log(
    model: str, key: str, way: str, request_: ModelRequest, logs: pytest.LogCaptureFixture
) -> None:
    replies = errors(key)
    with ModelServer(replies.values()) as server:
        client = client_with(key, model, server, way, timeout=0.3)  # one of them is silence
        for name in replies:
            error, _ = await failed(client, request_)
            assert error.__cause__ is None, name
            assert error.__context__ is None, name
            shown = [repr(client), str(error), repr(error), repr(vars(error))]
            for text in (*shown, *traceback.format_exception(error)):
                assert key not in text, name
        sent = [str(request.headers) + request.path for request in server.requests]
    assert all(key in each for each in sent)
    for record in logs.records:
        assert key not in f"{record.getMessage()} {record.exc_text} {vars(record)}"


TOLD = {
    "Incorrect API key provided: sk-wrong****7890. You can find it at x.": (
        "Incorrect API key provided: (key). You can find it at x."
    ),
    "The key is-not-valid for this bearer authorization.": None,
    "No API key abcdefgh1234 here": "No API (key) here",
    "Bearer abcd.efgh-1234, xai-abcdefgh, AIzaabcdefghijk": "(key), (key), (key)",
}


@pytest.mark.spec("A06")
def test_only_what_may_be_a_key_is_hidden_in_a_service_s_message() -> None:
    for text, shown in TOLD.items():
        assert hide_keys(text, None) == (shown or text)


@ONLY_LITELLM
async def test_what_litellm_raises_shows_the_key_that_a_service_told_back() -> None:
    litellm, key = gateway.import_litellm(), KEYS[1]
    told_back = failure(401, f"Incorrect API key provided: {key}")
    with ModelServer([told_back]) as server, pytest.raises(litellm.AuthenticationError) as caught:
        await litellm.acompletion(
            "openai/x", [{"role": "user", "content": ""}], api_base=server.url, api_key=key
        )
    assert key in str(caught.value)


@pytest.mark.spec("A06")
async def test_a_key_goes_only_into_the_header_of_its_request(request_: ModelRequest) -> None:
    with ModelServer([HELLO]) as server:
        await ask(client_with(KEYS[0], "openai/x", server, "api_key"), request_)
        (sent,) = server.requests
    assert sent.headers["authorization"] == f"Bearer {KEYS[0]}"
    assert KEYS[0].encode() not in sent.raw
    assert KEYS[0] not in sent.path
