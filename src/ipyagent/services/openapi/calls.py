"""Send an approved request, once and nowhere else; convert the reply."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from ipaddress import ip_address

from ipyagent.errors import AgentError, MCPToolCallError
from ipyagent.kernel.images import as_image
from ipyagent.phrases import ellipsize
from ipyagent.plaintext import visible
from ipyagent.redaction import HIDDEN
from ipyagent.schema import ImageContent, ToolResult
from ipyagent.services.failures import find_failure, parse_object
from ipyagent.services.openapi.registry import Service
from ipyagent.services.openapi.request_builder import PreparedRequest
from ipyagent.services.openapi.transport import ServiceReply, connect
from ipyagent.services.openapi.urls import AddressGuard, Resolve
from ipyagent.telemetry import TRACE_HEADER, current_trace_id

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

    An HTTP error is final; a failed command (see `services.failures`) may be repeated.
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
