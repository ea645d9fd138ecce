"""Build requests exactly as they will be sent: shown to the user first, then sent.

Paths are filled in from a template, or matched with the templates. Either way a value stays inside
its segment. Servers and proxies decode, fold and clean paths in many ways, so a value that any of
them could take for `..` is refused.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, unquote_to_bytes, urlencode

from ipyagent.digests import digest_text
from ipyagent.errors import InvalidArgumentsError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.schema import Preview
from ipyagent.services.openapi import urls
from ipyagent.services.openapi.arguments import Parameter, is_json, media_kind
from ipyagent.services.openapi.operations import PLACEHOLDER, Operation
from ipyagent.services.openapi.registry import Service, header_variables

if TYPE_CHECKING:
    import httpx

_MAX_PATH = 4_000
_DECODINGS = 5
_SAFE = "!$&'()*+,;=:@~-._"  # characters that a segment may hold unencoded


def fill_path(template: str, values: Mapping[str, str]) -> str:
    """Return the template's path with encoded parameters; raises InvalidArgumentsError."""
    for name, value in values.items():
        _check_value(unquote(value), name)
    parts = PLACEHOLDER.split(template)  # literal, name, literal, name, …, literal
    path = "".join(
        values[part] if index % 2 else _quote_literal(part) for index, part in enumerate(parts)
    )
    for segment in path.split("/")[1:]:
        if _may_traverse(unquote(segment)):
            raise InvalidArgumentsError(f"{visible(path)} would lead out of {template}")
    return path


def find_operation(
    operations: Iterable[Operation], method: str, path: str
) -> tuple[Operation, str]:
    """Return the operation of a path, and the path as it is sent.

    Raises InvalidArgumentsError if there is none, or it could become another path.
    """
    segments = _segments(path)
    candidates = list(operations)
    matches = [
        (rank, each)
        for each in candidates
        if each.method == method and (rank := _match_ranks(each.path, segments)) is not None
    ]
    if not matches:
        raise InvalidArgumentsError(_describe_unknown(candidates, method, path))
    _, operation = min(matches, key=lambda match: match[0])
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


def _match_ranks(template: str, segments: list[str]) -> list[int] | None:
    """Return a rank for each segment, lower for a closer match; None if one does not match."""
    parts = template[1:].split("/")
    if len(parts) != len(segments):
        return None
    ranks = [_match_rank(part, segment) for part, segment in zip(parts, segments, strict=True)]
    return None if None in ranks else [rank for rank in ranks if rank is not None]


def _match_rank(part: str, segment: str) -> int | None:
    if not PLACEHOLDER.search(part):
        return 0 if _quote_literal(part) == segment else None
    if PLACEHOLDER.fullmatch(part):
        return 2 if segment else None
    import re2  # takes linear time; the pattern is untrusted

    literals = PLACEHOLDER.split(part)[::2]
    pattern = ".+".join(re2.escape(_quote_literal(each)) for each in literals)
    return 1 if re2.fullmatch(pattern, segment) else None


def _quote_literal(text: str) -> str:
    return quote(unquote(text), safe=f"/{_SAFE}")


def _describe_unknown(operations: list[Operation], method: str, path: str) -> str:
    known = [f"{each.method} {each.path}" for each in operations[:300]]
    close = get_close_matches(f"{method} {path}", known, n=3, cutoff=0.5) or known[:3]
    hint = f"; it has {', '.join(close)}" if close else ""
    return f"the service has no {method} {visible(path[:200])}{hint}"


HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A valid name of a header."""

_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

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
        for name, variable in header_variables(self.service).items():
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
def prepare_operation(
    service: Service, operation: Operation, arguments: Mapping[str, object]
) -> PreparedRequest:
    """Return the request of an operation; raises InvalidArgumentsError."""
    texts: dict[str, dict[str, str]] = {"path": {}, "header": {}}
    query: Pairs = []
    cookies: Pairs = []
    for each in operation.parameters:
        value = arguments.get(each.argument)
        if value is None:
            continue
        match each.where:
            case "query":
                query += _encode_pairs(each, value, _encode_whole)
            case "cookie":
                cookies += _encode_pairs(each, value, quote)
            case "path":
                texts["path"][each.name] = _encode_value(each, value, _encode_whole)
            case "header":
                texts["header"][each.name] = _encode_value(each, value)
    path = fill_path(operation.path, _require_path_values(operation, texts["path"]))
    headers = texts["header"]
    if cookies:
        headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in cookies)
    body = arguments.get(operation.body) if operation.body else None
    return _build(service, operation, path, query, headers, body)


@_sendable()
def prepare_request(
    service: Service, method: str, path: str, query: Mapping[str, object] | None, body: object
) -> PreparedRequest:
    """Return the request for a method and a path, which must be one of the service's own."""
    operation, path = find_operation(service.operations, method, path)
    pairs = [
        (_encode_whole(name), _encode_whole(_as_text(each)))
        for name, value in (query or {}).items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]
    return _build(service, operation, path, pairs, {}, body, raw=True)


def _build(
    service: Service,
    operation: Operation,
    path: str,
    query: Pairs,
    headers: dict[str, str],
    body: object,
    *,
    raw: bool = False,
) -> PreparedRequest:
    import httpx

    if service.base is None:
        raise MCPToolCallError(f"the address of {service.name} is not known yet")
    base = httpx.URL(operation.base or service.base)
    request_url = urls.join_path(base, path)
    if text := "&".join(filter(None, (base.query.decode(), *(f"{k}={v}" for k, v in query)))):
        request_url = request_url.copy_with(raw_path=request_url.raw_path + b"?" + text.encode())
    content = None
    if body is not None:
        headers["Content-Type"], content = _encode_body(operation, body, raw=raw)
    for name, value in headers.items():
        _check_header(name, value)
    reserved = {name.lower() for name in (*header_variables(service), *service.secrets)}
    allowed = {name: value for name, value in headers.items() if name.lower() not in reserved}
    return PreparedRequest(service, operation.method, path, request_url, allowed, content)


def _require_path_values(operation: Operation, values: dict[str, str]) -> dict[str, str]:
    for each in operation.parameters:
        if each.where == "path" and each.name not in values:
            raise InvalidArgumentsError(
                f"{each.argument}: is required, because it is a part of the path"
            )
    return values


def _check_header(name: str, value: str) -> None:
    if not HEADER_NAME.fullmatch(name) or not re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value):
        raise InvalidArgumentsError(f"{visible(name)}: the value is not valid in a header")


def _as_text(value: object) -> str:
    """Return a value as text in a URL or header."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case None:
            return ""
        case int() | float():
            return json.dumps(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encode_value(parameter: Parameter, value: object, encode: Callable[[str], str] = str) -> str:
    """Return a value as one text, as in headers; `encode` is applied to each of its parts."""
    if parameter.as_json:
        return encode(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    start, delimiter = _AFFIXES.get(parameter.style, ("", ","))
    if not parameter.explode:
        delimiter = encode(_DELIMITERS[parameter.style]) if parameter.style in _DELIMITERS else ","
    name = f"{parameter.name}=" if parameter.style == "matrix" else ""
    if isinstance(value, list):
        parts = [encode(_as_text(each)) for each in value]
        if parameter.explode:
            return start + delimiter.join(name + each for each in parts)
    elif isinstance(value, dict):
        equals = "=" if parameter.explode else delimiter
        parts = [f"{encode(str(k))}{equals}{encode(_as_text(each))}" for k, each in value.items()]
        name = "" if parameter.explode else name
    else:
        parts = [encode(_as_text(value))]
    return start + name + delimiter.join(parts)


_AFFIXES = {"label": (".", "."), "matrix": (";", ";")}
"""The beginning of a value, and what stands between the parts of an exploded one."""

_DELIMITERS = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}


def _encode_whole(text: str) -> str:
    return quote(text, safe="")


def _encode_pairs(
    parameter: Parameter, value: object, encode: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield encoded names and values, as in queries and cookies."""
    name, is_deep = parameter.name, parameter.style == "deepObject"
    pairs: Iterable[tuple[str, str]]
    if (
        parameter.as_json
        or not isinstance(value, list | dict)
        or not (parameter.explode or is_deep)
    ):
        yield encode(name), _encode_value(parameter, value, encode)
        return
    if is_deep:
        pairs = _encode_deep(name, value)
    elif isinstance(value, dict):
        pairs = ((str(key), _as_text(each)) for key, each in value.items())
    else:
        pairs = ((name, _as_text(each)) for each in value)
    yield from ((encode(key), encode(text)) for key, text in pairs)


def _encode_deep(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield nested values under their full paths: `items[0][price]`."""
    stack = [(name, value)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict | list):
            children = list(value.items() if isinstance(value, dict) else enumerate(value))
            stack += [(f"{name}[{key}]", each) for key, each in reversed(children)]
        else:
            yield name, _as_text(value)


def _encode_body(operation: Operation, body: object, *, raw: bool) -> tuple[str, bytes]:
    """Return content type and bytes. A model's own text (`raw`) is sent as it is."""
    media = operation.media or (
        "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    )
    kind = media_kind(media)
    if kind == _FORM and isinstance(body, dict):
        return media, urlencode(list(_encode_form(body, operation.deep))).encode()
    if kind == _MULTIPART and isinstance(body, dict):
        return _multipart(body, _file_fields(operation))
    if isinstance(body, str) and (raw or not is_json(media)):
        return media, body.encode("utf-8", "replace")
    if not is_json(media):
        raise InvalidArgumentsError(f"body: is sent as {visible(media)}; give it as text")
    return media, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _encode_form(body: Mapping[str, object], deep: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a form; `deep` ones are encoded as deepObject."""
    for name, value in body.items():
        if name in deep:
            yield from _encode_deep(name, value)
        else:
            yield from ((key, _as_text(each)) for key, each in _expand_lists({name: value}))


def _expand_lists(body: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        yield from ((name, each) for each in (value if isinstance(value, list) else [value]))


def _multipart(body: Mapping[str, object], files: Collection[str]) -> tuple[str, bytes]:
    """Return the fields as parts; the boundary is derived from them, so the preview is exact."""
    import httpx

    fields = [(name, _as_text(value)) for name, value in _expand_lists(body)]
    boundary = digest_text(repr(fields))[:32]
    media = f"{_MULTIPART}; boundary={boundary}"
    parts = [(name, (name if name in files else None, value.encode())) for name, value in fields]
    request = httpx.Request("POST", "http://x", headers={"Content-Type": media}, files=parts)
    return media, request.read()


def _file_fields(operation: Operation) -> Collection[str]:
    """Return the fields of a form that are files."""
    body = operation.arguments.get("properties", {}).get(operation.body or "", {})
    fields = body.get("properties", {})
    return {name for name, schema in fields.items() if schema.get("format") == "binary"}
