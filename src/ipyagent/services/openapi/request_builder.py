"""Build requests exactly as they will be sent: shown to the user first, then sent.

Paths are matched with the templates, so a value stays inside its segment. Servers and proxies
decode, fold and clean paths in many ways, so a value that any of them could take for `..` is
refused.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from urllib.parse import quote, unquote, unquote_to_bytes, urlencode

import httpx

from ipyagent.errors import ConfigError, InvalidArgumentsError, MCPToolCallError
from ipyagent.json_types import JsonDict, parse_json
from ipyagent.plaintext import visible
from ipyagent.schema import Preview
from ipyagent.services.openapi import transport
from ipyagent.services.openapi.operations import (
    FORM,
    PLACEHOLDER,
    Operation,
    Parameter,
    Service,
    is_json,
    media_kind,
)
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
    if value:
        _check_value(value, "path")
    return quote(value, safe=_SAFE)


def _check_value(value: str, name: str) -> None:
    if not value:
        raise InvalidArgumentsError(f"{name}: an empty value would make it another path")
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", value):
        raise InvalidArgumentsError(f"{name}: a path must not hold control characters")
    if _may_traverse(value):
        raise InvalidArgumentsError(f"{name}: {visible(value[:80])!r} could lead to another path")


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

Pairs = list[tuple[str, str]]


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


@contextlib.contextmanager
def _sendable() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise InvalidArgumentsError(
            "the arguments hold half of a character (a lone surrogate), which cannot be sent"
        ) from None


@_sendable()
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
    pairs: Pairs = []
    headers: dict[str, str] = {}
    for each in operation.parameters:
        if each.where == "path" or each.name not in given:
            continue
        value = given.pop(each.name)
        if each.where == "header":
            headers[each.name] = _join_parts(each, value, str)
        else:
            pairs += _encode_pairs(each, value)
    pairs += _encode_fields(given)
    base = httpx.URL(operation.base or service.base)
    request_url = transport.join_path(base, path)
    if text := "&".join(filter(None, (base.query.decode(), *(f"{k}={v}" for k, v in pairs)))):
        request_url = request_url.copy_with(raw_path=request_url.raw_path + b"?" + text.encode())
    content = None
    if body is not None:
        headers["Content-Type"], content = _encode_body(operation, body)
    for name, value in headers.items():
        _check_header(name, value)
    reserved = {name.lower() for name in (*service.variables, *service.secrets)}
    allowed = {name: value for name, value in headers.items() if name.lower() not in reserved}
    return PreparedRequest(service, operation.method, path, request_url, allowed, content)


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


def _check_header(name: str, value: str) -> None:
    if not HEADER_NAME.fullmatch(name) or not re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value):
        raise InvalidArgumentsError(f"{visible(name)}: the value is not valid in a header")


def _as_text(value: object) -> str:
    """Return a value as text in a URL or header."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encode_whole(text: str) -> str:
    return quote(text, safe="")


def _join_parts(parameter: Parameter, value: object, encode: Callable[[str], str]) -> str:
    """Return a value as one text, as in headers; `encode` is applied to each of its parts."""
    if isinstance(value, list):
        return ",".join(encode(_as_text(each)) for each in value)
    if isinstance(value, dict):
        equals = "=" if parameter.explode else ","
        return ",".join(f"{encode(k)}{equals}{encode(_as_text(v))}" for k, v in value.items())
    return encode(_as_text(value))


def _encode_pairs(parameter: Parameter, value: object) -> Pairs:
    """Return the encoded names and values of a query."""
    name, is_deep = parameter.name, parameter.style == "deepObject"
    if not (parameter.explode or is_deep):
        return [(_encode_whole(name), _join_parts(parameter, value, _encode_whole))]
    fields = value if isinstance(value, dict) and not is_deep else {name: value}
    return _encode_fields(fields, [name] if is_deep else [])


def _encode_fields(fields: Mapping[str, object], deep: Collection[str] = ()) -> Pairs:
    return [(_encode_whole(name), _encode_whole(text)) for name, text in _list_fields(fields, deep)]


def _list_fields(
    fields: Mapping[str, object], deep: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield names and texts, one for each value of a list; `deep` ones as `name[key]`."""
    for name, value in fields.items():
        if name in deep:
            yield from _list_deep(name, value)
        else:
            yield from (
                (name, _as_text(v)) for v in (value if isinstance(value, list) else [value])
            )


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
    if media_kind(media) == FORM and isinstance(body, dict):
        return media, urlencode([*_list_fields(body, operation.deep)]).encode()
    if isinstance(body, str) and (not is_json(media) or parse_json(body) is not None):
        return media, body.encode("utf-8", "replace")
    if not is_json(media):
        raise InvalidArgumentsError(f"body: is sent as {visible(media)}; give it as text")
    return media, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
