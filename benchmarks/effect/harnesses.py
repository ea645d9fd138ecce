"""The two ways to ask: through `%%agent`, and through a bare loop with one tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

from kernels import Kernel, Page, kernel
from servers.model_server import ModelServer

MAX_STEPS = 12
MAX_RESULT = 10_000
"""Characters of a tool result in the bare loop."""

SYSTEM = (
    "You are a data analyst. You work in a Jupyter kernel through the tool execute_code; variables "
    "stay between calls. Look at the data, compute, and answer briefly."
)
TOOL = {
    "type": "function",
    "function": {
        "name": "execute_code",
        "description": "Run Python code in the kernel. Returns what it prints, the value of the "
        "last expression, or the traceback.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
    },
}

LAST = """
import json, ipyagent
print(json.dumps([ipyagent.last.output, ipyagent.last.total_tool_calls]))
"""


@dataclass(frozen=True)
class Outcome:
    """The answer to one prompt, the number of tool calls, and how many of them asked the user."""

    text: str
    calls: int
    approvals: int


class Harness(Protocol):
    """Answers one prompt with a new kernel in the folder."""

    def __call__(self, prompt: str, folder: Path, server: ModelServer, model: str) -> Outcome:
        """Return the outcome of a prompt to that model of that server."""


def ask_ipyagent(prompt: str, folder: Path, server: ModelServer, model: str) -> Outcome:
    """Run an agent cell in the default mode; each question is approved by a click."""
    environment = {
        "IPYAGENT_LLM__MODEL": f"openai/{model}",
        "IPYAGENT_LLM__API_BASE": server.url,
        "OPENAI_API_KEY": "none",
        "IPYAGENT_AGENT__LOOK_FREELY": "true",
    }
    with kernel(folder, **environment) as started:
        page = Page(started)
        started.run(f"%%agent\n{prompt}", page=page, patience=600)
        text, calls = json.loads(started.run(LAST).stdout)
    approvals = sum(moment["type"] == "asked" for moment in page.moments)
    return Outcome(text, calls, approvals)


def ask_bare_loop(prompt: str, folder: Path, server: ModelServer, model: str) -> Outcome:
    """Ask over HTTP until the model calls no tool; code runs unasked."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": prompt},
    ]
    calls = 0
    with kernel(folder, loads=False) as started, httpx.Client(timeout=600) as client:
        for _ in range(MAX_STEPS):
            message = _complete(client, server, model, messages)
            messages.append(message)
            if not message.get("tool_calls"):
                break
            for call in message["tool_calls"]:
                calls += 1
                messages.append(_execute(started, call))
    return Outcome(messages[-1].get("content") or "", calls, 0)


HARNESSES: Mapping[str, Harness] = {"%%agent": ask_ipyagent, "bare loop": ask_bare_loop}


def _complete(
    client: httpx.Client, server: ModelServer, model: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the model's message, put together from the stream."""
    body = {"model": model, "messages": messages, "tools": [TOOL], "stream": True}
    response = client.post(f"{server.url}/chat/completions", json=body)
    response.raise_for_status()
    text, calls = "", {}
    for delta in _deltas(response.text):
        text += delta.get("content") or ""
        for part in delta.get("tool_calls") or ():
            call = calls.setdefault(
                part["index"],
                {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
            )
            call["id"] += part.get("id") or ""
            for key, value in part["function"].items():
                call["function"][key] += value or ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": list(calls.values())} if calls else {})


def _deltas(stream: str) -> Iterator[dict[str, Any]]:
    for line in stream.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: ")).get("choices") or ():
                yield choice.get("delta") or {}


def _execute(started: Kernel, call: Mapping[str, Any]) -> dict[str, Any]:
    try:
        code = json.loads(call["function"]["arguments"])["code"]
    except (ValueError, KeyError) as error:
        return {"role": "tool", "tool_call_id": call["id"], "content": f"invalid call: {error}"}
    reply = started.run(code, patience=600)
    values = (each["data"].get("text/plain", "") for each in reply.of("execute_result"))
    errors = ("\n".join(each["traceback"]) for each in reply.of("error"))
    text = "\n".join([reply.stdout + reply.stderr, *values, *errors]).strip()
    content = text[:MAX_RESULT] or "(no output)"
    return {"role": "tool", "tool_call_id": call["id"], "content": content}
