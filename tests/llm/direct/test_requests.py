"""What is sent: the bytes of requests, as each provider wants them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from asking import KEY, ask, client_of, make_client
from signed_replies import worded_answer

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct import Demand, EncodedHistory, Format, Target
from ipyagent.llm.direct.chat import ChatFormat
from ipyagent.llm.direct.messages import MessagesFormat
from ipyagent.llm.direct.responses import ResponsesFormat
from ipyagent.llm.wire import to_openai
from ipyagent.providers import PROVIDERS
from ipyagent.schema import (
    ImageContent,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    TokenUsage,
    ToolCall,
    ToolResultContent,
)
from servers.model_server import ModelServer, answer, anthropic_answer, failure

CALL = ToolCall(id="call_1", name="f", arguments={"b": "ö", "a": 1})
SAID = Message(
    role=Role.ASSISTANT,
    content=(
        ThinkingContent(thinking="hm", signature="SIG"),
        ThinkingContent(encrypted_content="OPENAI", id="rs_1"),
        TextContent(text="Let me see."),
        CALL,
    ),
    maker="m at its service",
)
IMAGE = ImageContent(data="QUJD", width=2, height=1)
RESULT = Message(
    role=Role.USER,
    content=(
        ToolResultContent(
            tool_use_id="call_1", content=(TextContent(text="3"), IMAGE), is_error=True
        ),
    ),
)


@pytest.fixture
def talk(request_: ModelRequest) -> ModelRequest:
    more = (SAID, RESULT, Message.of(Role.USER, "And now?"))
    return replace(request_, messages=(*request_.messages, *more))


def target(provider: str, **more: Any) -> Target:
    return Target(**{"name": "m", "provider": PROVIDERS[provider], "vision": False,
                     "longest": None, "maker": SAID.maker} | more)  # fmt: skip


FORMATS = {
    "chat": lambda **more: ChatFormat(target("openai", **more)),
    "messages": lambda **more: MessagesFormat(target("anthropic", **more)),
    "responses": lambda **more: ResponsesFormat(target("openai", **more)),
}


def body_of(form: Format, request: ModelRequest, *omitted: str, stream: bool = True) -> Any:
    return json.loads(form.encode(request, stream=stream, omitted=frozenset(omitted)))


@pytest.mark.parametrize("kind", FORMATS)
def test_each_request_begins_with_the_bytes_of_the_last_one(kind: str, talk: ModelRequest) -> None:
    form, before = FORMATS[kind](), b""
    for count in (2, 4, 5):
        body = form.encode(
            replace(talk, messages=talk.messages[:count]), stream=True, omitted=frozenset()
        )
        if before:
            text = before.decode()
            start = text.index('"input":[' if kind == "responses" else '"messages":[')
            _, end = json.JSONDecoder().raw_decode(text, text.index("[", start))
            pairs = enumerate(zip(before, body, strict=False))
            shared = next(number for number, (a, b) in pairs if a != b)
            # The brackets that end the array, and a message that another one joined.
            assert shared >= len(text[:end].encode()) - len("]}]")
        before = body


@pytest.mark.parametrize("kind", FORMATS)
def test_a_format_that_knows_the_conversation_sends_what_a_new_one_sends(
    kind: str, talk: ModelRequest
) -> None:
    form = FORMATS[kind]()
    other = replace(talk, messages=(*talk.messages[:2], Message.of(Role.USER, "Otherwise")))
    for request in (replace(talk, messages=talk.messages[:4]), talk, other, talk):
        assert body_of(form, request) == body_of(FORMATS[kind](), request)


def test_no_message_is_encoded_again_once_it_was_answered(talk: ModelRequest) -> None:
    encoded: list[int] = []

    def encode(messages: Any) -> list[Any]:
        encoded.append(len(messages))
        return to_openai(messages, vision=False)

    history = EncodedHistory(encode, target("openai"))
    turn = talk.messages[2:4]
    messages = talk.messages[:2]
    for _ in range(300):
        messages = (*messages, *turn)
        history.join(messages)
    assert max(encoded) <= 3
    assert json.loads(b"[" + history.join(messages) + b"]") == to_openai(messages, vision=False)


def test_user_messages_that_grow_together_are_encoded_anew(request_: ModelRequest) -> None:
    history = EncodedHistory(lambda messages: to_openai(messages, vision=False), target("openai"))
    more = (*request_.messages, Message.of(Role.USER, "and more"))
    for messages in (request_.messages, more):
        expected = to_openai(messages, vision=False)
        assert json.loads(b"[" + history.join(messages) + b"]") == expected
    assert expected[-1]["content"] == "Hello\nand more"


def test_anthropic_gets_blocks_with_the_thinking_that_it_signed(talk: ModelRequest) -> None:
    body = body_of(MessagesFormat(target("anthropic", vision=True)), talk)
    assert body["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    ]
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["tools"][0].keys() == {"name", "description", "input_schema"}
    first, said, result = body["messages"]
    assert first == {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    assert said["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "call_1", "name": "f", "input": {"a": 1, "b": "ö"}},
    ]
    image = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    assert result["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": [{"type": "text", "text": "3"}, {"type": "image", "source": image}],
            "is_error": True,
        },
        {"type": "text", "text": "And now?"},
    ]


def test_responses_get_no_reasoning_that_nothing_follows(talk: ModelRequest) -> None:
    """A reply can be cut off behind it."""
    *before, _, _ = talk.messages
    content = (TextContent(text="Let me see."), *SAID.content[:2], TextContent(text=" "))
    cut = SAID.model_copy(update={"content": content})
    messages = (*before[:-1], cut, Message.of(Role.USER, "And now?"))
    items = body_of(FORMATS["responses"](), replace(talk, messages=messages))["input"]
    assert [each.get("type", each.get("role")) for each in items] == [
        "system", "user", "assistant", "user"
    ]  # fmt: skip


def test_responses_get_items_with_the_reasoning_that_openai_encrypted(talk: ModelRequest) -> None:
    body = body_of(ResponsesFormat(target("openai", vision=True)), replace(talk, max_tokens=50))
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert body["max_output_tokens"] == 50
    assert body["tools"][0] | {"parameters": None} == {
        "type": "function", "name": "run_python", "description": "Run Python code.",
        "parameters": None, "strict": False,
    }  # fmt: skip
    system, hello, thought, said, call, result, rest = body["input"]
    assert (system["role"], hello) == ("system", {"role": "user", "content": "Hello"})
    assert thought == {
        "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "OPENAI",
    }  # fmt: skip
    assert said == {"role": "assistant", "content": "Let me see."}
    assert (call["call_id"], json.loads(call["arguments"])) == ("call_1", {"a": 1, "b": "ö"})
    assert (result["type"], result["call_id"]) == ("function_call_output", "call_1")
    assert [part["type"] for part in rest["content"]] == ["input_image", "input_text"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_model_without_eyes_is_told_of_an_image(kind: str, talk: ModelRequest) -> None:
    text = json.dumps(body_of(FORMATS[kind](), talk), ensure_ascii=False)
    assert "[image 2\u00d71 not shown: this model cannot see images]" in text
    assert "QUJD" not in text


QUIRKS = {
    "openai": {"max_completion_tokens": 50, "stream_options": {"include_usage": True}},
    "mistral": {"max_tokens": 50, "stream_options": None},
    "cerebras": {"max_tokens": 50, "stream_options": None},
    "fireworks_ai": {"max_tokens": 50, "tool_choice": None},
    "groq": {"max_tokens": 50, "tool_choice": "none"},
}


@pytest.mark.parametrize("provider", QUIRKS)
def test_a_provider_is_sent_the_settings_that_it_takes(provider: str, talk: ModelRequest) -> None:
    request = replace(talk, may_call=False, max_tokens=50)
    body = body_of(ChatFormat(target(provider)), request)
    assert {name: body.get(name) for name in QUIRKS[provider]} == QUIRKS[provider]


@pytest.mark.parametrize(("provider", "sent"), [("deepseek", "hm"), ("openai", None)])
def test_thinking_that_led_to_a_call_goes_back_where_it_is_wanted(
    provider: str, sent: str | None, talk: ModelRequest
) -> None:
    said = body_of(ChatFormat(target(provider)), talk)["messages"][2]
    assert said.get("reasoning_content") == sent


@pytest.mark.parametrize("provider", ["deepseek", "moonshot"])
def test_a_call_without_a_thought_has_a_blank_one_where_it_is_wanted(provider: str) -> None:
    request = ModelRequest((Message(role=Role.ASSISTANT, content=(CALL,)),))
    (said,) = body_of(ChatFormat(target(provider)), request)["messages"]
    assert said["reasoning_content"] == " "


@pytest.mark.parametrize("provider", ["gemini", "openai", "proxy", "hosted_vllm"])
def test_gemini_gets_its_signature_back_whatever_it_is_called(
    provider: str, talk: ModelRequest
) -> None:
    signed = CALL.model_copy(update={"thought_signature": "SIG"})
    message = Message(role=Role.ASSISTANT, content=(signed,), maker=SAID.maker)
    for maker in (SAID.maker, "another"):
        request = replace(talk, messages=(message,))
        (said,) = body_of(ChatFormat(target(provider, maker=maker)), request)["messages"]
        sent = said["tool_calls"][0].get("extra_content")
        assert sent == ({"google": {"thought_signature": "SIG"}} if maker == SAID.maker else None)


def test_wherever_words_follow_results_an_answer_comes_between_if_that_is_demanded() -> None:
    said = Message(role=Role.ASSISTANT, content=(CALL,))
    words = Message.of(Role.USER, "And now?")
    for times in range(6):
        request = ModelRequest((words, *[said, RESULT, words] * times))
        form = ChatFormat(target("mistral", demands=frozenset({Demand.ANSWERED_RESULTS})))
        roles = [each["role"] for each in body_of(form, request)["messages"]]
        assert roles == ["user", *["assistant", "tool", "assistant", "user"] * times]


def test_ids_of_others_are_made_acceptable_to_anthropic() -> None:
    """Also ids that differ only at their end, behind the letters that fit."""
    call, other = (CALL.model_copy(update={"id": "functions.f:" * 9 + end}) for end in "01")
    result = ToolResultContent(tool_use_id=call.id, content=(TextContent(text="  "),))
    messages = (
        Message(role=Role.ASSISTANT, content=(call, other)),
        Message(role=Role.USER, content=(result,)),
    )
    said, back = body_of(MessagesFormat(target("anthropic")), ModelRequest(messages))["messages"]
    ids = [each["id"] for each in said["content"]]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", each) for each in ids)
    assert len({*ids}) == 2
    assert back["content"][0]["tool_use_id"] == ids[0]
    assert back["content"][0]["content"] == [{"type": "text", "text": "(no output)"}]


@pytest.mark.parametrize(
    ("given", "longest", "sent"),
    [(None, None, 32_000), (None, 8_000, 8_000), (9_000, 8_000, 8_000), (50, 8_000, 50)],
)
def test_anthropic_is_always_sent_a_limit(
    given: int | None, longest: int | None, sent: int, talk: ModelRequest
) -> None:
    form = MessagesFormat(target("anthropic", longest=longest))
    assert body_of(form, replace(talk, max_tokens=given))["max_tokens"] == sent


PLACES = [
    ("gemini/x", "", "/openai/chat/completions"),
    ("gemini/x", "/v1beta", "/v1beta/openai/chat/completions"),
    ("gemini/x", "/v1beta/openai/", "/v1beta/openai/chat/completions"),
    ("openai/x", "/v1", "/v1/chat/completions"),
    ("openai/x", "/v1/", "/v1/chat/completions"),
    ("openai/x", "/v1/chat/completions", "/v1/chat/completions"),
    ("openai/responses/x", "/v1", "/v1/responses"),
    ("ollama/x", "", "/v1/chat/completions"),
    ("anthropic/x", "", "/v1/messages"),
    ("anthropic/x", "/v1", "/v1/messages"),
    ("anthropic/x", "/anthropic", "/anthropic/v1/messages"),
    ("minimax/x", "/anthropic", "/anthropic/v1/messages"),
    ("azure/x", "/openai/v1", "/openai/v1/chat/completions"),
    (
        "azure/x",
        "/openai/deployments/d?api-version=1",
        "/openai/deployments/d/chat/completions?api-version=1",
    ),
]


@pytest.mark.parametrize(("model", "base", "path"), PLACES)
async def test_the_address_is_completed_as_the_provider_needs_it(
    model: str, base: str, path: str, request_: ModelRequest
) -> None:
    with ModelServer([failure(404)]) as server:
        config = LLMConfig.model_validate({"api_base": server.origin + base, "api_key": KEY})
        with pytest.raises(ModelRefusedError):
            await ask(make_client(model, config, environ={}, start={}), request_)
        (sent,) = server.requests
    assert sent.path == path
    assert (sent.headers["user-agent"], sent.headers["accept-encoding"]) == ("ipyagent", "identity")
    headers = {"anthropic": "x-api-key", "minimax": "x-api-key", "azure": "api-key"}
    assert KEY in sent.headers[headers.get(model.partition("/")[0], "authorization")]


@pytest.mark.parametrize(
    ("model", "message", "name"),
    [
        ("openai/x", "Unknown parameter: 'stream_options'", "stream_options"),
        ("openai/x", "max_tokens is too large: 50", "max_tokens"),
        ("openai/x", "tool_choice is not supported", "tool_choice"),
        ("anthropic/x", "cache_control: Extra inputs are not permitted", "cache_control"),
        ("openai/responses/x", "Encrypted content is not supported with this model.", "include"),
    ],
)
async def test_a_setting_that_a_service_refuses_is_left_out_from_then_on(
    model: str, message: str, name: str, request_: ModelRequest
) -> None:
    request = replace(request_, max_tokens=50, may_call=False)
    good = anthropic_answer("ok") if model.startswith("anthropic") else answer("ok")
    with ModelServer([failure(400, message), good, good]) as server:
        client = client_of(server, model)
        for _ in range(2):
            if "responses" in model:
                with pytest.raises(Exception, match="connection was closed"):
                    await ask(client, request)
            else:
                assert (await ask(client, request)).message().text == "ok"
        first, second, third = (sent.body for sent in server.requests)
    assert name in first
    assert name not in second
    assert third == second


async def test_an_effort_that_a_model_refuses_beside_tools_is_none_from_then_on(
    request_: ModelRequest,
) -> None:
    words = (
        "Function tools with reasoning_effort are not supported for gpt-5.6-terra in "
        "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort "
        "to 'none'."
    )
    with ModelServer([failure(400, words), *[answer("ok")] * 4]) as server:
        client = client_of(server, "openai/gpt-5.6-terra")
        for request in (request_, request_, replace(request_, tools=())):
            assert (await ask(client, request)).message().text == "ok"
        efforts = [sent.body.get("reasoning_effort") for sent in server.requests]
        await ask(client_of(server, "openai/another"), request_)
        assert "reasoning_effort" not in server.requests[-1].body
    assert efforts == [None, "none", "none", None]


@pytest.mark.parametrize("status", [400, 404])
async def test_a_model_that_takes_only_responses_is_asked_so_from_then_on(
    status: int, request_: ModelRequest
) -> None:
    words = "This model is only supported in v1/responses and not in v1/chat/completions."
    with ModelServer([failure(status, words), *[worded_answer("ok")] * 2]) as server:
        client = client_of(server, "openai/gpt-6-codex")
        for _ in range(2):
            assert (await ask(client, request_)).message().text == "ok"
        paths = [sent.path.rpartition("/")[2] for sent in server.requests]
    assert paths == ["completions", "responses", "responses"]


async def test_anthropics_limit_cannot_be_left_out_but_lowered(request_: ModelRequest) -> None:
    refusal = failure(400, "max_tokens: 32000 > 8192, the maximum allowed number of output tokens")
    with ModelServer([refusal, anthropic_answer("ok")]) as server:
        await ask(client_of(server, "anthropic/x"), replace(request_, max_tokens=60_000))
        assert [sent.body["max_tokens"] for sent in server.requests] == [32_000, 4_096]


async def test_a_signature_in_the_id_of_a_call_goes_back_to_the_proxy_that_put_it_there() -> None:
    signed = f"call_1__thought__{'x' * 80}"
    for long, kept in ((signed, True), ("call_" + "x" * 80, False)):
        call = CALL.model_copy(update={"id": long})
        with ModelServer([answer("ok")]) as server:
            messages = (Message(role=Role.ASSISTANT, content=(call,)),)
            await ask(client_of(server, "openai/gemini-3-pro"), ModelRequest(messages))
            (sent,) = (request.body["messages"][0] for request in server.requests)
        assert (sent["tool_calls"][0]["id"] == long) is kept


def test_a_price_is_known_without_the_key_that_a_request_needs() -> None:
    client = make_client("openai/gpt-4o", LLMConfig(), environ={}, start={})
    with pytest.raises(ModelRefusedError):
        _ = client.destination
    usage = TokenUsage(prompt_tokens=11, completion_tokens=7)
    assert client.cost(usage) == pytest.approx(11 * 2.5e-6 + 7 * 1e-5)
