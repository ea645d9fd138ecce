"""The door to LiteLLM, an extra: its import, its call, its reply in our chunks, its failures.

It is imported in the background, its environment first, by nothing else in this package. Its prints
and logs about our calls do not belong in a cell. Beneath its streams the bytes are looked at: their
type, their whole, a limit on what comes at once, and the reason that a service gives for an end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import types
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Generator, Iterator
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from ipyagent.errors import ModelError, ModelRefusedError, ModelUnavailableError
from ipyagent.json_types import JsonDict, object_of, parse_json
from ipyagent.llm import modelmap, prepare_environment, service_client
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.destinations import Destination
from ipyagent.llm.direct import objects_of
from ipyagent.llm.direct.chat import ChatReader
from ipyagent.llm.direct.reading import DONE, EventSplitter
from ipyagent.llm.error_mapping import CUT_OFF, refuses_length
from ipyagent.llm.service_client import MOST_BODY, ServiceClient, trace_headers
from ipyagent.llm.service_error import ServiceError, find_error, leave_out
from ipyagent.llm.wire import own_thoughts, to_openai, tools_to_openai
from ipyagent.providers import PROXY
from ipyagent.schema import StreamChunk

T = TypeVar("T")

log = logging.getLogger(__name__)

_lock = threading.Lock()
_thread: threading.Thread | None = None


def import_litellm() -> Any:
    """Return the litellm module, with its environment and its warnings filter set."""
    # The filter that litellm sets at its import. Set again for each call: code that restores
    # filters in between (as pytest does) would show warnings that litellm ignores on purpose.
    warnings.filterwarnings("ignore", "Accessing the .* on the instance", DeprecationWarning)
    prepare_environment()
    if (module := sys.modules.get("litellm")) is not None and hasattr(module, "acompletion"):
        return module
    with _suppress_logs():
        import litellm
    return litellm


def warm_up() -> None:
    """Import litellm in a daemon thread, unless that was started before; returns at once."""
    global _thread
    prepare_environment()
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_warm, name="ipyagent-warm-up", daemon=True)
            _thread.start()


def _warm() -> None:
    try:
        import_litellm()
    except Exception:
        # The first real call will meet the same trouble and can tell the user.
        log.debug("warming up litellm failed", exc_info=True)


@contextmanager
def _suppress_logs() -> Iterator[None]:
    """Keep litellm's logs in this thread out of the notebook; other threads stay audible.

    It silences httpx for everybody: that level is the user's.
    """
    here = threading.get_ident()
    logger, httpx = logging.getLogger("LiteLLM"), logging.getLogger("httpx")
    level = httpx.level

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(elsewhere)
        httpx.setLevel(level)


_ours: ContextVar[str | None] = ContextVar("ipyagent_asks", default=None)
"""The key of the current request, "" for one without; None outside of our requests."""

_silence_lock = threading.Lock()
_depth = 0
_before = False
_filter: object = None


def _discreet(record: logging.LogRecord) -> bool:
    """Drop LiteLLM's log messages about our calls that show in a cell or repeat a key."""
    key = _ours.get()
    is_asked_for = logging.getLogger(record.name).level and record.levelno < logging.WARNING
    if key is not None and not is_asked_for:
        return False
    if key and key in (message := record.getMessage()):
        record.msg, record.args = message.replace(key, "(key)"), ()
    return True


@contextmanager
def silence(litellm: Any, key: str | None = None) -> Iterator[None]:
    """Suppress what LiteLLM prints: advertisements, tracebacks, Pydantic's warnings.

    The errors themselves reach the user through us. This cannot be set for one call: the switch and
    the warnings filter are on during our calls, and as the user left them before and after. The
    log's filter stays, and passes everything that is not ours.
    """
    global _depth, _before, _filter
    logging.getLogger("LiteLLM").addFilter(_discreet)
    with _silence_lock:
        if not _depth:
            _before, litellm.suppress_debug_info = litellm.suppress_debug_info, True
            # Of LiteLLM's own types, and of replies with wrong types that it serializes.
            warnings.filterwarnings("ignore", category=UserWarning, module="pydantic")
            _filter = warnings.filters[0]
        _depth += 1
    token = _ours.set(key or "")
    try:
        yield
    finally:
        with suppress(ValueError):  # a reply that was given up is closed in another context
            _ours.reset(token)
        with _silence_lock:
            _depth -= 1
            if not _depth:
                litellm.suppress_debug_info = _before
                with suppress(ValueError):  # somebody has restored filters meanwhile
                    cast("list[Any]", warnings.filters).remove(_filter)


def content_type(stream: object) -> str:
    """Return the media type of the answer, without parameters; "" for none."""
    hidden = getattr(stream, "_hidden_params", None) or {}
    headers = hidden.get("additional_headers") or {}
    content_type_header = str(headers.get("llm_provider-content-type") or "")
    return content_type_header.partition(";")[0].strip().lower()


def response_of(inner: object) -> object:
    """Return the httpx response that LiteLLM reads; None if it has only the lines."""
    return getattr(inner, "response", None) or getattr(inner, "http_response", None)


async def body_of(stream: object) -> str:
    """Return the body, as far as it can be read here; a stream can still be read afterwards."""
    inner = getattr(stream, "completion_stream", None)
    response = response_of(inner)
    if hasattr(response, "aread"):
        return str((await response.aread())[:MOST_BODY].decode("utf-8", "replace"))
    lines: Any = getattr(inner, "streaming_response", None)
    read = ""
    if hasattr(lines, "__anext__"):
        async for line in lines:
            read += f"{line}\n"
            if len(read) > MOST_BODY:
                break
    return read


def completion_in(body: str) -> JsonDict | None:
    """Return a whole completion in OpenAI's format; None if the body is none."""
    completion = object_of(parse_json(body))
    choices = objects_of(completion.get("choices"))
    is_reply = choices and object_of(choices[0].get("message")).get("role") == "assistant"
    return completion if is_reply else None


class Events:
    """The events of one reply, as LiteLLM reads them: none is too large, and the last is kept.

    Of lines that LiteLLM is given in place of a response, one that never ends is not seen.
    """

    def __init__(self) -> None:
        self._splitter, self._beginning = EventSplitter(), b""
        self._last: list[str] = []

    def watch(self, stream: object) -> None:
        """Let a reply of LiteLLM's end with EventTooLargeError if an event is too large."""
        inner: Any = getattr(stream, "completion_stream", None)
        response: object = response_of(inner)
        lines: object = getattr(inner, "streaming_response", None)
        if hasattr(response, "aiter_bytes"):
            read = response.aiter_bytes
            response.aiter_bytes = lambda *size, **named: self._watch(read(*size, **named))
        elif isinstance(lines, AsyncIterator):
            inner.streaming_response = self._watch(lines)

    async def _watch(self, pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
        async for piece in pieces:
            data = piece if isinstance(piece, bytes) else f"{piece}\n".encode()
            if not self._splitter.has_events and len(self._beginning) < MOST_BODY:
                self._beginning += data
            self._take(self._splitter.feed(data))
            yield piece

    def _take(self, events: list[list[str]]) -> None:
        self._last = next((each for each in reversed(events) if each != [DONE]), self._last)

    def find_error(self) -> Any:
        """Return the error that the last event reports, or a body without any; else None."""
        self._take(self._splitter.end())
        event = "\n".join(self._last)
        if event and event[0] not in "{[":
            return event
        body = event or self._beginning.decode("utf-8", "replace").lstrip()
        try:
            return find_error(json.JSONDecoder().raw_decode(body)[0])
        except (ValueError, RecursionError):
            return None


THOUGHT = "__thought__"  # LiteLLM puts Gemini's signature of a call behind this, into the call's id


def _event_of(piece: Any, finish: str | None) -> JsonDict:
    """Return a piece or a whole reply in OpenAI's format; `finish` is the provider's word."""
    event: JsonDict = piece if isinstance(piece, dict) else piece.model_dump()
    if usage := getattr(piece, "usage", None):
        event["usage"] = usage.model_dump()
    for choice in event["choices"]:
        # To LiteLLM, a word that it doesn't know means `stop`.
        if finish and choice.get("finish_reason") == "stop":
            choice["finish_reason"] = finish
        said = choice.get("delta") or choice.get("message") or {}
        for call in said.get("tool_calls") or ():
            call["id"], _, signature = (call.get("id") or "").partition(THOUGHT)
            if signature:
                call["extra_content"] = {"google": {"thought_signature": signature}}
    return event


EVENTS = "text/event-stream"


class LiteLLMClient(ServiceClient):
    """A model that LiteLLM can reach."""

    @property
    def destination(self) -> Destination:
        """The address and key of a request; may wait for LiteLLM's import."""
        return self._destination(self._provider(import_litellm()))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, piece by piece."""
        litellm = await asyncio.to_thread(import_litellm)
        where, request = self.destination, self._takeable(request)
        if request.tools or not litellm.supports_response_schema(self.model):
            request = request.answered_by_tool()
        with silence(litellm, where.key):  # once: it takes a lock
            async with aclosing(self._read_reply(litellm, request, where)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _read_reply(
        self, litellm: types.ModuleType, request: ModelRequest, where: Destination
    ) -> AsyncGenerator[StreamChunk, None]:
        reader, events = ChatReader(), Events()
        try:
            stream = await self._wait(where, self._open(litellm, request, where, events))
        except ModelError as error:
            if service_client.refuses_format(request, str(error)):
                request = request.answered_by_tool()
            elif request.max_tokens is not None and refuses_length(str(error)):
                # It has a limit of its own, or another name for it; ours is watched over here too.
                request = replace(request, max_tokens=None)
            else:
                sent = self._messages(request, where)
                is_refused = isinstance(error, ModelRefusedError)
                raise (
                    is_refused and self._leave_out(error, request, sent, where)
                ) or error from None
            stream = await self._wait(where, self._open(litellm, request, where, events))
        failure: ModelError | None = None
        try:
            while (chunks := await self._wait(where, self._next(stream, reader))) is not None:
                for chunk in chunks:
                    yield chunk
            for chunk in reader.end():
                yield chunk
            if (usage := reader.usage) is not None:
                cost = self._price(usage, own_server=where.compatible)
                yield StreamChunk(type="usage", usage=usage, cost_usd=cost)
            self._keep_left_out()
        except ModelUnavailableError as error:
            failure = error
            if (reason := events.find_error()) is not None:
                told = ServiceError.in_stream(reason, is_whole=not reader.has_words)
                failure = self._explain(told, where)
        finally:
            await stream.aclose()
        if failure is not None:
            raise failure

    def _provider(self, litellm: types.ModuleType) -> str:
        """Return LiteLLM's name of the provider; raises ModelRefusedError for an unknown model."""
        prefix, slash, _ = self.model.partition("/")
        if self._config.mode == "proxy":
            return PROXY
        if slash and prefix in litellm.provider_list:
            return prefix
        with silence(litellm):
            try:
                return str(litellm.get_llm_provider(self.model)[1])
            except Exception:
                raise ModelRefusedError(
                    f"{self.model!r} is not a model id that LiteLLM knows. Write it as "
                    "provider/name, such as ollama/qwen3 or openai/gpt-5.2."
                ) from None

    async def _open(
        self, litellm: types.ModuleType, request: ModelRequest, where: Destination, events: Events
    ) -> Any:
        call = litellm.acompletion(**self._settings(request, where))
        brought = await close_if_given_up(call)
        if not self._config.stream:
            return _Whole(_event_of(brought, None))
        events.watch(brought)
        return await self._read_whole(brought, where.key)

    def _settings(self, request: ModelRequest, where: Destination) -> JsonDict:
        """Return the arguments of the call: nothing is ever set on the module."""
        settings: JsonDict = {
            "model": self.model,
            "messages": self._messages(request, where),
            "stream": self._config.stream,
            "num_retries": 0,
            "max_retries": 0,
            # Ours ends first; this one frees the connection should we be gone.
            "timeout": self._config.timeout + 5,
            "_skip_mcp_handler": True,
        }
        if where.compatible:
            name = self.model if where.provider == PROXY else self.model.partition("/")[2]
            settings["model"] = f"custom_openai/{name}"
        if request.tools:
            # A copy, since for some providers LiteLLM changes schemas where they are.
            settings["tools"] = deepcopy(tools_to_openai(request.tools))
            if not request.may_call:
                # Dropped for a service that has no such choice: the run ends either way.
                settings |= {"tool_choice": "none", "drop_params": True}
        if request.must_call:
            choice = {"type": "function", "function": {"name": request.must_call}}
            settings |= {"tool_choice": choice, "drop_params": True}
        if request.answer:
            wanted = request.answer.to_openai()
            settings["response_format"] = {"type": "json_schema", "json_schema": wanted}
        if request.max_tokens is not None:
            longest = modelmap.longest(self._facts) or request.max_tokens
            settings["max_tokens"] = min(request.max_tokens, longest)
        settings |= {"api_key": where.key, "api_base": where.base}
        if headers := trace_headers(request):
            settings["extra_headers"] = headers
        if self._config.stream:
            settings["stream_options"] = {"include_usage": True}
        return settings

    def _messages(self, request: ModelRequest, where: Destination) -> list[JsonDict]:
        own = own_thoughts(request.messages, self._signer_at(where))
        return [*leave_out(to_openai(own, vision=self.vision), self._refused)]

    async def _next(self, stream: Any, reader: ChatReader) -> list[StreamChunk] | None:
        """Return the chunks of the next piece; None at the end."""
        piece = await anext(stream, None)
        if piece is None:
            return None
        # The second is all that LiteLLM passes on of Gemini, whose streams are framed in any case.
        finish = stream.received_finish_reason or stream.intermittent_finish_reason
        chunks = [*reader.read(_event_of(piece, finish))]
        # LiteLLM invents a finish for a stream that just ended.
        if not finish and any(chunk.type == "finish" for chunk in chunks):
            if not reader.has_words and (kind := content_type(stream)) != EVENTS:
                raise ModelRefusedError(f"{self.model} {service_client.describe_answer(kind, '')}.")
            raise ModelUnavailableError(f"{self.model}: {CUT_OFF}")
        return chunks

    async def _read_whole(self, stream: Any, key: str | None) -> object:
        """Return the reply if `stream` is none: a whole completion is as good an answer."""
        kind = content_type(stream)
        if service_client.may_be_stream(kind):
            return stream
        body = await body_of(stream)
        if service_client.is_stream(body):
            return stream
        await stream.aclose()
        if (whole := completion_in(body)) is not None:
            return _Whole(whole)
        raise ModelRefusedError(f"{self.model} {service_client.describe_answer(kind, body, key)}.")

    async def _wait(self, where: Destination, pending: Awaitable[T]) -> T:
        """Await `pending` within the time limit; all its failures become ours."""
        try:
            async with asyncio.timeout(self._config.timeout):
                return await pending
        except Exception as error:
            failure = self._explain(error, where)
        raise failure


class _Whole:
    """A reply in one piece, as a stream."""

    intermittent_finish_reason = None

    def __init__(self, reply: JsonDict) -> None:
        self._pieces = [reply]
        choice = reply["choices"][0]
        fields = choice.get("provider_specific_fields") or {}
        word = fields.get("native_finish_reason") or choice.get("finish_reason") or "stop"
        choice["finish_reason"] = self.received_finish_reason = word

    async def __anext__(self) -> object:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()

    async def aclose(self) -> None:
        self._pieces.clear()


@types.coroutine
def close_if_given_up(
    call: Coroutine[asyncio.Future[object], None, T],
) -> Generator[object, object, T]:
    """Return the result of `call`; after a cancellation, close the coroutine of its thread.

    A thread cannot be cancelled. LiteLLM's returns a coroutine, the request itself; if that were
    only dropped, Python would warn in some later cell that it "was never awaited".
    """
    go_on = partial(call.send, None)
    prepared = False
    while not prepared:
        try:
            future = go_on()
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


def _close(future: asyncio.Future[object]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    if asyncio.iscoroutine(brought := future.result()):
        brought.close()
