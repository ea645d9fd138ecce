"""The parts of a conversation that the explorer needs: prompt, context, calls since."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_CONTEXT = re.compile(r"\n?<context>\n(.*)\n</context>\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class FinishedCall:
    """A finished call, and its result as text."""

    tool: str
    arguments: dict[str, Any]
    output: str


@dataclass(frozen=True)
class Exchange:
    """The newest prompt. `context` is None if the prompt had none.

    `earlier` are the contexts of prompts before it, `prompts` those themselves, the newest first.
    """

    prompt: str
    context: str | None
    done: tuple[FinishedCall, ...]
    earlier: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


def read(messages: list[dict[str, Any]]) -> Exchange:
    """Parse a conversation in OpenAI's chat format: its newest prompt, and the calls since."""
    start = max((i for i, each in enumerate(messages) if _is_prompt(each)), default=-1)
    text = _text(messages[start]) if start >= 0 else ""
    found = _CONTEXT.search(text)
    asked = [_text(m) for m in messages[: max(start, 0)] if _is_prompt(m)]
    before = [_CONTEXT.search(each) for each in asked]
    return Exchange(
        prompt=(text[: found.start()] if found else text).strip(),
        context=found[1] if found else None,
        done=_finished_calls(messages[start + 1 :]),
        earlier=tuple(each[1] for each in reversed(before) if each),
        prompts=tuple(_CONTEXT.sub("", each).strip() for each in reversed(asked)),
    )


def _is_prompt(message: dict[str, Any]) -> bool:
    # A user message of nothing but images is the tail of a tool's result.
    return message.get("role") == "user" and bool(_text(message).strip())


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


def _finished_calls(messages: list[dict[str, Any]]) -> tuple[FinishedCall, ...]:
    results = {m.get("tool_call_id"): _text(m) for m in messages if m.get("role") == "tool"}
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return tuple(
        FinishedCall(call["function"]["name"], _arguments(call), results[call.get("id")])
        for call in calls
        if call.get("id") in results
    )


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call["function"].get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return {}
    return arguments if isinstance(arguments, dict) else {}
