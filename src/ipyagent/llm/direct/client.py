"""The client of services that speak OpenAI's or Anthropic's format: most of them.

Proxies and certificates are those of the environment, at the time of the request: HTTPS_PROXY,
HTTP_PROXY, ALL_PROXY, NO_PROXY; SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

import certifi
import httpx

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelError, ModelRefusedError, ModelUnavailableError
from ipyagent.json_types import object_of, parse_json
from ipyagent.llm import modelmap, service_client
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.destinations import Destination, Route, complete_address, insists_on_responses
from ipyagent.llm.direct import ANSWER, LENGTH, Demand, Format, Reader, Target, objects_of
from ipyagent.llm.direct.chat import ChatFormat
from ipyagent.llm.direct.messages import MessagesFormat
from ipyagent.llm.direct.reading import (
    Deadline,
    EventSplitter,
    ReadAhead,
    check_status,
    iterate_body,
    once,
    read_body,
    read_chunks,
)
from ipyagent.llm.direct.responses import ResponsesFormat
from ipyagent.llm.error_mapping import CUT_OFF, refuses_length
from ipyagent.llm.service_client import ServiceClient, trace_headers
from ipyagent.llm.service_error import ServiceError, find_error
from ipyagent.schema import StreamChunk, TokenUsage

_REFUSED = {400, 422}
_OF_TEMPLATE = {*_REFUSED, 0, 500}
"""Statuses with which servers refuse what a model's template cannot express."""
_OF_HISTORY = {*_OF_TEMPLATE, 404, 413, 415}
"""Statuses with which services refuse a part of a conversation; 0 stands for none."""
_WANTED = {
    Demand.ALL_THOUGHTS: re.compile(
        r"(?i)(reasoning_content|content\[\]\.thinking)\W"
        r".*(missing|required|must be (passed|provided|included|set))"
        r"|missing.*reasoning_content"
    ),
    Demand.ANSWERED_RESULTS: re.compile(
        r"(?i)unexpected role \W?user\W? after role \W?tool|roles must alternate"
    ),
    Demand.SIGNED_CALLS: re.compile(
        r"(?i)missing.{1,9}thought[_ ]?signature|thought[_ ]?signature\W.{0,20}(missing|required)"
    ),
    Demand.NO_EFFORT: re.compile(r"(?i)set \W?reasoning_effort\W? to \W?none"),
    Demand.RESPONSES: re.compile(r"(?i)\bonly\b.{1,30}v1/responses"),
}
"""What some services want of requests, and the words in which they demand it."""
LISTING_SECONDS = 3.0
_EVENTS = "text/event-stream"
_COST = "x-litellm-response-cost"
"""The price of an answer that is no stream, by LiteLLM's proxy."""
_LENGTHS = {"content-length", "transfer-encoding"}
"""Headers of a body whose end is known: without them, it may have been cut off."""
_OPTIONAL = {
    "stream_options": "stream_options",
    "tool_choice": "tool_choice",
    "cache_control": "cache_control",
    "include": "ncrypted content is not",
}
"""Settings without which a service can answer as well, and the words in which it refuses them."""


class DirectClient(ServiceClient):
    """A model whose service is asked over HTTP, without any library in between."""

    def __init__(
        self,
        model: str,
        route: Route,
        config: LLMConfig | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        start: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, config, environ=environ, start=start)
        self._route = route
        self._formats: dict[tuple[object, ...], Format] = {}
        self._omitted: frozenset[str] = frozenset()
        self._demands: frozenset[Demand] = frozenset()

    @property
    def _identity(self) -> tuple[object, ...]:
        return *super()._identity, self._route

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars by the map; no setting has to be there for it."""
        return self._price(usage, own_server=self._route.provider.compatible)

    @property
    def destination(self) -> Destination:
        """The address and key of a request; raises ModelRefusedError if a setting is missing."""
        return self._destination(self._route.provider_name)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request`, piece by piece."""
        where, request = self.destination, self._takeable(request)
        try:
            async with aclosing(self._ask(request, where)) as batches:
                async for chunks in batches:
                    for chunk in chunks:
                        yield chunk
            self._keep_left_out()
            return
        except httpx.TimeoutException:
            failure = self._explain(TimeoutError(), where)
        except Exception as error:
            if isinstance(error, ServiceError):
                self._adapt(error, request)  # for the next attempt
            failure = self._leave_out_refusal(error, request, where) or self._explain(error, where)
        raise failure

    def _format(self, where: Destination) -> Format:
        """Return the format, which knows the conversation so far."""
        key = (where.base, self.vision, self._refused, self._demands)
        if key not in self._formats:
            target = Target(
                self._route.id,
                self._route.provider_at(where.base),
                self.vision,
                modelmap.longest(self._facts),
                self._signer_at(where),
                self._refused,
                self._demands,
            )
            kind: type[Format] = ChatFormat
            if target.provider.format == "messages":
                kind = MessagesFormat
            elif Demand.RESPONSES in self._demands or insists_on_responses(
                self._route, where.base, self._facts
            ):
                kind = ResponsesFormat
            self._formats = {key: kind(target)}
        return self._formats[key]

    async def _ask(
        self, request: ModelRequest, where: Destination
    ) -> AsyncGenerator[Iterable[StreamChunk], None]:
        """Yield the chunks of the reply as they arrive, several at a time."""
        while True:
            form, deadline = self._format(where), Deadline(self._config.timeout)
            takes = form.takes_answer(request) and ANSWER not in self._omitted
            asked = request if takes else request.answered_by_tool()
            try:
                async with AsyncExitStack() as stack:
                    async with deadline.limit():
                        sent = self._send(asked, form, where)
                        response = await stack.enter_async_context(sent)
                        await check_status(response)
                    reading = self._read(response, form.reader(), deadline, where.key)
                    async with aclosing(reading) as batches:
                        async for chunks in batches:
                            yield chunks
                return
            except ServiceError as error:
                if not self._adapt(error, request):
                    raise

    def _adapt(self, error: ServiceError, request: ModelRequest) -> bool:
        """Send what a service demands, and not what it refuses; return whether that is new."""
        demands, omitted = self._demands, self._omitted
        if error.status_code in _OF_HISTORY:
            wanted = {name for name, words in _WANTED.items() if words.search(error.message)}
            self._demands |= wanted
        if error.status_code in _REFUSED and (refused := _refused_setting(error, request)):
            self._omitted |= {refused}
        return (self._demands, self._omitted) != (demands, omitted)

    def _leave_out_refusal(
        self, error: Exception, request: ModelRequest, where: Destination
    ) -> ModelError | None:
        """Leave out what the service refuses of the conversation; None if that is nothing."""
        if not isinstance(error, ServiceError) or error.status_code not in _OF_HISTORY:
            return None
        body = self._format(where).encode(request, stream=False, omitted=self._omitted)
        sent = json.loads(body)
        items = objects_of(sent.get("messages", sent.get("input")))
        return self._leave_out(error, request, items, where)

    def _send(
        self, request: ModelRequest, form: Format, where: Destination
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Return the request, to be entered; leaving it closes the connection or keeps it."""
        return open_answer(
            "POST",
            complete_address(where.base or "", self._route.provider.path, form.path),
            content=form.encode(request, stream=self._config.stream, omitted=self._omitted),
            headers=self._headers(form, where) | trace_headers(request),
            # Reading has a deadline of its own: where both end it, httpx leaves its socket open.
            timeout=httpx.Timeout(self._config.timeout, read=None),
        )

    def _headers(self, form: Format, where: Destination) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": "ipyagent",
            **form.headers,
        }
        if where.key:
            name = self._route.provider.key_header
            headers[name] = f"Bearer {where.key}" if name == "authorization" else where.key
        return headers

    async def list_models(self) -> list[str]:
        """Return the models that the service lists, those that the map knows first."""
        where = self.destination
        form = self._format(where)
        path = f"{form.path.partition('/v1')[1]}/models"
        address = complete_address(where.base or "", self._route.provider.path, path)
        headers = self._headers(form, where)
        try:
            async with (
                asyncio.timeout(LISTING_SECONDS),
                open_answer("GET", address, headers=headers) as response,
            ):
                await check_status(response)
                entries = object_of(parse_json(await read_body(response))).get("data")
        except Exception as error:
            failure = self._explain(error, where)
        else:
            prefix = self.model.removesuffix(self._route.name)
            names = [f"{prefix}{each['id']}" for each in objects_of(entries) if each.get("id")]
            return sorted(names, key=lambda name: not modelmap.facts_of(name))
        raise failure

    async def _read(
        self, response: httpx.Response, reader: Reader, deadline: Deadline, key: str | None
    ) -> AsyncGenerator[Iterable[StreamChunk], None]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        reader.cost_usd = service_client.read_cost(response.headers.get(_COST))
        if not self._config.stream or not service_client.may_be_stream(kind):
            async with deadline.limit():
                body = await read_body(response)
            if not service_client.is_stream(body.decode("utf-8", "replace")):
                yield self._read_body(body, kind, reader, key)
                return
            pieces: AsyncIterator[bytes] = once(body)
        else:
            pieces = iterate_body(response)
        splitter, beginning = EventSplitter(), b""
        async with ReadAhead(pieces) as ahead:
            while (data := await deadline.take(ahead, reader)) is not None:
                if not splitter.has_events and len(beginning) < splitter.most:
                    beginning += data
                if events := splitter.feed(data):
                    yield deadline.renew_by(read_chunks(events, reader))
            yield read_chunks(splitter.end(), reader)
        if reader.may_end and not reader.was_finished:
            yield [StreamChunk(type="finish", data="stop")]
        elif not reader.was_finished:
            text = beginning.decode("utf-8", "replace")
            is_bounded = kind != _EVENTS or not _LENGTHS.isdisjoint(response.headers)
            if not text.strip() and not is_bounded:
                raise ModelUnavailableError(
                    f"{self.model} {service_client.describe_answer(kind, '')}."
                )
            if not splitter.has_events and not service_client.is_stream(text):
                yield self._read_body(beginning, kind, reader, key)
                return
            reason = reader.reason or find_error(parse_json(splitter.unframed))
            if reason is not None:
                raise ServiceError.in_stream(reason, is_whole=not reader.has_words)
            raise ModelUnavailableError(f"{self.model}: {CUT_OFF}")
        yield self._end(reader)

    def _read_body(
        self, body: bytes, kind: str, reader: Reader, key: str | None
    ) -> Iterator[StreamChunk]:
        """Yield the chunks of a reply that came in one piece."""
        parsed = parse_json(body)
        chunks = reader.read_whole(object_of(parsed))
        if chunks is None and (error := find_error(None if isinstance(parsed, str) else parsed)):
            raise ServiceError.in_stream(error, is_whole=True)
        if chunks is None:
            text = service_client.describe_answer(kind, body.decode("utf-8", "replace"), key)
            raise ModelRefusedError(f"{self.model} {text}.")
        yield from chunks
        if not reader.is_finished:  # a body that is whole is no reply that was cut off
            yield StreamChunk(type="finish", data="stop")
        yield from self._end(reader)

    def _end(self, reader: Reader) -> Iterator[StreamChunk]:
        yield from reader.end()
        if usage := reader.usage:
            cost = self.cost(usage)
            cost = reader.cost_usd if cost is None else cost
            yield StreamChunk(type="usage", usage=usage, cost_usd=cost)


def _refused_setting(error: ServiceError, request: ModelRequest) -> str | None:
    """Return the setting that a service refuses and that it can do without."""
    if request.max_tokens is not None and refuses_length(error.message):
        return LENGTH
    if service_client.refuses_format(request, error.message):
        return ANSWER
    return next((name for name, words in _OPTIONAL.items() if words in error.message), None)


IDLE = 60.0
"""Seconds that an idle connection is kept; one that is silent for longer may have died unseen."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_HERE = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""Servers on this machine: no proxy has to carry what is sent there, or may read it."""

_ORIGIN = "ipyagent.origin"

MOST = 16
"""Requests of a client at once: httpcore compares all of its connections at each."""


@dataclass
class Client:
    """A client, and the number of its requests that have not ended."""

    http: httpx.AsyncClient
    open: int = 0


_Environment = tuple[str | None, ...]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Environment, list[Client]]] = (
    WeakKeyDictionary()
)


@asynccontextmanager
async def open_answer(
    method: Literal["GET", "POST"], address: str, **request: Any
) -> AsyncIterator[httpx.Response]:
    """Send a request; leaving its answer closes the connection or keeps it."""
    client = free_client()
    client.open += 1
    try:
        async with client.http.stream(method, address, **request) as response:
            yield response
    finally:
        client.open -= 1


def free_client() -> Client:
    """Return the first of the running loop's clients that has room."""
    environments = _clients.setdefault(asyncio.get_running_loop(), {})
    clients = environments.setdefault(_read_environment(), [])
    for each in clients:
        if each.open < MOST:
            return each
    http = httpx.AsyncClient(
        verify=trust(_bundle(), os.environ.get("SSL_CERT_DIR")),
        limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE),
        follow_redirects=True,
        event_hooks={"request": [_stay_at_origin]},
        mounts=dict.fromkeys(_HERE),
    )
    clients.append(client := Client(http))
    return client


async def close() -> None:
    """Close the running loop's connections."""
    for clients in _clients.pop(asyncio.get_running_loop(), {}).values():
        for each in clients:
            await each.http.aclose()


async def _stay_at_origin(request: httpx.Request) -> None:
    """Refuse a redirection to another scheme, host or port: key and conversation stay here."""
    url = request.url
    origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
    first = request.extensions.setdefault(_ORIGIN, origin)
    if first != origin:
        raise ModelRefusedError(
            f"{first} redirects to {origin}; neither the key nor the conversation was sent there."
        )


@lru_cache(maxsize=4)
def trust(bundle: str | None, folder: str | None) -> ssl.SSLContext:
    """Return a context that trusts a file's or folder's certificates, without both certifi's."""
    if not bundle and not folder:
        bundle = certifi.where()
    return ssl.create_default_context(cafile=bundle or None, capath=folder or None)


def prepare() -> None:
    """Prepare the first request in advance: this module's import, and the certificates."""
    trust(_bundle(), os.environ.get("SSL_CERT_DIR"))


def _bundle() -> str | None:
    return next((value for name in _BUNDLES if (value := os.environ.get(name))), None)


def _read_environment() -> _Environment:
    proxies = (os.environ.get(n) or os.environ.get(n.upper()) for n in _PROXIES)
    return (*proxies, _bundle(), os.environ.get("SSL_CERT_DIR"))
