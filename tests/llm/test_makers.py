"""Signed and encrypted thoughts go back to the model and service that made them, nowhere else."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from asking import ask, client_of
from signed_replies import (
    encrypted_answer,
    signed_answer,
    signed_call,
    spoken_answer,
    worded_answer,
)

from harness import Lab
from ipyagent.agent.session import Session
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Message, Outcome, Role
from servers.model_server import ModelServer, Reply, answer


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
