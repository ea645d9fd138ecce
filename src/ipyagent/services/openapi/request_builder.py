"""Build requests exactly as they will be sent: shown to the user first, then sent."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from ipyagent.digests import digest_text
from ipyagent.errors import InvalidArgumentsError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.schema import Preview
from ipyagent.services.openapi import paths, urls
from ipyagent.services.openapi.arguments import Parameter
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.registry import Service, header_variables

if TYPE_CHECKING:
    import httpx

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A valid name of a header."""

_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|", "tabs": "\t"}
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
                query += _encode_pairs(each, value)
            case "cookie":
                cookies += _encode_pairs(each, value)
            case _:
                texts[each.where][each.name] = _encode_value(each, value)
    path = paths.fill(operation.path, _require_path_values(operation, texts["path"]))
    headers = texts["header"]
    if cookies:
        headers["Cookie"] = "; ".join(f"{quote(k)}={quote(v)}" for k, v in cookies)
    body = arguments.get(operation.body) if operation.body else None
    return _build(service, operation, path, query, headers, body)


@_sendable()
def prepare_request(
    service: Service, method: str, path: str, query: Mapping[str, object] | None, body: object
) -> PreparedRequest:
    """Return the request for a method and a path, which must be one of the service's own."""
    operation, path = paths.find(service.operations, method, path)
    pairs = [
        (name, _as_text(each))
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
    request_url = urls.join_path(httpx.URL(operation.base or service.base), path)
    if query:
        text = urlencode(query, quote_via=quote)
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


def _encode_value(parameter: Parameter, value: object) -> str:
    """Return a value as one text, as in paths and headers."""
    if parameter.as_json:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    if isinstance(value, dict):
        separator = "=" if parameter.explode else ","
        return ",".join(f"{key}{separator}{_as_text(each)}" for key, each in value.items())
    return _as_text(value)


def _encode_pairs(parameter: Parameter, value: object) -> Iterator[tuple[str, str]]:
    """Yield names and values, as in queries and cookies."""
    name = parameter.name
    if parameter.as_json or not isinstance(value, list | dict):
        yield name, _encode_value(parameter, value)
    elif parameter.style == "deepObject":
        yield from _encode_deep(name, value)
    elif isinstance(value, dict) and parameter.explode:
        yield from ((str(key), _as_text(each)) for key, each in value.items())
    elif isinstance(value, list) and parameter.explode:
        yield from ((name, _as_text(each)) for each in value)
    elif isinstance(value, list):
        yield name, _SEPARATORS.get(parameter.style, ",").join(map(_as_text, value))
    else:
        yield name, _encode_value(parameter, value)


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
    kind = media.partition(";")[0].strip().lower()
    if kind == _FORM and isinstance(body, dict):
        return media, urlencode(list(_encode_form(body, operation.deep))).encode()
    if kind == _MULTIPART and isinstance(body, dict):
        return _multipart(body, _file_fields(operation))
    is_json = kind == "application/json" or kind.endswith("+json")
    if isinstance(body, str) and (raw or not is_json):
        return media, body.encode("utf-8", "replace")
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
