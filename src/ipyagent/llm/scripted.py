"""A model that plays a script: for tests, documentation and demonstrations.

    Scripted(["Hello", {"calls": [{"name": "list_files"}]}, lambda request: "Done"])

A script file is a YAML or JSON list of the same replies, and `scripted/PATH` names it as a model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, ValidationError

from ipyagent.errors import ConfigError, ModelError, ModelRefusedError, ModelUnavailableError
from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Model, StreamChunk, TokenUsage


class ScriptedCall(Model):
    """A tool call; arguments given as a string are sent unchanged, to play malformed JSON."""

    name: str
    arguments: JsonDict | str = Field(default_factory=dict)
    id: str | None = None


class ScriptedError(Model):
    """A failure, raised after the reply's text."""

    kind: Literal["unavailable", "refused"]
    message: str = "the script says so"
    retry_after: float | None = None

    def exception(self) -> ModelError:
        """Return the error as the client raises it."""
        if self.kind == "unavailable":
            return ModelUnavailableError(self.message, self.retry_after)
        return ModelRefusedError(self.message)


class ScriptedReply(Model):
    """One reply. `delay` is in seconds, before each chunk."""

    thinking: str = ""
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedError | None = None
    delay: NonNegativeFloat = 0.0
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    cost_usd: float | None = None


Play = Callable[[ModelRequest], object | Awaitable[object]]
Said = str | JsonDict | ScriptedReply | Play


class Scripted:
    """Implements Client. `requests` holds the requests, in order."""

    def __init__(
        self,
        replies: Iterable[Said],
        *,
        model: str = "scripted",
        chunk_size: int = 4,
        context_window: int | None = None,
    ) -> None:
        self.context_window = context_window
        self.model = model
        self._chunk_size = chunk_size
        self._replies = [
            said if callable(said) else _reply(said, number)
            for number, said in enumerate(replies, start=1)
        ]
        self.requests: list[ModelRequest] = []

    @classmethod
    def from_file(cls, path: str | Path, *, model: str | None = None) -> Self:
        """Load a script from a YAML or JSON file; raises ConfigError with the problem."""
        import yaml  # replies are mostly given as a list

        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            script = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except FileNotFoundError:
            raise ConfigError(
                f"There is no script at {path}. Write one: a YAML or JSON list of replies, "
                "such as `- Hello`."
            ) from None
        except (OSError, ValueError, yaml.YAMLError) as error:
            problem = " ".join(str(error).split())
            raise ConfigError(f"The script {path} cannot be read: {problem}") from None
        if not isinstance(script, list):
            raise ConfigError(f"The script {path} must be a list of replies, one for each request.")
        try:
            return cls(script, model=model or f"scripted/{path}")
        except ConfigError as error:
            raise ConfigError(f"The script {path}: {error}") from None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the next reply of the script, in pieces."""
        self.requests.append(request)
        number = len(self.requests)
        reply = await self._next(request, number)
        for chunk in self._chunks(reply, number):
            await asyncio.sleep(reply.delay)
            yield chunk
        if reply.error is not None:
            raise reply.error.exception()
        yield StreamChunk(
            type="finish", data=reply.finish_reason or ("tool_calls" if reply.calls else "stop")
        )
        if reply.usage is not None or reply.cost_usd is not None:
            usage = reply.usage or TokenUsage()
            yield StreamChunk(type="usage", usage=usage, cost_usd=reply.cost_usd)

    async def _next(self, request: ModelRequest, number: int) -> ScriptedReply:
        if number > len(self._replies):
            raise ModelRefusedError(
                f"The script has no reply number {number}; it ends after {len(self._replies)}."
            )
        reply = self._replies[number - 1]
        if isinstance(reply, ScriptedReply):
            return reply
        produced = reply(request)
        return _reply(await produced if inspect.isawaitable(produced) else produced, number)

    def _chunks(self, reply: ScriptedReply, number: int) -> Iterator[StreamChunk]:
        for piece in self._pieces(reply.thinking):
            yield StreamChunk(type="thinking", data=piece)
        for piece in self._pieces(reply.text):
            yield StreamChunk(type="content", data=piece)
        for index, call in enumerate(reply.calls):
            id_ = f"call_{number}_{index + 1}" if call.id is None else call.id
            yield StreamChunk(type="tool_call", index=index, id=id_, name=call.name)
            text = call.arguments
            if not isinstance(text, str):
                text = json.dumps(text, ensure_ascii=False)
            for piece in self._pieces(text):
                yield StreamChunk(type="tool_call", data=piece, index=index)

    def _pieces(self, text: str) -> Iterator[str]:
        size = self._chunk_size
        return (text[start : start + size] for start in range(0, len(text), size))


def _reply(value: object, number: int) -> ScriptedReply:
    if isinstance(value, ScriptedReply):
        return value
    if isinstance(value, str):
        return ScriptedReply(text=value)
    if not isinstance(value, dict):
        keys = ", ".join(ScriptedReply.model_fields)
        raise ConfigError(f"reply {number} must be text, or a mapping with some of {keys}")
    try:
        return ScriptedReply.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: "
            f"{'unknown key' if e['type'] == 'extra_forbidden' else e['msg']}"
            for e in error.errors()
        )
        raise ConfigError(f"reply {number}: {problems}") from None
