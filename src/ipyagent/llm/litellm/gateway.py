"""The door to LiteLLM: one call, its reply in our chunks, its failures as ours."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ipyagent.errors import ModelError, ModelRefusedError, ModelUnavailableError
from ipyagent.llm import modelmap, reply_parts
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.destinations import Destination
from ipyagent.llm.error_mapping import CUT_OFF, refuses_length
from ipyagent.llm.litellm import beneath, warmup
from ipyagent.llm.litellm.chunks import ReplyReader
from ipyagent.llm.litellm.warmup import silence
from ipyagent.llm.refused_history import leave_out
from ipyagent.llm.service_client import ServiceClient, trace_headers
from ipyagent.llm.wire import own_thoughts, to_openai, tools_to_openai
from ipyagent.providers import PROXY, signs_calls, signs_thinking
from ipyagent.schema import StreamChunk, TokenUsage

EVENTS = "text/event-stream"


class LiteLLMClient(ServiceClient):
    """A model that LiteLLM can reach."""

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars by the map; may wait for LiteLLM's import."""
        return self._price(self._current_destination())(usage)

    def _current_destination(self) -> Destination:
        return self._destination(self._provider(warmup.litellm()))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, piece by piece."""
        litellm = await asyncio.to_thread(warmup.litellm)
        provider = self._provider(litellm)
        where, request = self._destination(provider), self._takeable(request)
        with silence(litellm, where.key):  # once: it takes a lock
            async with aclosing(self._read_reply(litellm, request, provider, where)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _read_reply(
        self, litellm: Any, request: ModelRequest, provider: str, where: Destination
    ) -> AsyncGenerator[StreamChunk, None]:
        reader = ReplyReader(self._price(where))
        try:
            stream = await self._wait(where, self._open(litellm, request, provider, where))
        except ModelError as error:
            if request.max_tokens is None or not refuses_length(str(error)):
                sent = self._messages(request, provider, where)
                is_refused = isinstance(error, ModelRefusedError)
                raise (
                    is_refused and self._leave_out(error, request, sent, where)
                ) or error from None
            # It has a limit of its own, or another name for it; ours is watched over here as well.
            request = replace(request, max_tokens=None)
            stream = await self._wait(where, self._open(litellm, request, provider, where))
        try:
            while (chunks := await self._wait(where, self._next(stream, reader))) is not None:
                for chunk in chunks:
                    yield chunk
            self._keep_left_out()
        finally:
            await stream.aclose()

    def _provider(self, litellm: Any) -> str:
        """Return LiteLLM's name of the provider; raises ModelRefusedError for an unknown model."""
        prefix, slash, _ = self._model.partition("/")
        if self._config.mode == "proxy":
            return PROXY
        if slash and prefix in litellm.provider_list:
            return prefix
        with silence(litellm):
            try:
                return str(litellm.get_llm_provider(self._model)[1])
            except Exception:
                raise ModelRefusedError(
                    f"{self._model!r} is not a model id that LiteLLM knows. Write it as "
                    "provider/name, such as ollama/qwen3 or openai/gpt-5.2."
                ) from None

    async def _open(
        self, litellm: Any, request: ModelRequest, provider: str, where: Destination
    ) -> Any:
        settings = self._settings(request, provider, where)
        if request.max_tokens is not None:
            longest = modelmap.longest(self._facts) or request.max_tokens
            settings["max_tokens"] = min(request.max_tokens, longest)
        if (provider == "openai" or where.compatible) and _is_chat(litellm, settings):
            _lighten(settings)
        brought = await close_if_given_up(litellm.acompletion(**settings))
        if not self._config.stream:
            return _Whole(brought)
        beneath.limit_events(brought)
        return await self._read_whole(litellm, brought, where.key)

    def _settings(self, request: ModelRequest, provider: str, where: Destination) -> dict[str, Any]:
        """Return the arguments of the call: nothing is ever set on the module."""
        settings: dict[str, Any] = {
            "model": self._model,
            "messages": self._messages(request, provider, where),
            "stream": self._config.stream,
            "num_retries": 0,
            "max_retries": 0,
            # Ours ends first; this one frees the connection should we be gone.
            "timeout": self._config.timeout + 5,
            "_skip_mcp_handler": True,
        }
        if where.compatible:
            name = self._model if provider == PROXY else self._model.partition("/")[2]
            settings["model"] = f"custom_openai/{name}"
        if request.tools:
            # A copy, since for some providers LiteLLM changes schemas where they are.
            settings["tools"] = deepcopy(tools_to_openai(request.tools))
            if not request.may_call:
                # Dropped for a service that has no such choice: the run ends either way.
                settings |= {"tool_choice": "none", "drop_params": True}
        settings |= {"api_key": where.key, "api_base": where.base}
        if headers := trace_headers(request):
            settings["extra_headers"] = headers
        if self._config.stream:
            settings["stream_options"] = {"include_usage": True}
        return settings

    def _messages(
        self, request: ModelRequest, provider: str, where: Destination
    ) -> list[dict[str, Any]]:
        own = own_thoughts(request.messages, self._signer_at(where))
        wired = _drop_unchecked_signatures(to_openai(own, vision=self.vision), provider)
        return [*leave_out(wired, self._refused)]

    async def _next(self, stream: Any, reader: ReplyReader) -> list[StreamChunk] | None:
        """Return the chunks of the next piece; None at the end."""
        piece = await anext(stream, None)
        if piece is None:
            return None
        # The second is all that LiteLLM passes on of Gemini, whose streams are framed in any case.
        finish = stream.received_finish_reason or stream.intermittent_finish_reason
        chunks = [*reader.read(piece, finish)]
        # LiteLLM invents a finish for a stream that just ended.
        if not finish and any(chunk.type == "finish" for chunk in chunks):
            if not reader.has_read and (kind := beneath.content_type(stream)) != EVENTS:
                raise ModelRefusedError(f"{self._model} {reply_parts.describe(kind, '')}.")
            raise ModelUnavailableError(f"{self._model}: {CUT_OFF}")
        return chunks

    async def _read_whole(self, litellm: Any, stream: Any, key: str | None) -> Any:
        """Return the reply if `stream` is none: a whole completion is as good an answer."""
        kind = beneath.content_type(stream)
        if reply_parts.may_be_stream(kind):
            return stream
        body = await beneath.body_of(stream)
        if reply_parts.is_stream(body):
            return stream
        await stream.aclose()
        if (whole := beneath.completion_in(litellm, body)) is not None:
            return _Whole(whole)
        raise ModelRefusedError(f"{self._model} {reply_parts.describe(kind, body, key)}.")

    async def _wait(self, where: Destination, pending: Awaitable[Any]) -> Any:
        """Await `pending` within the time limit; all its failures become ours."""
        try:
            async with asyncio.timeout(self._config.timeout):
                return await pending
        except Exception as error:
            failure = self._explain(error, where)
        raise failure

    def _price(self, where: Destination) -> Callable[[TokenUsage], float | None]:
        """Return a function for the price; the map knows no price of a server of one's own."""
        return lambda usage: None if where.compatible else modelmap.price(self._facts, usage)


class _Whole:
    """A reply in one piece, as a stream."""

    intermittent_finish_reason = None

    def __init__(self, reply: Any) -> None:
        self._pieces = [reply]
        choice = reply.choices[0]
        fields = getattr(choice, "provider_specific_fields", None) or {}
        self.received_finish_reason = fields.get("native_finish_reason") or choice.finish_reason

    async def __anext__(self) -> Any:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()

    async def aclose(self) -> None:
        self._pieces.clear()


def _is_chat(litellm: Any, settings: Mapping[str, Any]) -> bool:
    """Return whether LiteLLM will use chat completions, not the Responses API."""
    try:
        provider, _, name = settings["model"].partition("/")
        info, _ = litellm.main.responses_api_bridge_check(
            name,
            provider,
            tools=settings.get("tools"),
            api_base=settings["api_base"],
        )
    except Exception:  # not a public function: without it, the slow way is always right
        return False
    return bool(info.get("mode") != "responses")


def _lighten(settings: dict[str, Any]) -> None:
    """Send messages and tools as extra body: the same bytes, without the SDK's validation.

    With that validation a request takes seven times as long after 300 steps.
    """
    names = [name for name in ("messages", "tools", "tool_choice") if name in settings]
    settings["extra_body"] = {name: settings.pop(name) for name in names}
    settings["messages"] = [{"role": "user", "content": ""}]


def _drop_unchecked_signatures(
    messages: list[dict[str, Any]], provider: str
) -> list[dict[str, Any]]:
    """Drop signatures that the provider does not check: it would refuse their keys."""
    for message in messages:
        if not signs_thinking(provider):
            message.pop("thinking_blocks", None)
        if not signs_calls(provider):
            for call in message.get("tool_calls", ()):
                call.pop("provider_specific_fields", None)
    return messages


T = TypeVar("T")


@types.coroutine
def close_if_given_up(call: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Return the result of `call`; after a cancellation, close the coroutine of its thread.

    A thread cannot be cancelled. LiteLLM's returns a coroutine, the request itself; if that were
    only dropped, Python would warn in some later cell that it "was never awaited".
    """
    go_on = partial(call.send, None)
    prepared = False
    while not prepared:
        try:
            future: asyncio.Future[Any] = go_on()
        except StopIteration as end:
            return cast("T", end.value)
        go_on = partial(call.send, None)
        shield = asyncio.shield(future)  # else a cancellation would lose the thread's result
        try:
            prepared = asyncio.iscoroutine((yield from shield))
        except BaseException as error:
            if shield.cancelled() and not future.cancelled():
                future.add_done_callback(_close)
                go_on = partial(call.throw, error)
            # Otherwise it is the future's own failure, which `call` will get.
    return cast("T", (yield from call))


def _close(future: asyncio.Future[Any]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    if asyncio.iscoroutine(brought := future.result()):
        brought.close()
