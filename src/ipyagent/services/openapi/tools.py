"""The tool for requests to services, and the operations that it calls.

An approved request is sent once and nowhere else, and its reply converted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from itertools import accumulate
from typing import Any

from ipyagent.digests import digest_text
from ipyagent.errors import AgentError, InvalidArgumentsError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.displays import as_image
from ipyagent.phrases import ellipsize
from ipyagent.plaintext import visible
from ipyagent.redaction import HIDDEN
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services import find_failure, parse_object
from ipyagent.services.openapi.operations import Operation, Service, count_operations
from ipyagent.services.openapi.request_builder import (
    PreparedRequest,
    find_operation,
    prepare_request,
)
from ipyagent.services.openapi.transport import AddressGuard, Resolve, ServiceReply, connect
from ipyagent.telemetry import TRACE_HEADER, current_trace_id
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import COMMAND, Tool, Where, find_command

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


REQUEST = "api_request"

_MAX_LISTED = 3_000  # characters of operations that the request's description lists
_MAX_LINE = 160
_MAX_NAME = 64
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Send = Callable[[PreparedRequest], Coroutine[Any, Any, ToolResult]]
Current = Callable[[str], Service]
"""Returns the current registration of a service's name; raises AgentError."""


def build_tools(services: Sequence[Service], current: Current, send: Send) -> list[Tool]:
    """Return the tool for requests to these services, which are active and have operations.

    Each operation is a hidden tool, as which its calls are shown, asked about and allowed.
    """
    if not services:
        return []
    known = {each.name: each for each in services}
    schema = JsonArgumentSchema(_request_schema(list(known)))

    def make(owner: str = "", only: Operation | None = None, **traits: Any) -> Tool:
        def prepare(
            service: str, method: str, path: str, query: Any = None, body: Any = None
        ) -> PreparedRequest:
            if only is not None and service != owner:
                raise InvalidArgumentsError(f"service: this is an operation of {owner}")
            now = check_unchanged(current, known[service])
            return prepare_request(now, method, path, query, body, only)

        async def call(**arguments: Any) -> ToolResult:
            return await send(prepare(**arguments))

        return Tool(
            function=call,
            arguments=schema,
            where=Where.LOOP,
            preview=lambda **arguments: prepare(**arguments).preview(),
            validate=prepare,
            reaches_out=True,
            **traits,
        )

    def redirect(service: str, method: str, path: str, **more: object) -> tuple[str, JsonDict]:
        operation, _ = find_operation(known[service].operations, method, path)
        given = {"service": service, "method": method, "path": path, **more}
        return names[service, method, operation.path], given

    pairs = [(service, each) for service in services for each in service.operations]
    named = list(_name_operations(iter(pairs)))
    names = {(service.name, each.method, each.path): name for name, service, each in named}
    request = make(
        name=REQUEST,
        description=_describe_services(services),
        sensitive=True,
        command=f"body.{COMMAND}",
        source=lambda service, **_: f"the service {service}",
        redirect=redirect,
    )
    return [
        request,
        *(
            make(owner.name, each, **_operation_traits(name, owner, each))
            for name, owner, each in named
        ),
    ]


def _operation_traits(name: str, service: Service, operation: Operation) -> JsonDict:
    reads = operation.method == "GET"
    details = f"\n{json.dumps(operation.inputs)}" if operation.inputs else ""
    command = find_command({"properties": operation.inputs}, "query")
    return {
        "name": name,
        "description": f"{operation.line()} (service {service.name}){details}",
        "sensitive": not (reads and service.get_unasked),
        "idempotent": reads,
        "command": command or f"body.{COMMAND}",
        "source": lambda **_: f"the service {service.name}",
        "hidden": True,
        "part_of": REQUEST,
    }


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


def _name_operations(
    pairs: Iterator[tuple[Service, Operation]],
) -> Iterator[tuple[str, Service, Operation]]:
    """Yield each operation with a unique tool name, independent of the order."""
    listed = [(service, each, _plain_name(service, each)) for service, each in pairs]
    times = Counter(name.lower() for _, _, name in listed)
    for service, each, name in listed:
        if times[name.lower()] > 1 or len(name) > _MAX_NAME or name == REQUEST:
            identity = "\0".join((service.name, each.method, each.path))
            mark = digest_text(identity)[:8]
            name = f"{name[: _MAX_NAME - 9]}_{mark}"
        yield name, service, each


def _plain_name(service: Service, operation: Operation) -> str:
    words = (re.sub(r"[^a-zA-Z0-9_-]+", "_", each) for each in (service.name, operation.name))
    return "_".join(["api", *(each.strip("_") or "x" for each in words)])


def _request_schema(names: list[str]) -> JsonDict:
    return {
        "type": "object",
        "properties": {
            "service": {"type": "string", "enum": names},
            "method": {"type": "string", "enum": list(_METHODS)},
            "path": {"type": "string", "description": "with its parameters filled in: /items/7"},
            "query": {
                "type": "object",
                "description": "the parameters, also those that are headers",
                "additionalProperties": True,
            },
            "body": {
                "type": ["object", "array", "string", "null"],
                "description": "a JSON value, or the text to send",
            },
        },
        "required": ["service", "method", "path"],
        "additionalProperties": False,
    }


def _describe_services(services: Sequence[Service]) -> str:
    """Return the description of requests, with as many operations as there is room for."""
    lines = ["Send a request to a service. Only operations in its description can be called."]
    for service in services:
        listed = [f"{each.line()} {json.dumps(each.inputs)}" for each in service.operations]
        room = _MAX_LISTED // len(services)
        if sum(map(len, listed)) > room:
            listed = [each.line()[:_MAX_LINE] for each in service.operations]
        sizes = accumulate(map(len, listed))
        some = [line for line, size in zip(listed, sizes, strict=True) if size <= room]
        more = "; find_tools finds all, such as" if len(some) < len(listed) else ""
        lines += [f"{service.name}: {count_operations(service.operations)}{more}", *some]
    return "\n".join(lines)
