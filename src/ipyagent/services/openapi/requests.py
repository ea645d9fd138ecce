"""Requests to services: built exactly as they will be sent, shown, sent once, and answered.

Paths are matched with the templates, so a value stays inside its segment. Servers and proxies
decode, fold and clean paths in many ways, so a value that any of them could take for `..` is
refused. An approved request is sent once and nowhere else, and its reply converted.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from ipaddress import ip_address
from urllib.parse import quote, unquote, unquote_to_bytes, urlencode

import httpx

from ipyagent.errors import AgentError, ConfigError, InvalidArgumentsError, MCPToolCallError
from ipyagent.json_types import JsonDict, object_of, parse_json
from ipyagent.kernel.displays import as_image
from ipyagent.plaintext import ellipsize, visible
from ipyagent.redaction import HIDDEN
from ipyagent.schema import Preview, ToolResult
from ipyagent.services import HEADER_VALUE, find_credentials, find_failure, parse_object
from ipyagent.services.openapi import transport
from ipyagent.services.openapi.documents import PLACEHOLDER, Operation, Service, is_form, is_json
from ipyagent.services.openapi.transport import AddressGuard, Resolve, media_kind
from ipyagent.telemetry import TRACE_HEADER, current_trace_id
from ipyagent.tools.argument_schema import JsonArgumentSchema

_MAX_PATH = 4_000
_DECODINGS = 5
_SAFE = "!$&'()*+,;=:@~-._"  # characters that a segment may hold unencoded


def find_operation(
    operations: Sequence[Operation], method: str, path: str
) -> tuple[Operation, str]:
    """Return the operation of a path, and the path as it is sent.

    Raises InvalidArgumentsError if there is none, or it could become another path.
    """
    segments = _segments(path)
    same_method = (each for each in operations if each.method == method)
    matches = [each for each in same_method if _matches(each.path, segments)]
    if not matches:
        raise InvalidArgumentsError(_describe_unknown(operations, method, path))
    operation = min(matches, key=lambda each: _openness(each.path))
    parts = operation.path[1:].split("/")
    return operation, "/" + "/".join(map(_encode_segment, parts, segments))


def _encode_segment(part: str, segment: str) -> str:
    """Encode a value's @, which lax URL parsers take for the end of a user name."""
    return segment if segment == _quote_literal(part) else segment.replace("@", "%40")


def _segments(path: str) -> list[str]:
    """Return the path's segments, each in its canonical encoding."""
    if not path.startswith("/") or len(path) > _MAX_PATH:
        raise InvalidArgumentsError(
            f"path: {visible(path[:80])!r} is not a path below the service, such as /items/7; "
            "leave out the service's address"
        )
    if bad := re.search(r"[?#\\\x00-\x20\x7f-\x9f]|%2e|%5c", path, re.IGNORECASE):
        advice = "; use `query` for parameters" if bad[0] in "?#" else ""
        raise InvalidArgumentsError(f"path must not hold {visible(bad[0])!r}{advice}")
    segments = path[1:].split("/")
    if not all(segments[:-1]) and path != "/":
        raise InvalidArgumentsError("path must not hold //")
    return [_normalize(each) for each in segments]


def _normalize(segment: str) -> str:
    try:
        value = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgumentsError("path: percent-encoded characters must be UTF-8") from None
    if re.search(r"[\x00-\x1f\x7f-\x9f]", value):
        raise InvalidArgumentsError("path must not hold control characters")
    if _may_traverse(value):
        raise InvalidArgumentsError(f"path: {visible(value[:80])!r} could lead to another path")
    return quote(value, safe=_SAFE)


def _may_traverse(value: str) -> bool:
    """Return whether some server might read `.` or `..` as one of its segments."""
    for _ in range(_DECODINGS):
        folded = unicodedata.normalize("NFKC", value)
        for part in re.split(r"[/\\]", folded):
            if part.partition(";")[0].strip() in (".", ".."):
                return True
        if (decoded := unquote(value)) == value:
            return False
        value = decoded
    return True


def _matches(template: str, segments: list[str]) -> bool:
    if template.count("/") != len(segments):
        return False
    import re2  # takes linear time; the pattern is untrusted

    literals = map(_quote_literal, PLACEHOLDER.split(template)[::2])
    pattern = "[^/]+".join(map(re2.escape, literals))
    return re2.fullmatch(pattern, "/" + "/".join(segments)) is not None


def _openness(template: str) -> list[int]:
    """Return for each segment if it is fixed, 0, has a parameter in it, 1, or is one, 2."""
    parts = template.split("/")
    return [bool(PLACEHOLDER.search(each)) + bool(PLACEHOLDER.fullmatch(each)) for each in parts]


def _quote_literal(text: str) -> str:
    return quote(unquote(text), safe=f"/{_SAFE}")


def _describe_unknown(operations: Sequence[Operation], method: str, path: str) -> str:
    known = [f"{each.method} {each.path}" for each in operations[:300]]
    close = get_close_matches(f"{method} {path}", known, n=3, cutoff=0.5) or known[:3]
    hint = f"; it has {', '.join(close)}" if close else ""
    return f"the service has no {method} {visible(path[:200])}{hint}"


HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A valid name of a header."""


@dataclass(frozen=True)
class PreparedRequest:
    """A request to a service. `body` is None if there is none."""

    service: Service
    method: str
    path: str
    url: httpx.URL
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def preview(self) -> Preview:
        """Return the request in full, with the source of each secret in place of its value."""
        lines = [f"{self.method} {self.url}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        for name, variable in self.service.variables.items():
            scheme = "Bearer " if name == "Authorization" and self.service.token_env else ""
            lines.append(f"{name}: {scheme}(the value of {variable})")
        lines += [f"{name}: (a value in the settings)" for name in self.service.secrets]
        if self.body is not None:
            lines += ["", self.body.decode("utf-8", "replace")]
        return Preview(kind="code", language="http", text="\n".join(lines))


def prepare_request(
    service: Service,
    method: str,
    path: str,
    query: Mapping[str, object] | None,
    body: object,
    only: Operation | None = None,
) -> PreparedRequest:
    """Return the request for a method and a path, which must be one of the service's own.

    `only` is the operation that it has to be, if that was decided; `query` has the headers, too.
    What it has beyond the description is sent as it is: descriptions are often incomplete.
    """
    if service.base is None:
        raise MCPToolCallError(f"the address of {service.name} is not known yet")
    operation, path = find_operation(service.operations, method, path)
    if only is not None and operation != only:
        raise InvalidArgumentsError(f"path: this is not a request of {only.method} {only.path}")
    given = {name: value for name, value in (query or {}).items() if value is not None}
    _check_inputs(operation, given, body)
    base = httpx.URL(operation.base or service.base)
    headers = {name: _join_parts(given.pop(name)) for name in operation.headers if name in given}
    content = None
    try:
        encoded = "&".join(filter(None, (base.query.decode(), _encode_query(operation, given))))
        if body is not None:
            headers["Content-Type"], content = _encode_body(operation, body)
    except UnicodeEncodeError:
        raise InvalidArgumentsError(
            "the arguments hold half of a character (a lone surrogate), which cannot be sent"
        ) from None
    url = transport.join_path(base, path)
    if encoded:
        url = url.copy_with(raw_path=url.raw_path + b"?" + encoded.encode())
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise InvalidArgumentsError(f"{visible(name)}: the value is not valid in a header")
    reserved = {name.lower() for name in (*service.variables, *service.secrets)}
    allowed = {name: value for name, value in headers.items() if name.lower() not in reserved}
    return PreparedRequest(service, operation.method, path, url, allowed, content)


def _check_inputs(operation: Operation, query: Mapping[str, object], body: object) -> None:
    """Raise InvalidArgumentsError for what the description does not allow."""
    described = {key: operation.inputs[key] for key in ("query", "body") if key in operation.inputs}
    schema = {"properties": described, "required": operation.inputs.get("required", [])}
    given: JsonDict = {"query": {**query}}
    if body is not None:
        value = parse_json(body) if is_json(operation.media or "") else None
        given["body"] = body if value is None else value
    with contextlib.suppress(ConfigError):  # its own schema is of no use
        JsonArgumentSchema({**schema, "additionalProperties": True}).validate(given)


def _as_text(value: object) -> str:
    """Return a value as text in a URL or header."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _join_parts(value: object, encode: Callable[[str], str] = str) -> str:
    """Return a value as one text, lists with commas; `encode` is applied to each part."""
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    parts = value if isinstance(value, list) else [value]
    return ",".join(encode(_as_text(each)) for each in parts)


def _encode_query(operation: Operation, given: Mapping[str, object]) -> str:
    """Return the encoded query; the members of an object are parameters themselves."""

    def encode(text: str) -> str:
        return quote(text, safe="")

    parts = []
    for name, value in given.items():
        if name in operation.joined:
            parts.append(f"{encode(name)}={_join_parts(value, encode)}")
            continue
        is_object = isinstance(value, dict) and name not in operation.deep
        fields = object_of(value) if is_object else {name: value}
        parts.append(urlencode([*_list_fields(fields, operation.deep)], quote_via=quote, safe=""))
    return "&".join(filter(None, parts))


def _list_fields(fields: Mapping[str, object], deep: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield names and texts, one for each value of a list; `deep` ones as `name[key]`."""
    for name, value in fields.items():
        if name in deep:
            yield from _list_deep(name, value)
        else:
            values = value if isinstance(value, list) else [value]
            yield from ((name, _as_text(each)) for each in values)


def _list_deep(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield nested values under their full paths: `items[0][price]`."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _list_deep(f"{name}[{key}]", each)
    else:
        yield name, _as_text(value)


def _encode_body(operation: Operation, body: object) -> tuple[str, bytes]:
    """Return content type and bytes. A model's own text is sent as it is, also if it is JSON."""
    media = operation.media or (
        "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    )
    if is_form(media) and isinstance(body, dict):
        return media, urlencode([*_list_fields(body, operation.deep)]).encode()
    if isinstance(body, str) and (not is_json(media) or parse_json(body) is not None):
        return media, body.encode("utf-8", "replace")
    if not is_json(media):
        raise InvalidArgumentsError(f"body: is sent as {visible(media)}; give it as text")
    return media, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


_SHORTEST_SECRET = 8


def make_guard(service: Service, resolve: Resolve) -> AddressGuard:
    """Return a guard that allows public addresses and those at registration."""
    return AddressGuard(frozenset(map(ip_address, service.known or ())), resolve)


async def send(
    request: PreparedRequest, environ: Mapping[str, str], resolve: Resolve
) -> ToolResult:
    """Send the request. Without success, as for a redirect, the result is a failure.

    Nothing is sent again, nor to another address.
    """
    service = request.service
    secrets = find_credentials(service.secrets, service.header_env, service.token_env, environ)
    headers = {**request.headers, **secrets}
    if trace_id := current_trace_id():
        names = {name.lower() for name in headers}
        headers |= {} if TRACE_HEADER.lower() in names else {TRACE_HEADER: trace_id}
    try:
        reply, is_cut = await transport.send(
            make_guard(service, resolve),
            request.method,
            request.url,
            headers,
            request.body,
            connect=service.connect_timeout,
            total=service.execute_timeout,
        )
    except AgentError as error:
        is_unknown = isinstance(error, MCPToolCallError) and request.method != "GET"
        outcome = ". It is not known whether it was carried out" if is_unknown else ""
        raise type(error)(f"{service.name}: {error}{outcome}") from None
    values = [each.removeprefix("Bearer ") for each in secrets.values()]
    hidden = [each for each in values if len(each) >= _SHORTEST_SECRET]
    return as_result(request, reply, hidden, is_cut=is_cut)


_MAX_PRETTY = 1_000_000
_MAX_ERROR = 1_500
_MAX_HEADER = 1_000
_ENCODINGS = {
    *("utf-8", "us-ascii", "utf-16", "utf-16le", "utf-16be", "koi8-r", "big5", "gbk", "gb2312"),
    *("gb18030", "shift_jis", "euc-jp", "euc-kr", "windows-31j", "iso-2022-jp"),
    *(f"iso-8859-{each}" for each in range(1, 16) if each != 12),
    *(f"windows-{each}" for each in range(1250, 1259)),
}
_NEXT_HEADERS = (
    *("Location", "Content-Location", "Operation-Location", "Link", "Retry-After", "ETag"),
    *("X-Total-Count", "X-Next-Page", "WWW-Authenticate"),
)


def as_result(
    request: PreparedRequest, reply: httpx.Response, secrets: Collection[str], *, is_cut: bool
) -> ToolResult:
    """Return the reply as the model gets it.

    An HTTP error is final; a failed command (see `find_failure`) may be repeated.
    """
    head, kind = f"{request.method} {request.path}", _media_type(reply)
    image = as_image(reply.content) if kind.startswith("image/") and not is_cut else None
    text, how = "" if image else _body_text(reply, is_cut), _next_headers(reply)
    for secret in secrets:  # some services echo the request
        text, how = text.replace(secret, HIDDEN), how.replace(secret, HIDDEN)
    status = f"{reply.status_code} {reply.reason_phrase}".strip()
    if not reply.is_success:
        detail = f": {ellipsize(text, _MAX_ERROR)}" if text else ""
        failure = ToolResult.failure(f"{head}: {status}{detail}{how}")
        return failure.model_copy(update={"repeatable": False})
    body = parse_object(text) if kind.endswith("json") else None
    if reported := find_failure(body, reads=request.method == "GET"):
        return ToolResult(success=False, output=text + how, error=f"{head}: {reported}")
    return ToolResult(output=(text or status) + how, images=(image,) if image else ())


def _media_type(reply: httpx.Response) -> str:
    return media_kind(reply.headers.get("Content-Type", ""))


def _next_headers(reply: httpx.Response) -> str:
    """Return the headers that say how to go on, each on a line of its own."""
    found = ((name, reply.headers.get(name)) for name in _NEXT_HEADERS)
    return "".join(f"\n{name}: {visible(value[:_MAX_HEADER])}" for name, value in found if value)


def _body_text(reply: httpx.Response, is_cut: bool) -> str:
    kind, charset = _media_type(reply), (reply.charset_encoding or "").lower()
    text = reply.content.decode(charset if charset in _ENCODINGS else "utf-8", "replace")
    cut = f"\n… cut after {len(reply.content):,} bytes" if is_cut else ""
    if kind.endswith("json"):
        return _pretty(text) + cut
    # Files of a general type may be text all the same; a broken character or two do no harm.
    is_clean = not re.search(r"[\x00-\x08\x0e-\x1f]", text) and text.count("\ufffd") < 4
    is_text = not kind or kind.startswith("text/") or kind.endswith("xml")
    if is_text or (is_clean and kind.startswith("application/")):
        return text + cut
    size = f"{'more than ' if is_cut else ''}{len(reply.content):,} bytes"
    return f"({size} of {kind[:80]}, which are not shown)" if text else ""


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
