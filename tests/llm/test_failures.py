"""A model that fails: what the user reads says where it was asked, with which key, what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asking import make_client

from ipyagent.config import LLMConfig
from ipyagent.errors import (
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    RetryExhaustedError,
)
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Message, Role, StreamChunk
from servers.model_server import ModelServer, Reply, answer, failure

pytestmark = pytest.mark.usefixtures("engine")

SECRET = "sk-secret-0123456789abcdef"
PROVIDERS = {
    "openai/gpt-x": "OPENAI_API_KEY",
    "anthropic/claude-x": "ANTHROPIC_API_KEY",
    "mistral/mistral-x": "MISTRAL_API_KEY",
    "groq/llama-x": "GROQ_API_KEY",
    "ollama/qwen3": None,
}


async def ask(model: str, base: str, key: str | None = None, **more: Any) -> list[StreamChunk]:
    environ = {key: SECRET} if key else {}
    client = make_client(model, LLMConfig(api_base=base, **more), environ=environ, start=environ)
    request = ModelRequest((Message.of(Role.USER, "Hello."),))
    return [chunk async for chunk in client.stream(request)]


async def failing(model: str, base: str, key: str | None = None, **more: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await ask(model, base, key, **more)
    return raised.value


def base_of(server: ModelServer, model: str) -> str:
    return server.origin if model.startswith("anthropic") else server.url


STATUSES = {
    401: ("Check the key in", False),
    400: ("Check `%agent config llm`", False),
    402: ("Check the account's balance and limits", False),
    403: ("Check the key in", False),
    404: ("the model's name and the address", False),
    429: ("The service asks to wait 7 s. Wait a little", True),
    500: ("try again later", True),
    503: ("try again later", True),
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("model", PROVIDERS)
async def test_a_status_says_where_it_was_asked_with_which_key_and_what_to_do(
    model: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    key, (way, is_transient) = PROVIDERS[model], STATUSES[status]
    headers = {"Retry-After": "7"} if status == 429 else {}
    message = f"a scripted failure, dear {SECRET}"
    with ModelServer([failure(status, message, headers=headers)] * 3) as server:
        error = await failing(model, base_of(server, model), key)
        assert len(server.requests) == 1
        what, _, advice = str(error).partition("\n")
        assert model in what
        assert str(status) in what
        assert "a scripted failure" in what
        assert f"Asked at {base_of(server, model)}" in advice
        assert (f"with the key in {key}" if key else "without a key") in advice
    if model.startswith("ollama/"):
        way = {
            401: "Set the environment variable",
            403: "Set the environment variable",
            404: "Fetch the model with `ollama pull qwen3`",
        }.get(status, way)
    assert way in advice
    assert "`%agent model ID`" in advice
    for debris in (SECRET, "litellm", "Traceback", "Exception"):
        assert debris not in str(error)
    assert isinstance(error, ModelUnavailableError) is is_transient
    assert capfd.readouterr() == ("", "")


PAGES = {
    "a page": (Reply((b"<!doctype html><p>Log in",), headers={"Content-Type": "text/html"}), "Log"),
    "other JSON": (
        Reply((b'{"version": 3}',), headers={"Content-Type": "application/json"}),
        '{"version": 3}',
    ),
    "an empty body": (Reply(headers={"Content-Type": "text/plain"}), "empty body"),
    "no content": (
        Reply(status=204, framed=False),
        "empty body, or one that is no stream, without a content type",
    ),
}


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("model", PROVIDERS)
async def test_a_200_that_is_no_stream_is_named_and_not_asked_for_again(
    model: str, kind: str
) -> None:
    reply, words = PAGES[kind]
    with ModelServer([reply] * 3) as server:
        error = await failing(model, base_of(server, model), PROVIDERS[model])
        assert f"Asked at {base_of(server, model)}" in str(error)
        assert len(server.requests) == 1
    assert isinstance(error, ModelRefusedError)
    assert words in str(error)
    if content_type := reply.headers.get("Content-Type"):
        assert f"of type {content_type}" in str(error)
    assert "connection was closed" not in str(error)


WHOLE = (
    b'{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,'
    b' "message": {"role": "assistant", "content": "Hello there."}, "finish_reason": "stop"}],'
    b' "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}'
)


async def test_a_server_that_answers_as_a_whole_although_asked_to_stream_is_understood() -> None:
    with ModelServer([Reply((WHOLE,), headers={"Content-Type": "application/json"})]) as server:
        chunks = await ask("openai/test", server.url, "OPENAI_API_KEY")
    assert [c.data for c in chunks if c.type == "content"] == ["Hello there."]
    assert [c.usage.total_tokens for c in chunks if c.usage] == [5]


async def test_a_stream_under_another_type_is_still_read() -> None:
    reply = answer("Hello there.")
    odd = Reply(reply.frames, headers={"Content-Type": "application/json"})
    with ModelServer([odd]) as server:
        chunks = await ask("openai/test", server.url, "OPENAI_API_KEY")
    assert "".join(c.data for c in chunks if c.type == "content") == "Hello there."


async def test_redirects_in_a_circle_are_called_so() -> None:
    circle = [lambda asked: Reply(status=307, headers={"Location": asked.path})] * 50
    with ModelServer(circle) as server:
        error = await failing("openai/test", server.url, "OPENAI_API_KEY")
    assert "too many redirects" in str(error)
    assert "in a circle" in str(error)
    assert isinstance(error, ModelRefusedError)


@pytest.mark.parametrize(
    ("model", "base", "way"),
    [
        ("openai/x", "http://127.0.0.1:9/v1", "Is the server running?"),
        ("ollama/qwen3", "http://127.0.0.1:9", "`ollama serve`"),
        ("openai/x", "http://no-such-host.invalid/v1", "No address is known for no-such-host"),
    ],
)
async def test_a_server_that_cannot_be_reached_says_why_and_what_to_do(
    model: str, base: str, way: str
) -> None:
    error = await failing(model, base, "OPENAI_API_KEY")
    assert "could not be reached" in str(error)
    assert f"Asked at {base}" in str(error)
    assert way in str(error)


async def test_what_is_secret_in_an_address_is_not_shown() -> None:
    error = await failing("openai/x", "http://127.0.0.1:9/v1?key=hunter2")
    assert "Asked at http://127.0.0.1:9/v1, without a key." in str(error)
    assert "hunter2" not in str(error)


def test_how_often_it_was_tried_stands_in_the_first_line() -> None:
    error = RetryExhaustedError(3, ModelUnavailableError("x is away.\nAsked at y.", 2.0))
    assert str(error) == "x is away. It was tried 3 times.\nAsked at y."
    unended = RetryExhaustedError(1, ModelUnavailableError("Name or service not known"))
    assert str(unended) == "Name or service not known. It was tried once."


def shown(*abilities: str) -> Reply:
    """What Ollama's /api/show answers."""
    return Reply((json.dumps({"capabilities": [*abilities]}).encode(),))


async def test_a_model_without_tools_says_so_and_names_installed_ones_that_have_them() -> None:
    refusal = failure(400, "registry.ollama.ai/library/gemma3:latest does not support tools")
    tags = {"models": [{"name": "gemma3:latest"}, {"name": "qwen3:8b"}]}
    replies = [refusal, shown("completion"), shown("completion", "tools")]
    with ModelServer(replies, pages={"/api/tags": tags}) as server:
        what, _, advice = str(await failing("ollama/gemma3", server.url)).partition("\n")
    assert "ollama/gemma3 cannot call tools, so it cannot work on your data (400)" in what
    assert "Models there that can: `%agent model ollama/qwen3:8b`." in advice


NO_TOOLS = {
    "`tool calling` is not supported with this model": 400,
    "Function calling is not enabled for models/gemma-3": 400,
    "No endpoints found that support tool use. To learn more, visit our docs.": 404,
    "deepseek-reasoner does not support Function Calling": 400,
    "Unsupported parameter: 'tools' is not supported with this model.": 400,
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set': 400,
    "tools param requires --jinja flag": 500,
}


async def test_services_say_in_many_words_that_a_model_takes_no_tools() -> None:
    for words, status in NO_TOOLS.items():
        with ModelServer([failure(status, words)] * 3) as server:
            error = await failing("groq/x", server.url, "GROQ_API_KEY")
        assert "groq/x cannot call tools" in str(error), words
        assert "Choose a model that can with `%agent model ID`" in str(error)


async def test_other_words_about_tools_are_no_such_refusal() -> None:
    for words in ("tools[3] is not valid", "tool_choice is not supported"):
        with ModelServer([failure(400, words)] * 3) as server:
            error = await failing("groq/x", server.url, "GROQ_API_KEY")
        assert "cannot call tools" not in str(error), words
