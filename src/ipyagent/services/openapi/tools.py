"""The tools of services: one for each operation if there are few, and one for any request.

An approved request is sent once and nowhere else, and its reply converted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from ipyagent.digests import digest_text
from ipyagent.errors import AgentError, ConfigError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.displays import as_image
from ipyagent.phrases import ellipsize, limit_lines
from ipyagent.plaintext import visible
from ipyagent.redaction import HIDDEN
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services import find_failure, parse_object
from ipyagent.services.openapi.operations import MAX_TYPED, Operation, Service
from ipyagent.services.openapi.request_builder import (
    PreparedRequest,
    prepare_operation,
    prepare_request,
)
from ipyagent.services.openapi.transport import AddressGuard, Resolve, ServiceReply, connect
from ipyagent.telemetry import TRACE_HEADER, current_trace_id
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import COMMAND, Tool, Where, find_command, tool

_SHORTEST_SECRET = 8


def make_guard(service: Service, resolve: Resolve) -> AddressGuard:
    """Return a guard that allows public addresses and those at registration."""
    return AddressGuard(frozenset(map(ip_address, service.known or ())), resolve)


def build_headers(service: Service, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the authentication headers; raises MCPToolCallError for an unset variable."""
    headers = {name: value.get_secret_value() for name, value in service.secrets.items()}
    for name, variable in service.variables.items():
        value = environ.get(variable, "").strip()
        if not value:
            raise MCPToolCallError(
                f"{service.name} needs the environment variable {variable}, which is not set; "
                f"set it, for instance with os.environ[{variable!r}] = getpass.getpass()"
            )
        bearer = name == "Authorization" and service.token_env == variable
        headers[name] = f"Bearer {value}" if bearer else value
    for name, value in headers.items():
        if not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value):
            source = service.variables.get(name, "the settings")
            raise MCPToolCallError(
                f"{service.name}: the value for {name} from {source} is not valid in a header"
            )
    return headers


async def send(
    request: PreparedRequest, environ: Mapping[str, str], resolve: Resolve
) -> ToolResult:
    """Send the request. Without success, as for a redirect, the result is a failure.

    Nothing is sent again, nor to another address.
    """
    service = request.service
    auth_headers = build_headers(service, environ)
    guard, total = make_guard(service, resolve), service.execute_timeout
    headers = {**request.headers, **auth_headers}
    if trace_id := current_trace_id():
        names = {name.lower() for name in headers}
        headers |= {} if TRACE_HEADER.lower() in names else {TRACE_HEADER: trace_id}
    try:
        async with connect(guard, connect=service.connect_timeout, total=total) as connection:
            reply = await connection.send(request.method, request.url, headers, request.body)
    except AgentError as error:
        is_unknown = isinstance(error, MCPToolCallError) and request.method != "GET"
        outcome = ". It is not known whether it was carried out" if is_unknown else ""
        raise type(error)(f"{service.name}: {error}{outcome}") from None
    values = [each.removeprefix("Bearer ") for each in auth_headers.values()]
    secrets = [each for each in values if len(each) >= _SHORTEST_SECRET]
    return as_result(request, reply, secrets)


_MAX_PRETTY = 1_000_000
_MAX_ERROR = 1_500
_MAX_HEADER = 1_000
_ENCODINGS = {
    *("utf-8", "us-ascii", "utf-16", "utf-16le", "utf-16be", "koi8-r", "big5", "gbk", "gb2312"),
    *("gb18030", "shift_jis", "euc-jp", "euc-kr", "windows-31j", "iso-2022-jp"),
    *(f"iso-8859-{each}" for each in range(1, 16) if each != 12),
    *(f"windows-{each}" for each in range(1250, 1259)),
}
_TOLD_HEADERS = (
    *("Location", "Content-Location", "Operation-Location", "Link", "Retry-After", "ETag"),
    *("X-Total-Count", "X-Next-Page", "WWW-Authenticate"),
)


def as_result(
    request: PreparedRequest, reply: ServiceReply, secrets: Collection[str]
) -> ToolResult:
    """Return the reply as the model gets it.

    An HTTP error is final; a failed command (see `find_failure`) may be repeated.
    """
    head = f"{request.method} {request.path}"
    images: tuple[ImageContent, ...] = ()
    if reply.media_type.startswith("image/") and not reply.cut:
        image = as_image(reply.body)
        images = (image,) if image else ()
    text, how = "" if images else _body_text(reply), _told_headers(reply)
    for secret in secrets:  # some services echo the request
        text, how = text.replace(secret, HIDDEN), how.replace(secret, HIDDEN)
    if not reply.ok:
        detail = f": {ellipsize(text, _MAX_ERROR)}" if text else ""
        failure = ToolResult.failure(f"{head}: {_status_text(reply.status)}{detail}{how}")
        return failure.model_copy(update={"repeatable": False})
    body = parse_object(text) if reply.media_type.endswith("json") else None
    if reported := find_failure(body, reads=request.method == "GET"):
        return ToolResult(success=False, output=text + how, error=f"{head}: {reported}")
    return ToolResult(output=(text or _status_text(reply.status)) + how, images=images)


def _told_headers(reply: ServiceReply) -> str:
    """Return the headers that say how to go on, each on a line of its own."""
    found = ((name, ", ".join(reply.headers.get_list(name))) for name in _TOLD_HEADERS)
    lines = (f"\n{name}: {visible(value[:_MAX_HEADER])}" for name, value in found if value)
    return "".join(lines)


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _body_text(reply: ServiceReply) -> str:
    kind, text = reply.media_type, _decode_body(reply)
    cut = f"\n… cut after {len(reply.body):,} bytes" if reply.cut else ""
    if kind.endswith("json"):
        return _pretty(text) + cut
    # Files of a general type may be text all the same; a broken character or two do no harm.
    is_clean = not re.search(r"[\x00-\x08\x0e-\x1f]", text) and text.count("\ufffd") < 4
    is_text = not kind or kind.startswith("text/") or kind.endswith("xml")
    if is_text or (is_clean and kind.startswith("application/")):
        return text + cut
    more = "more than " if reply.cut else ""
    return f"({more}{len(reply.body):,} bytes of {kind[:80]}, which are not shown)" if text else ""


def _decode_body(reply: ServiceReply) -> str:
    _, _, charset = str(reply.headers.get("Content-Type", "")).lower().partition("charset=")
    name = charset.split(";")[0].strip(" \"'")
    return reply.body.decode(name if name in _ENCODINGS else "utf-8", "replace")


def _pretty(text: str) -> str:
    """Return JSON with one value per line, or unchanged if that is too long."""
    pretty, length = [], 0
    try:
        for piece in json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(json.loads(text)):
            pretty.append(piece)
            length += len(piece)
            if length > _MAX_PRETTY:
                return text
    except (ValueError, RecursionError):
        return text
    return "".join(pretty)


REQUEST, OPERATIONS = "api_request", "api_operations"

_MAX_LISTED = 40
_MAX_DETAILED = 5
_MAX_NAME = 64
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Send = Callable[[PreparedRequest], Coroutine[Any, Any, ToolResult]]
Current = Callable[[str], Service]
"""Returns the current registration of a service's name; raises AgentError."""


def build_tools(services: Sequence[Service], current: Current, send: Send) -> list[Tool]:
    """Return all tools of these services, which are active and have operations."""
    if not services:
        return []
    typed = typed_services(services)
    builder = _ToolBuilder(current, send)
    named = _name_operations((service, each) for service in typed for each in service.operations)
    tools = [builder.tool(name, service, each) for name, service, each in named]
    tools.append(builder.request(services, typed))
    if len(typed) < len(services):
        tools.append(_operations_tool([each for each in services if each not in typed]))
    return tools


def typed_services(services: Sequence[Service]) -> list[Service]:
    """Return the services whose operations together are few enough for tools of their own."""
    typed, remaining = [], MAX_TYPED
    for service in services:
        if len(service.operations) <= remaining:
            typed.append(service)
            remaining -= len(service.operations)
    return typed


def check_unchanged(current: Current, service: Service) -> Service:
    """Return the service if it is unchanged since its tools were made; raises AgentError."""
    now = current(service.name)
    if not now.active:
        raise MCPToolCallError(
            f"the service {service.name} is not active; `%agent api activate {service.name}`"
        )
    if now != service:
        raise MCPToolCallError(
            f"the service {service.name} was changed since this run began; ask again in a new cell"
        )
    return now


class _ToolBuilder:
    """Makes tools that check, at each call, that the service is unchanged."""

    def __init__(self, current: Current, send: Send) -> None:
        self._current, self._send = current, send

    def tool(self, name: str, service: Service, operation: Operation) -> Tool:
        """Return the tool of one operation."""

        def prepare(**arguments: object) -> PreparedRequest:
            return prepare_operation(check_unchanged(self._current, service), operation, arguments)

        unasked = operation.method == "GET" and service.get_unasked
        return self._tool(
            prepare,
            name=name,
            description=_description(service, operation),
            arguments=_argument_schema(operation),
            sensitive=not unasked,
            idempotent=operation.method == "GET",
            command=find_command(operation.arguments, operation.body),
            source=lambda **_: f"the service {service.name}",
        )

    def request(self, services: Sequence[Service], typed: Sequence[Service]) -> Tool:
        """Return the tool for any request that one of the services accepts."""
        known = {each.name: each for each in services}

        def prepare(
            service: str, method: str, path: str, query: Any = None, body: Any = None
        ) -> PreparedRequest:
            return prepare_request(
                check_unchanged(self._current, known[service]), method, path, query, body
            )

        return self._tool(
            prepare,
            name=REQUEST,
            description=_request_description(services, typed),
            arguments=JsonArgumentSchema(_request_schema(list(known))),
            sensitive=True,
            command=f"body.{COMMAND}",
            source=lambda service, **_: f"the service {service}",
        )

    def _tool(self, prepare: Callable[..., PreparedRequest], **traits: Any) -> Tool:
        async def call(**arguments: object) -> ToolResult:
            return await self._send(prepare(**arguments))

        return Tool(
            function=call,
            where=Where.LOOP,
            preview=lambda **arguments: prepare(**arguments).preview(),
            validate=prepare,
            reaches_out=True,
            **traits,
        )


def _name_operations(
    pairs: Iterator[tuple[Service, Operation]],
) -> Iterator[tuple[str, Service, Operation]]:
    """Yield each operation with a unique tool name, independent of the order."""
    listed = [(service, each, _plain_name(service, each)) for service, each in pairs]
    times = Counter(name.lower() for _, _, name in listed)
    for service, each, name in listed:
        if times[name.lower()] > 1 or len(name) > _MAX_NAME or name in (REQUEST, OPERATIONS):
            identity = "\0".join((service.name, each.method, each.path))
            mark = digest_text(identity)[:8]
            name = f"{name[: _MAX_NAME - 9]}_{mark}"
        yield name, service, each


def _plain_name(service: Service, operation: Operation) -> str:
    words = (re.sub(r"[^a-zA-Z0-9_-]+", "_", each) for each in (service.name, operation.name))
    return "_".join(["api", *(each.strip("_") or "x" for each in words)])


def _argument_schema(operation: Operation) -> JsonArgumentSchema:
    try:
        return JsonArgumentSchema(operation.arguments)
    except ConfigError:  # an invalid schema; at least its names are known
        names = operation.arguments.get("properties", {})
        return JsonArgumentSchema({"properties": {name: {} for name in names}})


def _description(service: Service, operation: Operation) -> str:
    words = f"{operation.summary}\n\n" if operation.summary else ""
    return f"{words}{operation.method} {operation.path} of the service {service.name}."


def _request_schema(names: list[str]) -> JsonDict:
    scalar = {"type": ["string", "number", "boolean", "null"]}
    return {
        "type": "object",
        "properties": {
            "service": {"type": "string", "enum": names},
            "method": {"type": "string", "enum": list(_METHODS)},
            "path": {"type": "string", "description": "with its parameters filled in: /items/7"},
            "query": {
                "type": "object",
                "additionalProperties": {"anyOf": [scalar, {"type": "array", "items": scalar}]},
            },
            "body": {"type": ["object", "string", "null"]},
        },
        "required": ["service", "method", "path"],
        "additionalProperties": False,
    }


def _request_description(services: Sequence[Service], typed: Sequence[Service]) -> str:
    lines = ["Send a request to a service. Only operations in its description can be called."]
    for service in services:
        number = len(service.operations)
        if service in typed:
            lines.append(f"{service.name}: {number} operations, each a tool api_{service.name}_…")
            continue
        listed = min(number, _MAX_LISTED)
        lines.append(f"{service.name}: {number} operations; {OPERATIONS} lists them, such as")
        lines += [f"  {each.line()[:160]}" for each in service.operations[:listed]]
    return "\n".join(lines)


def _operations_tool(services: Sequence[Service]) -> Tool:
    """Return the tool that searches operations if there are too many to describe."""
    known = {each.name: each for each in services}

    @tool(name=OPERATIONS, where=Where.THREAD, source=lambda **_: "descriptions of services")
    def api_operations(service: str, query: str = "") -> str:
        """List a service's operations for api_request that contain all words of the query.

        A short list includes their arguments.
        """
        if service not in known:
            raise MCPToolCallError(f"there is no such service; available: {', '.join(known)}")
        words = query.lower().split()
        lines = {f"{each.name}: {each.line()}": each for each in known[service].operations}
        matches = {k: v for k, v in lines.items() if all(word in k.lower() for word in words)}
        if len(matches) <= _MAX_DETAILED:
            details = (f"{line}\n  {json.dumps(each.arguments)}" for line, each in matches.items())
            return "\n".join(details) or "no operation contains all these words"
        return "\n".join(limit_lines(list(matches), 200, "… and {} more; add words"))

    return api_operations
