"""The format of an answer: as each service takes it, or a tool in its place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from asking import ONLY_LITELLM, ask, client_of
from signed_replies import spoken_answer, worded_answer

from ipyagent.llm.client import ANSWER_TOOL, AnswerFormat, ModelRequest
from ipyagent.llm.direct import Target
from ipyagent.llm.direct.chat import ChatFormat
from ipyagent.providers import PROVIDERS
from servers.model_server import ModelServer, Reply, answer, failure

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
FORMAT = AnswerFormat(SCHEMA, strict=True)
TEXT = '{"n": 1}'
CHAT, CLAUDE, RESPONSES = "openai/gpt-4o", "anthropic/claude-sonnet-5-5", "openai/responses/gpt-6"
REPLIES = {CHAT: answer, CLAUDE: spoken_answer, RESPONSES: worded_answer}
MODELS = pytest.mark.parametrize("model", REPLIES)
OPENAI = {"name": "answer", "schema": SCHEMA, "strict": True}
SENT: dict[str, tuple[str, Any]] = {
    CHAT: ("response_format", {"type": "json_schema", "json_schema": OPENAI}),
    CLAUDE: ("output_config", {"format": {"type": "json_schema", "schema": SCHEMA}}),
    RESPONSES: ("text", {"format": {"type": "json_schema"} | OPENAI}),
}
FORCED: dict[str, Any] = {
    CHAT: {"type": "function", "function": {"name": ANSWER_TOOL}},
    CLAUDE: {"type": "tool", "name": ANSWER_TOOL},
    RESPONSES: {"type": "function", "name": ANSWER_TOOL},
}


@pytest.fixture
def typed(request_: ModelRequest) -> ModelRequest:
    return replace(request_, answer=FORMAT)


@pytest.fixture
def alone(typed: ModelRequest) -> ModelRequest:
    return replace(typed, tools=())


def names_in(body: Any) -> list[str]:
    return [each.get("name") or each["function"]["name"] for each in body.get("tools", ())]


@MODELS
async def test_without_tools_the_format_is_sent(model: str, alone: ModelRequest) -> None:
    field, wanted = SENT[model]
    with ModelServer([REPLIES[model](TEXT)]) as server:
        reply = (await ask(client_of(server, model), alone)).message()
    assert reply
    assert reply.text == TEXT
    assert server.requests[0].body[field] == wanted
    assert "tools" not in server.requests[0].body


@MODELS
async def test_beside_tools_of_a_server_that_may_be_any_a_tool_takes_its_place(
    model: str, typed: ModelRequest
) -> None:
    with ModelServer([REPLIES[model](TEXT)] * 2) as server:
        client = client_of(server, model)
        await ask(client, typed)
        await ask(client, replace(typed, may_call=False))
    free, closing = (request.body for request in server.requests)
    assert SENT[model][0] not in free
    assert names_in(free) == ["run_python", ANSWER_TOOL]
    assert "tool_choice" not in free
    assert closing["tool_choice"] == FORCED[model]


@pytest.mark.parametrize(
    "words",
    [
        "Invalid schema for response_format 'answer': In context=(), 'n' is not permitted",
        "output_config.format: Extra inputs are not permitted",
        "This response_format type is unavailable now",
        "Structured outputs are not supported by this model",
        "failed to parse grammar",
        "Unsupported parameter: 'text.format'",
    ],
)
@MODELS
async def test_a_refused_format_becomes_a_tool_for_good(
    model: str, words: str, alone: ModelRequest
) -> None:
    with ModelServer([failure(400, words), *[REPLIES[model](TEXT)] * 2]) as server:
        client = client_of(server, model)
        await ask(client, alone)
        await ask(client, alone)
    first, *others = (request.body for request in server.requests)
    assert SENT[model][0] in first
    for body in others:
        assert (names_in(body), body["tool_choice"]) == ([ANSWER_TOOL], FORCED[model])
        assert SENT[model][0] not in body


def test_providers_that_take_both_get_the_format_beside_tools(typed: ModelRequest) -> None:
    def takes(name: str, request: ModelRequest) -> bool:
        return ChatFormat(Target("m", PROVIDERS[name], False, None)).takes_answer(request)

    plain = replace(typed, tools=())
    assert [takes(name, typed) for name in ("openai", "groq")] == [True, False]
    assert [takes(name, plain) for name in ("openai", "groq")] == [True, True]
    body = json.loads(
        ChatFormat(Target("m", PROVIDERS["openai"], False, None)).encode(
            typed, stream=True, omitted=frozenset()
        )
    )
    assert (names_in(body), body["response_format"]["json_schema"]) == (["run_python"], OPENAI)


def refusal(model: str) -> Reply:
    if model == CHAT:
        choice = {"index": 0, "message": {"role": "assistant", "refusal": "No."}}
        body: Any = {"choices": [choice | {"finish_reason": "stop"}]}
    elif model == CLAUDE:
        body = {"role": "assistant", "content": "No.", "stop_reason": "refusal"}
    else:
        part = {"type": "refusal", "refusal": "No."}
        item = {"type": "message", "content": [part]}
        body = {"status": "completed", "output": [item]}
    return Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})


@MODELS
async def test_a_refusal_ends_as_one_in_every_format(model: str, alone: ModelRequest) -> None:
    with ModelServer([refusal(model)]) as server:
        reply = await ask(client_of(server, model), alone)
    message = reply.message()
    assert (message and message.text, reply.finish_reason) == ("No.", "content_filter")


@ONLY_LITELLM
async def test_litellm_sends_the_format_where_it_knows_that_it_may(
    engine: str, alone: ModelRequest, typed: ModelRequest
) -> None:
    refused = failure(400, "response_format is not supported")
    with ModelServer([answer(TEXT), answer(TEXT), refused, answer(TEXT)]) as server:
        client = client_of(server)
        await ask(client, alone)
        await ask(client, typed)
        await ask(client, alone)
    with_format, with_tool, again, instead = (request.body for request in server.requests)
    assert with_format["response_format"] == SENT[CHAT][1] == again["response_format"]
    assert (names_in(with_tool), "response_format" in with_tool) == (
        ["run_python", ANSWER_TOOL],
        False,
    )
    assert (names_in(instead), instead["tool_choice"]) == ([ANSWER_TOOL], FORCED[CHAT])
