"""A long conversation that changes its model again and again stays one that every service takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from asking import EVENTS, KEY, client_of
from wire_rules import broken_rules

from harness import NO, YES, Lab
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.tools.base import tool
from servers.model_server import ModelServer, Reply, Request, delta, failure, sse, stream

MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-5.2",
    "responses": "openai/responses/gpt-6",
    "gemini": "gemini/gemini-3.8-flash",
    "mistral": "mistral/mistral-large-latest",
    "moonshot": "moonshot/kimi-k2.5",
}
USAGE = {"input_tokens": 5, "output_tokens": 5}
NAMES = ("list_files", "run_python", "plot", "functions.list_files", "list files", "3d", "näme")
NAMES += ("x" * 90, "f\n", "<|f|>")


@tool
def plot() -> ToolResult:
    """Draw a picture."""
    return ToolResult(output="drawn", images=(ImageContent(data="aGk="),))


class Talker:
    """Makes up replies: thoughts, words and calls in any order, cut, broken or whole."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def parts(self) -> list[tuple[str, Any]]:
        """Return the kinds and contents of a reply's blocks."""
        self.count += 1
        kinds = self.random.choices(("thought", "text", "call"), (2, 2, 4), k=4)
        return [(kind, self._part(kind)) for kind in kinds[: self.random.randint(1, 4)]]

    def _part(self, kind: str) -> Any:
        pick = self.random.choice
        if kind == "thought":
            return pick(("Hm.", "\ud800 odd", f"Thought {self.count}."))
        if kind == "text":
            return pick(("Hello.", "\n\n", " ", f"Words {self.count}."))
        number = self.random.randrange(4)
        id_ = pick(
            (f"call_{number}", f"functions.f:{number}", "x" * 70 + str(number), "", "toolu_1")
        )
        arguments = pick(("{}", '{"code": "1+1"}', '{"code": "x', "[1]", ""))
        return id_, pick(NAMES), arguments

    def end(self, reply: Reply) -> Reply:
        """Return the reply, one in six cut somewhere."""
        size = len(reply.body)
        return reply.cut(self.random.randrange(size)) if self.random.random() < 0.16 else reply


def in_chat(parts: list[tuple[str, Any]], mark: str) -> Reply:
    events: list[Any] = []
    for number, (kind, value) in enumerate(parts):
        match kind:
            case "thought":
                events.append(delta(reasoning_content=value))
            case "text":
                events.append(delta(content=value))
            case _:
                id_, name, arguments = value
                function = {"name": name, "arguments": arguments}
                call = {"index": number, "id": id_, "type": "function", "function": function}
                if mark == "gemini":
                    call["extra_content"] = {"google": {"thought_signature": f"SIG {number}"}}
                events.append(delta(tool_calls=[call]))
    return stream(*events, delta(finish_reason="stop"), "[DONE]")


def in_messages(parts: list[tuple[str, Any]], mark: str) -> Reply:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": USAGE}}]
    for number, (kind, value) in enumerate(parts):
        at = {"index": number}
        match kind:
            case "thought":
                block = {"type": "thinking", "thinking": value, "signature": f"SIG {number}"}
            case "text":
                block = {"type": "text", "text": value}
            case _:
                id_, name, arguments = value
                block = {"type": "tool_use", "id": id_, "name": name, "input": {}}
                piece = {"type": "input_json_delta", "partial_json": arguments}
        events.append({"type": "content_block_start", "content_block": block} | at)
        if kind == "call":
            events.append({"type": "content_block_delta", "delta": piece} | at)
        events.append({"type": "content_block_stop"} | at)
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
    return Reply((*map(sse, events), sse({"type": "message_stop"})), headers=EVENTS)


def in_responses(parts: list[tuple[str, Any]], mark: str) -> Reply:
    items = []
    for number, (kind, value) in enumerate(parts):
        match kind:
            case "thought":
                item = {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": value}
            case "text":
                content = [{"type": "output_text", "text": value}]
                item = {"type": "message", "id": f"msg_{number}", "content": content}
            case _:
                id_, name, arguments = value
                item = {"type": "function_call", "id": f"fc_{number}", "call_id": id_}
                item |= {"name": name, "arguments": arguments}
        items.append({"type": "response.output_item.done", "output_index": number, "item": item})
    end = {"type": "response.completed", "response": {"status": "completed", "usage": USAGE}}
    return Reply((*map(sse, items), sse(end)), headers=EVENTS)


FORMS: dict[str, Callable[[list[tuple[str, Any]], str], Reply]] = {
    "anthropic": in_messages,
    "responses": in_responses,
}


class Service:
    """A strict one: it answers, or refuses what breaks its rules."""

    def __init__(self, name: str, talker: Talker) -> None:
        self.name, self.talker = name, talker
        self.refused: list[str] = []
        self.server = ModelServer([self._reply] * 500)

    def _reply(self, request: Request) -> Reply:
        if broken := broken_rules(request.body, self.name):
            self.refused.append("; ".join(dict.fromkeys(broken)))
            return failure(400, broken[0])
        if self.talker.random.random() < 0.3:
            return FORMS.get(self.name, in_chat)([("text", "Done.")], self.name)
        form = FORMS.get(self.name, in_chat)
        return self.talker.end(form(self.talker.parts(), self.name))


def talk(lab: Lab, seed: int, turns: int) -> dict[str, list[str]]:
    """Hold a conversation; return what each service refused."""
    talker = Talker(seed)
    services = {name: Service(name, talker) for name in MODELS}
    with ExitStack() as stack:
        clients = {}
        for name, service in services.items():
            server = stack.enter_context(service.server)
            base = server.url if name in ("openai", "responses") else server.origin
            settings = {"api_base": base, "api_key": KEY, "retries": 0}
            clients[name] = client_of(server, MODELS[name], **settings)
        for _ in range(turns):
            lab.run(
                [],
                model=clients[talker.random.choice([*MODELS])],
                tools=[plot],
                answer=talker.random.choice((YES, NO)),
                settings={"llm": {"retries": 0}},
                max_steps=talker.random.randint(1, 4),
            )
    return {name: service.refused for name, service in services.items()}


@pytest.mark.parametrize("seed", range(2))
def test_no_service_refuses_what_others_and_faults_have_left(lab: Lab, seed: int) -> None:
    refused = talk(lab, seed, turns=12)
    # Learned from the first refusal, since it is the model that wants it, wherever it is served.
    assert refused.pop("mistral") in ([], ["Unexpected role 'user' after role 'tool'"])
    assert not any(refused.values()), refused
