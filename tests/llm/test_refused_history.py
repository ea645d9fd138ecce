"""What a service refuses of a conversation is left out of the next request, and that is said."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from asking import client_of
from signed_replies import encrypted_answer, signed_answer, spoken_answer, worded_answer

from harness import Lab
from ipyagent.llm.service_error import NOTE, find_refused, leave_out
from ipyagent.schema import Notice, Outcome
from servers.model_server import ModelServer, Reply, Request, answer, failure, stream


def notices(lab: Lab) -> list[str]:
    return [event.text for event in lab.watcher.events if isinstance(event, Notice)]


def refusal(message: str, status: int = 400) -> Reply:
    return failure(status, message)


SIGNATURES = [
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "***.***.content.0: Invalid `signature` in `thinking` block (request id: 2026)",
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    "different conversation. The `system` prompt differs from the one it was created with.",
    "messages.1.content.1.redacted_thinking.data: could not be decrypted",
]
ENCRYPTED = [
    "The encrypted content for item rs_1 could not be verified.",
    "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
]


@pytest.mark.parametrize("words", SIGNATURES)
def test_a_refused_signature_ends_no_conversation_with_claude(lab: Lab, words: str) -> None:
    replies = [signed_answer("SIG1"), refusal(words), *[spoken_answer("Done.")] * 2]
    with ModelServer(replies) as server:
        client = client_of(server, "anthropic/claude-sonnet-5-5")
        run = lab.run([], model=client)
        assert (run.outcome, run.output) == (Outcome.SUCCESS, "Done.")
        assert any("left out" in each and words[:40] in each for each in notices(lab))
        lab.run([], model=client)
        _, with_it, without, later = (request.raw for request in server.requests)
    sent = [b'"SIG1"' in raw for raw in (with_it, without, later)]
    assert sent == [True, False, False]


@pytest.mark.parametrize("words", ENCRYPTED)
def test_a_refused_thought_ends_no_conversation_with_responses(lab: Lab, words: str) -> None:
    with ModelServer([encrypted_answer("rs_1"), refusal(words), worded_answer("Done.")]) as server:
        run = lab.run([], model=client_of(server, "openai/responses/gpt-6"))
        assert (run.outcome, run.output) == (Outcome.SUCCESS, "Done.")
        assert b'encrypted_content":' not in server.requests[-1].raw


def test_the_way_through_litellm_leaves_it_out_as_well(lab: Lab) -> None:
    replies = [signed_answer("SIG1"), refusal(SIGNATURES[0]), spoken_answer("Done.")]
    with ModelServer(replies) as server:
        client = client_of(server, "anthropic/claude-sonnet-5-5", client="litellm", stream=False)
        run = lab.run([], model=client)
        assert run.outcome is Outcome.SUCCESS, run.error
        assert [b'"SIG1"' in request.raw for request in server.requests] == [False, True, False]


def test_an_error_that_stays_is_told_as_it_is(lab: Lab) -> None:
    replies = [signed_answer("SIG1"), *[refusal(SIGNATURES[0])] * 2]
    with ModelServer(replies) as server:
        run = lab.run([], model=client_of(server, "anthropic/claude-sonnet-5-5"))
        assert len(server.requests) == 3
    assert "Invalid `signature`" in (run.error or "")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (SIGNATURES[0], lambda request: b'"SIG1"' in request.raw),
        ("tools.2.custom.input_schema: not valid", lambda request: len(request.body["tools"])),
    ],
)
def test_what_was_left_out_without_success_is_sent_again(
    lab: Lab, words: str, count: Callable[[Request], int]
) -> None:
    later = [refusal(words), refusal("Not today."), spoken_answer("Done.")]
    with ModelServer([signed_answer("SIG1"), *later]) as server:
        client = client_of(server, "anthropic/claude-sonnet-5-5")
        outcomes = [lab.run([], model=client).outcome for _ in range(2)]
        with_it, without, again = map(count, server.requests[1:])
    assert outcomes == [Outcome.FAILED, Outcome.SUCCESS]
    assert with_it == again > without


def test_an_error_about_something_else_leaves_nothing_out(lab: Lab) -> None:
    with ModelServer([answer("Hello."), refusal("temperature must be at most 2")]) as server:
        client = client_of(server)
        lab.run([], model=client)
        run = lab.run([], model=client)
        assert len(server.requests) == 2
    assert run.outcome is Outcome.FAILED


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
OTHER = {"type": "image_url", "image_url": {"url": "data:image/png;base64,REVG"}}
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
INPUT = {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WORDS = {"type": "text", "text": "Look."}
NEWEST = {"role": "user", "content": "And now?"}

NAMED: list[tuple[str, list[dict[str, Any]], Callable[[Any], object]]] = [
    (
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes",
        [{"role": "user", "content": [WORDS, BLOCK]}, NEWEST],
        lambda items: items[0]["content"] == [WORDS, {"type": "text", "text": NOTE}],
    ),
    (
        "Could not process image",
        [{"role": "user", "content": [WORDS, BLOCK]}, NEWEST],
        lambda items: items[0]["content"] == [WORDS, {"type": "text", "text": NOTE}],
    ),
    (
        "Invalid 'messages[0].content[1].image_url'. Expected a valid image.",
        [{"role": "user", "content": [OTHER, IMAGE]}, NEWEST],
        lambda items: items[0]["content"] == [OTHER, {"type": "text", "text": NOTE}],
    ),
    (
        "Invalid 'input[0].content[0].image_url': unsupported image",
        [{"role": "user", "content": [INPUT]}, NEWEST],
        lambda items: items[0]["content"] == [{"type": "input_text", "text": NOTE}],
    ),
    (
        "messages.1.content.0.content.0.image: unreadable",
        [NEWEST, {"role": "user", "content": [{"type": "tool_result", "content": [BLOCK]}]}],
        lambda items: items[1]["content"][0]["content"] == [{"type": "text", "text": NOTE}],
    ),
    (
        "[{'loc': ('body', 'messages', 0, 'content'), 'msg': 'Input should be a valid string'}]",
        [{"role": "user", "content": "\ufffe"}, NEWEST],
        lambda items: items[0] == {"role": "user", "content": NOTE},
    ),
    (
        "messages.2: tool results must be text",
        [
            NEWEST,
            {"role": "assistant", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": "\ufffe"},
        ],
        lambda items: (
            items[2] == {"role": "tool", "tool_call_id": "c", "content": NOTE}
            and items[1]["tool_calls"] == [CALL]
        ),
    ),
    (
        "Invalid 'input[1].output': string too long",
        [NEWEST, {"type": "function_call_output", "call_id": "c", "output": "x" * 50}],
        lambda items: items[1] == {"type": "function_call_output", "call_id": "c", "output": NOTE},
    ),
    (
        "messages -> 0 -> content: field required",
        [{"role": "user", "content": "\ufffe"}, NEWEST],
        lambda items: items == [{"role": "user", "content": NOTE}, NEWEST],
    ),
    (
        "Invalid type for 'messages[0].content': expected a string",
        [{"role": "user", "content": [WORDS, IMAGE]}],
        lambda items: items[0]["content"] == [WORDS, {"type": "text", "text": NOTE}],
    ),
    (
        "This model does not support vision",
        [{"role": "user", "content": [WORDS, IMAGE]}],
        lambda items: items[0]["content"] == [WORDS, {"type": "text", "text": NOTE}],
    ),
]


@pytest.mark.parametrize(("words", "items", "is_right"), NAMED)
def test_the_part_that_is_named_is_left_out(
    words: str, items: list[dict[str, Any]], is_right: Callable[[Any], object]
) -> None:
    said, refused = find_refused(words, items)
    assert said
    assert is_right([*leave_out(json.loads(json.dumps(items)), refused)])
    assert [*leave_out(items, frozenset())] == items


DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
KEPT = [
    ("messages.1: content is refused", [WORDS | {"role": "user"}, NEWEST]),
    ("messages.0.content.0.text: refused", [{"role": "user", "content": [WORDS]}]),
    ("messages.0.tool_calls.0.function.name: bad", [{"role": "assistant", "tool_calls": [CALL]}]),
    ("messages.9.content: there is none", [NEWEST]),
    ("messages: at least one message is required", [NEWEST]),
    ("the image model is overloaded", [NEWEST]),
    ("`thinking` is not supported by this model", [NEWEST]),
]

SYSTEM = {"role": "system", "content": "You are an agent."}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}
STEPS = [SYSTEM, NEWEST, {"role": "assistant", "tool_calls": [CALL]}, RESULT]
SIGNED = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "S"}]}
SEEN = {"role": "user", "content": [WORDS, IMAGE]}
KEPT += [
    ("messages[1].content: refused", STEPS),
    ("messages[0].role: system messages are not supported", STEPS),
    *(
        (words, [SIGNED, NEWEST])
        for words in (
            "reasoning_effort is not supported",
            "`max_tokens` must be greater than `thinking.budget_tokens`",
            "Unknown parameter: 'reasoning.effort'",
            "adaptive thinking is not supported on this model",
            "include: reasoning.encrypted_content is not permitted",
        )
    ),
    *(
        (words, [SEEN, NEWEST])
        for words in (
            "The model `gpt-image-1` does not exist",
            "qwen-image-edit does not take tools",
            "the image model was not found",
            "image_generation is not enabled",
        )
    ),
]


@pytest.mark.parametrize(("words", "items"), KEPT)
def test_newest_words_and_calls_are_never_left_out(words: str, items: list[dict[str, Any]]) -> None:
    assert find_refused(words, items) == ("", frozenset())


IMAGES = [
    refusal("Could not process image"),
    refusal("No endpoints found that support image input", 404),
    refusal("image input is not supported - hint: you may need to provide the mmproj", 500),
    failure(400, "Provider returned error", metadata={"raw": "unknown variant `image_url`"}),
    stream({"error": {"message": "Bad input", "param": "messages[4].content[1].image_url"}}),
]


@pytest.mark.parametrize("refused", IMAGES)
def test_an_image_that_was_refused_ends_no_conversation(lab: Lab, refused: Reply) -> None:
    (lab.environment.workspace.root / "dot.png").write_bytes(base64.b64decode(DOT))
    replies = [
        answer(calls=[("read_file", {"path": "dot.png"})]),
        refused,
        answer("Done."),
    ]
    with ModelServer(replies) as server:
        run = lab.run([], model=client_of(server))
        assert (run.outcome, run.output) == (Outcome.SUCCESS, "Done.")
        assert [b"image/png;base64" in r.raw for r in server.requests] == [False, True, False]
    (notice,) = notices(lab)
    assert "left out if that helps: " in notice


WANTED = [
    "thinking is enabled but reasoning_content is missing in assistant message at index 2",
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "Missing `reasoning_content` field in the assistant message at message index 2",
]


@pytest.mark.parametrize("words", WANTED)
def test_a_service_that_wants_thoughts_back_gets_them_from_then_on(lab: Lab, words: str) -> None:
    call = answer(thinking="hm", calls=[("list_files", {})])
    with ModelServer([call, refusal(words), answer("Done."), answer("More.")]) as server:
        client = client_of(server, "openai/a-model-that-thinks")
        for _ in range(2):
            assert lab.run([], model=client).outcome is Outcome.SUCCESS
        sent = server.requests[-1].body["messages"]
    thoughts = [each["reasoning_content"] for each in sent if each["role"] == "assistant"]
    assert thoughts == ["hm", " "]


def test_deepseek_gets_its_thoughts_back_in_anthropics_format_too(lab: Lab) -> None:
    """Unsigned ones, those of other models, and a blank where there was none."""
    words = "The `content[].thinking` in the thinking mode must be passed back to the API."
    unsigned = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "toolu_1", "name": "list_files", "input": {}},
    ]
    body = {"role": "assistant", "content": unsigned, "stop_reason": "tool_use"}
    reply = Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})
    other = [answer(thinking="so", calls=[("list_files", {})]), answer("Done.")]
    with ModelServer([*other, reply, refusal(words), *[spoken_answer("Done.")] * 2]) as server:
        lab.run([], model=client_of(server, "openai/x"))
        client = client_of(server, "anthropic/deepseek-v4-pro")
        for _ in range(2):
            assert lab.run([], model=client).outcome is Outcome.SUCCESS
        sent = server.requests[-1].body["messages"]
    firsts = [each["content"][0] for each in sent if each["role"] == "assistant"]
    thoughts = ["so", " ", "hm", " "]
    assert firsts == [{"type": "thinking", "thinking": t, "signature": ""} for t in thoughts]


ALTERNATE = (
    "Error: Jinja Exception: After the optional system message, conversation roles must alternate "
    "user and assistant roles except for tool calls and results."
)


@pytest.mark.parametrize(
    "refused",
    [
        refusal("Unexpected role 'user' after role 'tool'"),
        refusal(ALTERNATE, 500),
        stream({"error": {"message": ALTERNATE}}),
    ],
    ids=["Mistral", "llama.cpp", "LM Studio"],
)
def test_a_model_that_wants_an_answer_between_results_and_words_gets_one(
    lab: Lab, refused: Reply
) -> None:
    """Mistral's models refuse the user's words after results, wherever they are served."""
    reply = answer(calls=[("list_files", {})])
    with ModelServer([reply, reply, refused, *[answer("Done.")] * 2]) as server:
        client = client_of(server, "openai/devstral")
        lab.run([], model=client, max_steps=1)
        for _ in range(2):
            assert lab.run([], model=client).outcome is Outcome.SUCCESS
        *_, naive, sent, later = ([each["role"] for each in r.body["messages"]]
                                  for r in server.requests)  # fmt: skip
    start = ["system", "user", "assistant", "tool"]
    assert naive[:5] == [*start, "user"]
    assert sent[:6] == later[:6] == [*start, "assistant", "user"]


TOOLS_REFUSED = [
    "tools.2.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    "Invalid 'tools[2].function.description': string too long.",
    "Invalid schema for function '{name}': 'any' is not valid under any of the given schemas.",
    "* GenerateContentRequest.tools[0].function_declarations[2].parameters: only for OBJECT type",
]


@pytest.mark.parametrize("words", TOOLS_REFUSED)
def test_a_tool_that_is_refused_ends_no_conversation(lab: Lab, words: str) -> None:
    def refuse(request: Request) -> Reply:
        return refusal(words.format(name=names_of(request)[2]))

    with ModelServer([refuse, answer("Done."), answer("More.")]) as server:
        client = client_of(server)
        assert lab.run([], model=client).outcome is Outcome.SUCCESS
        (notice,) = notices(lab)
        assert lab.run([], model=client).outcome is Outcome.SUCCESS
        first, *later = map(names_of, server.requests)
    assert later == [[*first[:2], *first[3:]]] * 2
    assert f"refused the tool {first[2]}, left out if that helps: " in notice


def test_tools_for_which_there_is_no_room_are_left_out(lab: Lab) -> None:
    words = "Invalid 'tools': array too long. Expected an array with maximum length 10, but got 12."
    with ModelServer([refusal(words), answer("Done.")]) as server:
        assert lab.run([], model=client_of(server)).outcome is Outcome.SUCCESS
        first, second = map(names_of, server.requests)
    assert second == first[:10] != first


NO_TOOLS = [
    "at most 20 tools, 30 given",
    "'tools'. 142 are too many",
    "tools: 5 is too many",
    "reasoning_content must not be sent; it must be removed",
]


@pytest.mark.parametrize("words", NO_TOOLS)
def test_an_error_that_names_no_tool_is_told_as_it_is(lab: Lab, words: str) -> None:
    with ModelServer([refusal(words)] * 3) as server:
        assert lab.run([], model=client_of(server)).outcome is Outcome.FAILED
        assert len(server.requests) == 1


def test_a_service_that_refuses_every_tool_is_asked_a_few_times_only(lab: Lab) -> None:
    with ModelServer([refusal("tools.0.type: Input should be 'custom'")] * 30) as server:
        assert lab.run([], model=client_of(server)).outcome is Outcome.FAILED
        assert len(server.requests) == 9


def names_of(request: Request) -> list[str]:
    return [tool["function"]["name"] for tool in request.body["tools"]]
