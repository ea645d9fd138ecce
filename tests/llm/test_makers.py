"""Signed and encrypted thoughts go back to the model and service that made them, nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import ask, client_of
from signed_replies import (
    encrypted_answer,
    google_form,
    signed_answer,
    signed_call,
    spoken_answer,
    worded_answer,
)

from harness import Lab
from ipyagent.agent.session.session import Session
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Message, Outcome, Role
from servers.model_server import ModelServer, Reply, Request, answer, delta, failure, stream


def replies_of(name: str, mark: str) -> list[Reply]:
    """A reply with a signed call, and the answer to its result."""
    match name:
        case "anthropic" | "minimax":
            return [signed_answer(mark), spoken_answer("Done.")]
        case "openai":
            return [encrypted_answer(mark), worded_answer("Done.")]
        case "gemini":
            return [signed_call(mark), answer("Done.")]
    return [answer(calls=[("list_files", {}, f"call_{mark}")]), answer("Done.")]


MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "minimax": "minimax/MiniMax-M2",
    "openai": "openai/responses/gpt-6",
    "gemini": "gemini/gemini-3.8-flash",
    "moonshot": "moonshot/kimi-k2.5",
}
SIGNED = ("anthropic", "minimax", "openai", "gemini")


def test_five_models_take_turns_and_none_gets_what_another_signed(lab: Lab) -> None:
    with ExitStack() as stack:
        servers = {name: stack.enter_context(ModelServer([])) for name in MODELS}
        clients = {
            name: client_of(
                servers[name],
                model,
                api_key="sk-canary-0123456789abcdef",
                api_base=servers[name].origin + ("/anthropic" if name == "minimax" else ""),
            )
            for name, model in MODELS.items()
        }
        for turn in range(2):
            for name in MODELS:
                servers[name].replies += replies_of(name, f"SIG{turn}{name}")
                run = lab.run([], f"Turn {turn} of {name}.", model=clients[name])
                assert run.outcome is Outcome.SUCCESS, run.error
        for name, server in servers.items():
            sent = "\n".join(json.dumps(request.body) for request in server.requests)
            for maker in SIGNED:
                count = sum(f'"SIG{turn}{maker}"' in sent for turn in range(2))
                assert count == (2 if maker == name else 0), (name, maker)
            for request in server.requests:
                check_thoughts(name, request.body)


def check_thoughts(name: str, body: dict[str, Any]) -> None:
    """Each service finds what it demands with the calls of all others."""
    for message in body.get("messages", []):
        calls = message.get("tool_calls", [])
        if name == "moonshot" and calls:
            assert message["reasoning_content"].strip(" ") or message["reasoning_content"] == " "
        if name == "gemini" and calls:
            assert calls[0]["extra_content"]["google"]["thought_signature"]


def test_a_saved_session_remembers_who_made_an_answer(lab: Lab, tmp_path: Path) -> None:
    with ModelServer([signed_answer("SIG1"), *[spoken_answer("Done.")] * 3]) as server:
        client = client_of(server, MODELS["anthropic"])
        assert lab.run([], model=client).outcome is Outcome.SUCCESS
        lab.session.save(tmp_path / "talk.json")
        lab.session = Session.load(tmp_path / "talk.json")
        lab.run([], model=client)
        assert b'"SIG1"' in server.requests[-1].raw
        lab.run([], model=client_of(server, "anthropic/claude-opus-5"))
        assert b'"SIG1"' not in server.requests[-1].raw


async def test_what_nobody_is_known_to_have_made_is_sent_to_nobody(request_: ModelRequest) -> None:
    older = Message.from_dict(
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SIG"},
                {"type": "text", "text": "Hello."},
            ],
        }
    )
    messages = (*request_.messages, older, Message.of(Role.USER, "And now?"))
    with ModelServer([spoken_answer("Done.")]) as server:
        client = client_of(server, MODELS["anthropic"])
        await ask(client, replace(request_, messages=messages))
        (sent,) = server.requests
    assert (b"Hello." in sent.raw, b"SIG" in sent.raw) == (True, False)


DETAILS: list[dict[str, Any]] = [
    {"type": "reasoning.text", "text": "hm", "signature": "SIG", "format": "a-v1", "index": 0},
    {"type": "reasoning.encrypted", "data": "SECRET", "id": "c", "format": "b-v1", "index": 1},
]


@pytest.mark.parametrize("provider", ["openrouter", "openai"])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_gateway_gets_the_details_of_its_reasoning_back(
    lab: Lab, is_streamed: bool, provider: str
) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "list_files", "arguments": "{}"}}
    signature = {k: v for k, v in DETAILS[0].items() if k != "text"}
    reply = stream(
        delta(reasoning="h", reasoning_details=[{"type": "reasoning.text", "text": "h"}]),
        delta(reasoning="m", reasoning_details=[{"type": "reasoning.text", "text": "m"}]),
        delta(reasoning_details=[signature]),
        delta(tool_calls=[call], reasoning_details=DETAILS[1:]),
        delta(finish_reason="tool_calls"),
        "[DONE]",
    )
    if not is_streamed:
        message = {"reasoning": "hm", "reasoning_details": DETAILS, "tool_calls": [call]}
        whole = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
        reply = Reply((json.dumps(whole).encode(),))
    with ModelServer([reply, *[answer("Done.")] * 2]) as server:
        for model in (f"{provider}/google/gemini-3-pro", f"{provider}/x-ai/grok-5"):
            settings = {"api_key": "sk-canary-0123456789abcdef", "stream": is_streamed}
            assert lab.run([], model=client_of(server, model, **settings)).error is None
        own, other = (request.body["messages"] for request in server.requests[1:])
    assert [m["reasoning_details"] for m in own if m["role"] == "assistant"] == [DETAILS]
    assert all("reasoning_details" not in message for message in other)


FORMS: list[Callable[[str], dict[str, Any]]] = [
    google_form,
    lambda signature: {"extra_content": {"vertex": {"thought_signature": signature}}},
    lambda signature: {"provider_specific_fields": {"thought_signature": signature}},
    lambda signature: {"thought_signature": signature},
]
MISSING = [
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly. Additional data, function call `default_api:list_files`, position 2.",
    "Unable to submit request because function call `list_files` is missing a 'thought_signature'.",
]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("openai/gemini-3.6-flash", MISSING[0]),
        ("openai/google/gemini-3", MISSING[0]),
        ("hosted_vllm/fast", MISSING[1]),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_gemini_under_another_name_gets_its_signatures_back(
    lab: Lab, model: str, words: str, form: Callable[[str], dict[str, Any]]
) -> None:
    """Also in the place of those that calls of other models do not have."""
    replies = [signed_call(f"SIG{number}", form) for number in (1, 2)]
    replies = [replies[0], answer("Done."), replies[1], answer("Done.")]
    called = '"thought_signature": "'

    def check(request: Request) -> Reply:
        said = [each for each in request.body["messages"] if "tool_calls" in each]
        if all(called in json.dumps(each["tool_calls"][0]) for each in said):
            return replies.pop(0)
        return failure(400, words)

    with ModelServer([answer(calls=[("list_files", {})] * 2), answer("Done.")]) as other:
        lab.run([], model=client_of(other))
    with ModelServer([check] * 9) as server:
        for _ in range(2):
            run = lab.run([], model=client_of(server, model))
            assert run.outcome is Outcome.SUCCESS, run.error
        sent = server.requests[-1].body["messages"]
    first, *own = (each["tool_calls"][0] for each in sent if "tool_calls" in each)
    assert "skip_thought_signature_validator" in json.dumps(first)
    fields = [{k: call[k] for k in call.keys() - {"id", "type", "function"}} for call in own]
    assert fields == [form("SIG1"), form("SIG2")]


def test_a_signature_that_comes_with_each_piece_is_one(lab: Lab) -> None:
    signed = FORMS[0]("SIG")
    function = {"name": "list_files", "arguments": "{"}
    rest = {"function": {"arguments": "}"}}
    pieces = [{"id": "a", "function": function}, rest]
    events = [delta(tool_calls=[{"index": 0} | piece | signed]) for piece in pieces]
    with ModelServer([stream(*events, delta(finish_reason="stop")), answer("Done.")]) as server:
        lab.run([], model=client_of(server))
        sent = server.requests[-1].body["messages"]
    assert [call["extra_content"] for each in sent for call in each.get("tool_calls", ())] == [
        signed["extra_content"]
    ]


def test_a_proxy_gets_the_thinking_blocks_back_that_it_sent(lab: Lab) -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "SECRET"},
    ]
    call = {"index": 0, "id": "c", "function": {"name": "list_files", "arguments": "{}"}}
    reply = stream(
        delta(thinking_blocks=blocks), delta(tool_calls=[call]), delta(finish_reason="tool_calls")
    )
    refusal = failure(400, "messages.2.thinking_blocks: Extra inputs are not permitted")
    with ModelServer([reply, refusal, answer("Done.")]) as server:
        run = lab.run([], model=client_of(server, "proxy/claude"))
        assert run.outcome is Outcome.SUCCESS, run.error
        sent = [request.body["messages"][-2] for request in server.requests[1:]]
    assert [each.get("thinking_blocks") for each in sent] == [blocks, None]


def test_an_answer_of_blanks_goes_to_nobody(lab: Lab) -> None:
    blank = [answer("\n\n", thinking="hm"), answer("\n\n", calls=[("list_files", {})])]
    with ModelServer([*blank, answer("Done.")]) as server:
        for _ in range(2):
            lab.run([], model=client_of(server))
        for reply, model in (
            (spoken_answer("Done."), MODELS["anthropic"]),
            (worded_answer("Done."), MODELS["openai"]),
            (answer("Done."), "openai/gpt-4o"),
        ):
            server.replies.append(reply)
            lab.run([], model=client_of(server, model))
            body = server.requests[-1].body
            for message in body.get("messages") or body["input"]:
                content = message.get("content", "x")
                assert content is None or (content and not str(content).isspace())
