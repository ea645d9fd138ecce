"""The messages of a server: filtered, repaired, throttled, and converted into tool results.

Small flaws are repaired before the SDK gets a message: it would refuse the whole.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream
from mcp.shared.exceptions import MCPError as ProtocolError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ipyagent.errors import MCPConnectionError
from ipyagent.json_types import JsonDict, object_of, parse_json
from ipyagent.kernel.displays import as_image
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services import find_failure, parse_object
from ipyagent.tools.json_schemas import clean

ReceivedItem = SessionMessage | Exception


class ReceiveStream(Protocol):
    """A stream that messages are read from."""

    async def receive(self) -> ReceivedItem:
        """Return the next message; raise EndOfStream where there is no more."""

    async def aclose(self) -> None:
        """Close it."""


TransportStreams = tuple[ReceiveStream, Any]
"""The stream to read from, and the SDK's to write to."""

MAX_TOOLS = 200
"""The maximum number of tools of one server; no model reads more."""


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


class FilteredMessages(ObjectReceiveStream[ReceivedItem]):
    """A server's messages, filtered for the SDK.

    `last_activity` is the time of the last one. The rate of the server's own requests is limited,
    because each becomes a task; those over the limit are dropped. `on_end` is called at the end.
    """

    def __init__(self, stream: ReceiveStream, on_end: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, on_end
        self._message_limit, self._request_limit = RateLimit(2000, 2000), RateLimit(100, 1)
        self.last_activity = time.monotonic()
        self.broken_tools: list[tuple[str, str]] = []
        """Tools with broken descriptions, since the list was last emptied."""

    async def receive(self) -> ReceivedItem:
        """Return the next message; raises EndOfStream."""
        while True:
            item = await self._next()
            await anyio.sleep(self._message_limit.take())
            if not isinstance(item, SessionMessage):
                return item
            self.last_activity = time.monotonic()
            if isinstance(item.message, JSONRPCRequest) and self._request_limit.take():
                continue
            if isinstance(item.message, JSONRPCResponse):
                self._drop_broken_tools(item.message.result)
                repair_result(item.message.result)
            return item

    async def _next(self) -> ReceivedItem:
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
        for each in map(repair_tool, tools[: MAX_TOOLS + 1]):
            try:
                validate_server_result("tools/list", VERSION, {"tools": [each]})
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


def describe_error(error: BaseException) -> str:
    """Return an error's message, taken out of the SDK's exception groups."""
    depth = 0
    while isinstance(error, BaseExceptionGroup) and depth < 20:
        error, depth = error.exceptions[0], depth + 1
    if isinstance(error, MCPConnectionError):
        return str(error)
    if isinstance(error, ProtocolError):
        # Servers also use that code for refusals.
        if (error.code, error.message) == (CONNECTION_CLOSED, "Connection closed"):
            return "it ended before it answered"
        return strip_escapes(error.message) or "it refused"
    if isinstance(error, ValidationError):
        return "its answer does not follow the protocol"
    return str(error) or type(error).__name__


_TOP = ("type", "properties", "required")

_OPTIONAL = {"title", "description", "outputSchema", "icons", "execution", "_meta"}
"""Parts of a tool's description that may be left out where they are broken."""

_LISTS = ("content", "tools")
_GREETING = {"protocolVersion", "serverInfo", "capabilities"}
_KNOWN = {
    *_LISTS,
    *_GREETING,
    *("structuredContent", "task", "tasks", "resultType"),
    *("supportedVersions", "nextCursor", "inputRequests"),
}
"""Fields by which the answers to methods are known."""

VERSION = "2025-11-25"
"""The protocol version by which a single tool or block is validated."""
OLDEST_VERSION = "2024-11-05"
"""The version of a server that names none."""


def repair_message(message: object) -> object:
    """Return a message whose error or result, if it is an answer, has the form of the protocol."""
    if not isinstance(message, dict) or "id" not in message:
        return message
    is_answer = "result" in message  # also one of null
    message = {"jsonrpc": "2.0", **_without_nulls(message)}
    if "error" in message:
        given = message["error"]
        fields = _without_nulls(given) if isinstance(given, dict) else {"message": given}
        code, text = fields.get("code"), fields.get("message", given)
        message["error"] = fields | {
            "code": code if isinstance(code, int) else INTERNAL_ERROR,
            "message": text if isinstance(text, str) else json.dumps(text, ensure_ascii=False),
        }
    elif is_answer:
        result = message.get("result", {})
        message["result"] = result if isinstance(result, dict) else {"content": result}
    return message


def repair_result(result: JsonDict) -> None:
    """Repair a result in place: the call has already been carried out."""
    for key in _LISTS:
        if result.get(key, ...) is None:  # as Go writes an empty list
            result[key] = []
    for key, value in [*result.items()]:
        if value is None or (key == "_meta" and not isinstance(value, dict)):
            del result[key]
    if type(page := result.get("nextCursor", "")) is not str:
        result["nextCursor"] = str(page or "")
    if result.keys() & _GREETING and "supportedVersions" not in result:
        _repair_greeting(result)
    if not result.keys() & _KNOWN:  # the answer to a call, in a form of the server's own
        own = {key: value for key, value in result.items() if key not in ("isError", "_meta")}
        result["content"] = [own] if own else []
    if "content" not in result and "structuredContent" not in result:
        return
    content = result.get("content", [])
    blocks = content if isinstance(content, list) else [content]
    if not isinstance(result.get("structuredContent", {}), dict):
        blocks = blocks or [result["structuredContent"]]
        del result["structuredContent"]
    result["content"] = [_repair_block(each) for each in blocks]


def _repair_greeting(result: JsonDict) -> None:
    """Add what a server left out about itself; one that announces nothing may have tools."""
    if not isinstance(result.get("protocolVersion"), str):
        result["protocolVersion"] = OLDEST_VERSION
    info, offered = result.get("serverInfo"), result.get("capabilities")
    named = _without_nulls(info) if isinstance(info, dict) else {}
    result["serverInfo"] = {"name": "", "version": "", **named}
    listed = offered.items() if isinstance(offered, dict) else ()
    announced = {k: object_of(v) for k, v in listed if v not in (None, False)}
    result["capabilities"] = announced or {"tools": {}}


def repair_tool(tool: object) -> Any:
    """Return a tool's description, the top of its schema as the protocol insists on it."""
    if not isinstance(tool, dict):
        return tool
    tool = _without_nulls(tool)
    schema = tool.get("inputSchema")
    if schema is True:
        schema = {"additionalProperties": True}
    if schema == []:  # as PHP writes an empty object
        schema = {}
    if tool.get("annotations") == []:
        del tool["annotations"]
    if isinstance(schema, dict):
        top = {key: each for key, each in clean(schema).items() if key in _TOP}
        if "object" in top.get("type", ()):
            top["type"] = "object"
        others = {k: v for k, v in schema.items() if k not in _TOP and k != "$schema"}
        tool["inputSchema"] = {"type": "object", **_without_nulls(others), **top}
    return tool


def _repair_block(block: object) -> Any:
    """Return the block; one of an unknown type becomes text."""
    if isinstance(block, dict):
        block = _without_nulls(block)
        if (kind := block.get("type")) in ("image", "audio"):
            block = {"mimeType": block.get("mime_type", f"{kind}/*"), **block}
        try:
            validate_server_result("tools/call", VERSION, {"content": [block]})
        except ValidationError:
            pass
        else:
            return block
    text = block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)
    return {"type": "text", "text": text}


def _without_nulls(values: JsonDict) -> JsonDict:
    return {key: value for key, value in values.items() if value is not None}


TRACE_ID = "ipyagent/trace_id"
"""The key in a call's `_meta` that holds the run's trace id."""


def call_tool(
    name: str, arguments: JsonDict, trace_id: str | None = None
) -> tuple[Any, type[types.CallToolResult]]:
    """Return a request for a call; missing arguments are not sent."""
    fields: JsonDict = {"name": name, "arguments": arguments}
    if trace_id:
        fields["_meta"] = {TRACE_ID: trace_id}
    params = types.CallToolRequestParams.model_validate(fields)
    return types.CallToolRequest(params=params), types.CallToolResult


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
    told = value if is_wrapped else data
    return told in (values, texts, *values, *texts)


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
