"""A request exactly as it will be sent: what the person is shown, and what is sent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ipyagent.errors import InvalidArgumentsError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.schema import Preview
from ipyagent.services.openapi import paths, urls
from ipyagent.services.openapi.arguments import Parameter
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.registry import Service, variables

if TYPE_CHECKING:
    import httpx

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What may be the name of a header."""

_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|", "tabs": "\t"}
_FORM, _PARTS = "application/x-www-form-urlencoded", "multipart/form-data"

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Prepared:
    """A request to a service. `body` is None where there is none."""

    service: Service
    method: str
    path: str
    url: httpx.URL
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def preview(self) -> Preview:
        """The request in full; of what is secret, where it comes from."""
        lines = [f"{self.method} {self.url}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        for name, variable in variables(self.service).items():
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
def prepared(service: Service, operation: Operation, arguments: Mapping[str, object]) -> Prepared:
    """The request of an operation; raises InvalidArgumentsError."""
    texts: dict[str, dict[str, str]] = {"path": {}, "header": {}}
    query: Pairs = []
    cookies: Pairs = []
    for each in operation.parameters:
        value = arguments.get(each.argument)
        if value is None:
            continue
        match each.where:
            case "query":
                query += _pairs(each, value)
            case "cookie":
                cookies += _pairs(each, value)
            case _:
                texts[each.where][each.name] = _simple(each, value)
    path = paths.fill(operation.path, _complete(operation, texts["path"]))
    headers = texts["header"]
    if cookies:
        headers["Cookie"] = "; ".join(f"{quote(k)}={quote(v)}" for k, v in cookies)
    body = arguments.get(operation.body) if operation.body else None
    return _made(service, operation, path, query, headers, body)


@_sendable()
def requested(
    service: Service, method: str, path: str, query: Mapping[str, object] | None, body: object
) -> Prepared:
    """The request of a method and a path that has to be one of the service's own."""
    operation, path = paths.find(service.operations, method, path)
    pairs = [
        (name, _text(each))
        for name, value in (query or {}).items()
        for each in (value if isinstance(value, list) else [value])
        if each is not None
    ]
    return _made(service, operation, path, pairs, {}, body, raw=True)


def _made(
    service: Service,
    operation: Operation,
    path: str,
    query: Pairs,
    headers: dict[str, str],
    body: object,
    *,
    raw: bool = False,
) -> Prepared:
    import httpx

    if service.base is None:
        raise MCPToolCallError(f"it is not known yet where {service.name} is")
    below = urls.below(httpx.URL(service.base), path)
    if query:
        text = urlencode(query, quote_via=quote)
        below = below.copy_with(raw_path=below.raw_path + b"?" + text.encode())
    content = None
    if body is not None:
        headers["Content-Type"], content = _content(operation, body, raw=raw)
    for name, value in headers.items():
        _check_header(name, value)
    ours = {name.lower() for name in (*variables(service), *service.secrets)}
    kept = {name: value for name, value in headers.items() if name.lower() not in ours}
    return Prepared(service, operation.method, path, below, kept, content)


def _complete(operation: Operation, values: dict[str, str]) -> dict[str, str]:
    for each in operation.parameters:
        if each.where == "path" and each.name not in values:
            raise InvalidArgumentsError(f"{each.argument}: is required, it is a part of the path")
    return values


def _check_header(name: str, value: str) -> None:
    if not TOKEN.fullmatch(name) or not re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value):
        raise InvalidArgumentsError(f"{visible(name)}: this cannot be the value of a header")


def _text(value: object) -> str:
    """A value as it stands in a URL or header."""
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


def _simple(parameter: Parameter, value: object) -> str:
    """One text, as paths and headers have it."""
    if parameter.as_json:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return ",".join(map(_text, value))
    if isinstance(value, dict):
        joint = "=" if parameter.explode else ","
        return ",".join(f"{key}{joint}{_text(each)}" for key, each in value.items())
    return _text(value)


def _pairs(parameter: Parameter, value: object) -> Iterator[tuple[str, str]]:
    """Names and values, as queries and cookies have them."""
    name = parameter.name
    if parameter.as_json or not isinstance(value, list | dict):
        yield name, _simple(parameter, value)
    elif parameter.style == "deepObject":
        yield from _deep(name, value)
    elif isinstance(value, dict) and parameter.explode:
        yield from ((str(key), _text(each)) for key, each in value.items())
    elif isinstance(value, list) and parameter.explode:
        yield from ((name, _text(each)) for each in value)
    elif isinstance(value, list):
        yield name, _SEPARATORS.get(parameter.style, ",").join(map(_text, value))
    else:
        yield name, _simple(parameter, value)


def _deep(name: str, value: object) -> Iterator[tuple[str, str]]:
    """What is inside, each value under its whole way there: `items[0][price]`."""
    stack = [(name, value)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict | list):
            inside = list(value.items() if isinstance(value, dict) else enumerate(value))
            stack += [(f"{name}[{key}]", each) for key, each in reversed(inside)]
        else:
            yield name, _text(value)


def _content(operation: Operation, body: object, *, raw: bool) -> tuple[str, bytes]:
    """Content type and bytes. What a model wrote as text itself (`raw`) is sent as it is."""
    media = operation.media or (
        "text/plain; charset=utf-8" if isinstance(body, str) else "application/json"
    )
    kind = media.partition(";")[0].strip().lower()
    if kind == _FORM and isinstance(body, dict):
        return media, urlencode(list(_written(body, operation.deep))).encode()
    if kind == _PARTS and isinstance(body, dict):
        return _multipart(body, _files(operation))
    is_json = kind == "application/json" or kind.endswith("+json")
    if isinstance(body, str) and (raw or not is_json):
        return media, body.encode("utf-8", "replace")
    return media, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _written(body: Mapping[str, object], deep: Collection[str]) -> Iterator[tuple[str, str]]:
    """The fields of a form; those that are `deep` as a deepObject is."""
    for name, value in body.items():
        if name in deep:
            yield from _deep(name, value)
        else:
            yield from ((key, _text(each)) for key, each in _fields({name: value}))


def _fields(body: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for name, value in body.items():
        yield from ((name, each) for each in (value if isinstance(value, list) else [value]))


def _multipart(body: Mapping[str, object], files: Collection[str]) -> tuple[str, bytes]:
    """The fields as parts; the boundary follows from them, so that what is shown is sent."""
    import httpx

    fields = [(name, _text(value)) for name, value in _fields(body)]
    boundary = hashlib.sha256(repr(fields).encode()).hexdigest()[:32]
    media = f"{_PARTS}; boundary={boundary}"
    parts = [(name, (name if name in files else None, value.encode())) for name, value in fields]
    request = httpx.Request("POST", "http://x", headers={"Content-Type": media}, files=parts)
    return media, request.read()


def _files(operation: Operation) -> Collection[str]:
    """The fields of a form that are files."""
    body = operation.arguments.get("properties", {}).get(operation.body or "", {})
    fields = body.get("properties", {})
    return {name for name, schema in fields.items() if schema.get("format") == "binary"}
