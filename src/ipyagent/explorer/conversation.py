"""The conversation as the explorer needs it: the newest prompt, its context, the calls since."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_CONTEXT = re.compile(r"\n?<context>\n(.*)\n</context>\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Done:
    """A call that was made, and the text that came back."""

    tool: str
    arguments: dict[str, Any]
    output: str


@dataclass(frozen=True)
class Conversation:
    """The newest prompt. `context` is None where none came with it."""

    prompt: str
    context: str | None
    done: tuple[Done, ...]


def read(messages: list[dict[str, Any]]) -> Conversation:
    """The newest prompt of a conversation in OpenAI's chat format, and what happened since."""
    start = max((i for i, each in enumerate(messages) if _is_prompt(each)), default=-1)
    text = _text(messages[start]) if start >= 0 else ""
    found = _CONTEXT.search(text)
    return Conversation(
        prompt=(text[: found.start()] if found else text).strip(),
        context=found[1] if found else None,
        done=_done(messages[start + 1 :]),
    )


def _is_prompt(message: dict[str, Any]) -> bool:
    # A user message of nothing but images is the tail of a tool's result.
    return message.get("role") == "user" and bool(_text(message).strip())


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")


def _done(messages: list[dict[str, Any]]) -> tuple[Done, ...]:
    results = {m.get("tool_call_id"): _text(m) for m in messages if m.get("role") == "tool"}
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return tuple(
        Done(call["function"]["name"], _arguments(call), results[call.get("id")])
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
