"""One connection to an MCP server through the official SDK, with limits on everything.

A server at an address speaks streamable HTTP, or the older SSE. The SDK follows redirects within
the server's own origin only. This module adds the limits that the SDK lacks, and the credentials,
which go to that origin alone. Answers are converted into tool results.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream
from mcp import Client
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS
from mcp.shared.exceptions import MCPError as ProtocolError
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_server_result
from pydantic import BaseModel, ValidationError

from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPConnectionError, MCPToolCallError
from ipyagent.json_types import JsonDict, JsonMapping, parse_json
from ipyagent.kernel.displays import as_image
from ipyagent.plaintext import excerpt, strip_escapes
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services import find_failure, parse_object
from ipyagent.services.mcp import transports

MAX_PAGES = 50

LOST = "it ended the connection"

_SESSION_ENDED = (types.INVALID_REQUEST, "Session terminated")
"""The SDK's report that the server has forgotten the session."""

_LAST_LINES, _LAST_CHARACTERS = 6, 1_000
"""The end of a server's last output that is shown, in lines and in characters."""
_DESCRIBED = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
"""Parts of a tool's description that the user approves."""
_MOST_DETAILS = 1_000  # characters of what an error holds beside its message
_NO_MESSAGE = "Server returned an error response"

_Result = TypeVar("_Result", bound=BaseModel)
_Mode = Literal["legacy", "auto"]

# Without a handler, the SDK's log of a server's faults would be printed in the user's cell.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Listing:
    """The tools of a server, and what is wrong with others.

    Tools are described by their names; of two with the same name, by the first.
    """

    tools: dict[str, JsonMapping]
    problems: tuple[str, ...] = ()


MAX_TOOLS = 200
"""The maximum number of tools of one server; no model reads more."""

_OPTIONAL = {"title", "description", "outputSchema", "icons", "execution", "_meta"}
"""Parts of a tool's description that may be left out where they are broken."""


class RateLimit:
    """A token bucket: `at_once` tokens immediately, then `per_second`."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._capacity, self._per_second = at_once, per_second
        self._available, self._updated = float(at_once), time.monotonic()

    def take(self) -> float:
        """Take a token; return the seconds until it is available."""
        now = time.monotonic()
        self._available = max(
            -1, min(self._capacity, self._available + (now - self._updated) * self._per_second) - 1
        )
        self._updated = now
        return max(0.0, -self._available / self._per_second)


class FilteredMessages(ObjectReceiveStream[transports.ReceivedItem]):
    """A server's messages, filtered for the SDK.

    `last_activity` is the time of the last one. The rate of the server's own requests is limited,
    because each becomes a task; those over the limit are dropped. `on_end` is called at the end.
    """

    def __init__(self, stream: transports.ReceiveStream, on_end: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, on_end
        self._message_limit, self._request_limit = RateLimit(2000, 2000), RateLimit(100, 1)
        self.last_activity = time.monotonic()
        self.broken_tools: list[tuple[str, str]] = []
        """Tools with broken descriptions, since the list was last emptied."""

    async def receive(self) -> transports.ReceivedItem:
        """Return the next message; raises EndOfStream."""
        while True:
            item = await self._next()
            await anyio.sleep(self._message_limit.take())
            if not isinstance(item, SessionMessage):
                return item
            self.last_activity = time.monotonic()
            if isinstance(item.message, types.JSONRPCRequest) and self._request_limit.take():
                continue
            if isinstance(item.message, types.JSONRPCResponse):
                self._drop_broken_tools(item.message.result)
                transports.repair_result(item.message.result)
            return item

    async def _next(self) -> transports.ReceivedItem:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise

    def _drop_broken_tools(self, result: JsonDict) -> None:
        """Remove broken tools from a list of tools: the SDK would refuse the whole list."""
        if not isinstance(tools := result.get("tools"), list):
            return
        valid = []
        for each in map(transports.repair_tool, tools[: MAX_TOOLS + 1]):
            try:
                validate_server_result("tools/list", transports.VERSION, {"tools": [each]})
                valid.append(each)
            except ValidationError as error:
                places = [found["loc"][2:] for found in error.errors()]
                if isinstance(each, dict) and all(p and p[0] in _OPTIONAL for p in places):
                    left = {str(place[0]) for place in places}
                    valid.append({k: value for k, value in each.items() if k not in left})
                    continue
                name = each.get("name") if isinstance(each, dict) else None
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"][2:]))
                reason = f"{where}: {first['msg']}" if where else first["msg"]
                self.broken_tools.append((str(name or "without a name")[:100], reason))
        result["tools"] = valid

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


class _ActiveSession(NamedTuple):
    """The client of an open session, and the messages that it receives."""

    client: Client
    messages: FilteredMessages


class Connection:
    """A connection to a server; everything is called in the servers' thread."""

    def __init__(self, config: MCPServerConfig, environ: Mapping[str, str], folder: Path) -> None:
        self._config, self._environ, self._folder = config, environ, folder
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._session: _ActiveSession | None = None
        self._server_transport: transports.Program | transports.LimitedTransport | None = None

    @property
    def is_alive(self) -> bool:
        """True if it can take requests."""
        return self._session is not None and not self._stop.is_set()

    async def open(self) -> None:
        """Connect; raises MCPConnectionError. A caller that stops waiting must close it."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready))
        await ready

    async def close(self) -> None:
        """Disconnect, and end the server's process."""
        connected = self._session is not None
        self._stop.set()
        if self._scope is not None and not connected:
            self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """End the server's process at once, from any thread."""
        if isinstance(self._server_transport, transports.Program):
            self._server_transport.kill()

    async def list_tools(self) -> Listing:
        """Return the server's current listing; raises MCPError."""
        client, messages = self._require_session()
        capabilities = client.server_capabilities
        messages.broken_tools.clear()
        tools, more = await self._fetch_tools() if capabilities.tools else ([], False)
        problems = [
            f"the description of its tool {strip_escapes(name)!r} is broken ({reason})"
            for name, reason in messages.broken_tools[:5]
        ]
        if more:
            problems.append(
                f"it offers more than {MAX_TOOLS} tools or {MAX_PAGES} pages of them; the first "
                "are used"
            )
        described: dict[str, JsonMapping] = {}
        for each in tools:
            if each.name not in described:
                described[each.name] = each.model_dump(
                    mode="json", by_alias=True, exclude_none=True, include=_DESCRIBED
                )
        return Listing(described, tuple(problems))

    async def call(
        self, name: str, arguments: JsonDict, reads: bool, trace_id: str | None
    ) -> ToolResult:
        """Return the result of a call; missing arguments are not sent. Raises as `_ask` does."""
        fields: JsonDict = {"name": name, "arguments": arguments}
        fields |= {"_meta": {transports.TRACE_ID: trace_id}} if trace_id else {}
        params = types.CallToolRequestParams.model_validate(fields)
        answer = await self._ask(types.CallToolRequest(params=params), types.CallToolResult)
        return await asyncio.to_thread(convert_result, answer, reads=reads)

    async def _ask(self, request: Any, result_type: type[_Result]) -> _Result:
        """Return the server's answer; raises MCPToolCallError for a refusal or too long a silence.

        Raises MCPConnectionError if the connection is lost.
        """
        client, messages = self._require_session()
        work = asyncio.ensure_future(client.session.send_request(request, result_type))
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await self._wait_for_reply(work, messages)
            return work.result()
        except ProtocolError as error:
            if not self.is_alive or (error.code, error.message) == _SESSION_ENDED:
                self._stop.set()
                raise MCPConnectionError(self.describe_problem(LOST)) from None
            raise MCPToolCallError(self._refusal(error)) from None
        except ValidationError:
            raise MCPToolCallError(
                "its answer does not follow the protocol, or asks this side for something, "
                "which is declined"
            ) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError):
            raise MCPConnectionError(self.describe_problem(LOST)) from None
        finally:
            work.cancel()  # the SDK informs the server

    async def _wait_for_reply(self, work: asyncio.Future[Any], messages: FilteredMessages) -> None:
        """Wait for the reply; raises MCPToolCallError after too long a silence."""
        silence, begun = self._config.read_timeout, time.monotonic()
        while not work.done():
            left = max(begun, messages.last_activity) + silence - time.monotonic()
            if left <= 0:
                raise MCPToolCallError(f"it gave no sign of life for {silence:g} s")
            await asyncio.wait([work], timeout=left)

    async def _fetch_tools(self) -> tuple[list[types.Tool], bool]:
        """Return its tools, at most MAX_TOOLS, and whether there are more."""
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            page = await self._ask(request, types.ListToolsResult)
            tools += page.tools
            before, cursor = cursor, page.next_cursor or None
            if cursor == before:
                cursor = None  # the server repeats its cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                break
        return tools[:MAX_TOOLS], cursor is not None or len(tools) > MAX_TOOLS

    def _require_session(self) -> _ActiveSession:
        if self._session is None or self._stop.is_set():
            raise MCPConnectionError(self.describe_problem(LOST))
        return self._session

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        """Keep the connection open in one task from beginning to end: scopes belong to a task."""
        try:
            with anyio.CancelScope() as self._scope:
                await self._connect(ready)
            problem = "connecting was cancelled"
        except Exception as error:  # a server can make a library raise anything
            problem = describe_error(error)
        finally:
            self._session = None
            self._stop.set()
        if not ready.done():
            ready.set_exception(MCPConnectionError(self.describe_problem(problem)))

    async def _connect(self, ready: asyncio.Future[None]) -> None:
        """Try the usual protocol first, then newer and older ones if the server refuses it."""
        mode: _Mode = "legacy"
        sse = self._config.transport == "sse"
        usual: tuple[Exception, transports.Program | transports.LimitedTransport | None] | None = (
            None
        )
        while True:
            try:
                async with self._open_transport(sse=sse) as (streams, self._server_transport):
                    await self._run_session(streams, mode, ready)
                return
            except Exception as error:  # the SDK's task groups wrap their errors
                if ready.done():
                    raise
                fallback = self._fallback(error, mode, sse=sse)
                if fallback is None:
                    error, self._server_transport = usual or (error, self._server_transport)
                    raise error from None
                if fallback[1] and not sse:  # the error of the usual transport says more
                    usual = error, self._server_transport
                mode, sse = fallback

    async def _run_session(
        self, streams: transports.TransportStreams, mode: _Mode, ready: asyncio.Future[None]
    ) -> None:
        messages = FilteredMessages(streams[0], self._stop.set)
        transport = contextlib.nullcontext((messages, streams[1]))
        async with Client(transport, mode=mode, cache=None) as client:
            self._session = _ActiveSession(client, messages)
            if not ready.done():
                ready.set_result(None)
            await self._stop.wait()

    def _fallback(
        self, error: BaseException, mode: _Mode, *, sse: bool
    ) -> tuple[_Mode, bool] | None:
        """Return the protocol and transport to try next; None if there is nothing else to try."""
        error = _first_of(error)
        code = error.code if isinstance(error, ProtocolError) else None
        self._stop.clear()
        if mode == "legacy" and code == types.UNSUPPORTED_PROTOCOL_VERSION:
            return "auto", sse
        status = getattr(self._server_transport, "status", None)
        if status in (400, 404, 405) and not sse and self._config.transport is None:
            return "legacy", True
        return ("auto", sse) if mode == "legacy" and code == types.METHOD_NOT_FOUND else None

    def _open_transport(
        self, *, sse: bool
    ) -> AbstractAsyncContextManager[
        tuple[transports.TransportStreams, transports.Program | transports.LimitedTransport]
    ]:
        config = self._config
        if config.url is not None:
            return transports.connect_http(config.url, config, self._environ, sse=sse)
        env = {k: self._environ[k] for k in DEFAULT_INHERITED_ENV_VARS if k in self._environ}
        env |= {name: value.get_secret_value() for name, value in config.env.items()}
        cwd = self._folder / (config.cwd or "")
        return transports.start_program([config.command or "", *config.args], env, cwd)

    def _refusal(self, error: ProtocolError) -> str:
        """Return the server's message, or the SDK's if the answer was not a message."""
        if error.message == _NO_MESSAGE:
            return self.describe_problem(error.message)
        details = "" if error.data is None else json.dumps(error.data, ensure_ascii=False)
        words = ": ".join(filter(None, [error.message, excerpt(details, _MOST_DETAILS)]))
        return strip_escapes(words) or "it refused"

    def describe_problem(self, problem: str) -> str:
        """Return the problem, with the server's own report of it."""
        match self._server_transport:
            case transports.Program(problem=str(own_problem)):
                return own_problem
            case transports.Program(stderr_tail=tail) if tail:
                return f"{problem}; its last output: {_without_frames(strip_escapes(tail))}"
            case transports.LimitedTransport(status=int(status)):
                return f"{problem} (HTTP {status})"
        return problem


def _without_frames(output: str) -> str:
    """Return the last lines of an output that are not indented, as frames of a traceback are."""
    lines = [line for line in output.splitlines() if line.strip() and not line[0].isspace()]
    return ("\n".join(lines[-_LAST_LINES:]) or output.strip())[-_LAST_CHARACTERS:]


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe_error(error: BaseException) -> str:
    """Return an error's message, taken out of the SDK's exception groups."""
    error = _first_of(error)
    if isinstance(error, MCPConnectionError):
        return str(error)
    if isinstance(error, ProtocolError):
        # Servers also use that code for refusals.
        if (error.code, error.message) == (types.CONNECTION_CLOSED, "Connection closed"):
            return "it ended before it answered"
        return strip_escapes(error.message) or "it refused"
    if isinstance(error, ValidationError):
        return "its answer does not follow the protocol"
    return str(error) or type(error).__name__


_MAX_TEXT = 2_000_000  # characters
_MAX_IMAGES = 8
_TEXTS = ("text/", "application/json", "application/xml")


def convert_result(answer: types.CallToolResult, *, reads: bool = False) -> ToolResult:
    """Return the result of a call.

    The call failed if the server marks the answer as an error, or reports a failure (see
    `find_failure`) in its structured content, or in a text that is a JSON object.
    """
    texts, images = _convert_blocks(answer.content)
    data = answer.structured_content
    if data is not None and not _hold_data(texts, data):
        texts.append(json.dumps(data, ensure_ascii=False))
    text = _join_texts(texts)
    if answer.is_error:
        return ToolResult(
            success=False,
            error=text or "the server reported an error without a message",
            images=images,
        )
    body = data if data is not None else text
    failure = find_failure(parse_object(body) if isinstance(body, str) else body, reads=reads)
    return ToolResult(success=not failure, output=text, error=failure, images=images)


def _hold_data(texts: list[str], data: JsonDict) -> bool:
    """Return whether the texts are the structured content: as JSON, or one text for each value."""
    text = "".join("".join(texts).split())
    if not data:
        return bool(text)
    if any("".join(json.dumps(data, ensure_ascii=a).split()) in text for a in (True, False)):
        return True
    values = [parse_json(each) for each in texts]
    name, value = next(iter(data.items()))
    # One value is often in an object only because the content has to be one.
    is_wrapped = len(data) == 1 and (name == "result" or isinstance(value, str | list | dict))
    content = value if is_wrapped else data
    return content in (values, texts, *values, *texts)


def _join_texts(texts: Iterable[str]) -> str:
    text = "\n".join(filter(None, texts))
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}\n… {len(text) - _MAX_TEXT:,} more characters were left out"


def _convert_blocks(blocks: Iterable[object]) -> tuple[list[str], tuple[ImageContent, ...]]:
    texts: list[str] = []
    images: list[ImageContent] = []
    for block in blocks:
        for each in _convert_block(block, keep_image=len(images) < _MAX_IMAGES):
            if isinstance(each, str):
                texts.append(each)
            else:
                images.append(each)
    return texts, tuple(images)


def _convert_block(block: object, *, keep_image: bool) -> Iterator[str | ImageContent]:
    match block:
        case types.TextContent():
            yield block.text
        case types.ImageContent():
            yield _convert_image(block.mime_type, block.data, keep_image)
        case types.AudioContent():
            yield _omission_note("sound", block.mime_type, block.data)
        case types.ResourceLink():
            yield f"[resource {block.uri}: {block.title or block.name}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as text):
            yield f"[resource {text.uri}]\n{text.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            yield f"[resource {blob.uri}]"
            kind = blob.mime_type or "bytes"
            decoded = _decode_text(blob.blob) if kind.startswith(_TEXTS) else None
            yield decoded or _convert_image(kind, blob.blob, keep_image)
        case _:
            yield f"[{type(block).__name__}]"


def _convert_image(kind: str, data: str, keep: bool) -> str | ImageContent:
    is_image = kind.startswith("image/")
    image = as_image(data) if keep and is_image else None
    return image or _omission_note("a picture" if is_image else "a file", kind, data)


def _decode_text(data: str) -> str | None:
    try:
        return base64.b64decode(data).decode()
    except ValueError:
        return None


def _omission_note(label: str, kind: str, data: str) -> str:
    return f"[{label}, {kind}, {len(data) * 3 // 4:,} bytes: not shown]"
