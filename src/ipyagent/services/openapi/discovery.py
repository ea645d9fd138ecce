"""Look up a service: find and parse its description, choose its base URL, read its operations."""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeGuard

import httpx
import yaml

from ipyagent.errors import AgentError, ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import MAX_DEPTH, JsonDict, as_json, object_of
from ipyagent.plaintext import excerpt, visible
from ipyagent.services.openapi import operations, transport
from ipyagent.services.openapi.operations import NotCallableError, Service
from ipyagent.services.openapi.tools import build_headers, make_guard
from ipyagent.services.openapi.transport import (
    AddressGuard,
    RefusedAddressError,
    Resolve,
    connect,
    format_url,
    is_public,
)

MAX_BYTES = 20_000_000  # GitHub's has 13 million
MAX_YAML_BYTES = 2_000_000  # it takes twenty times as long to read as JSON
MAX_NODES = 2_000_000

_VERSIONS = ("2.0", "3.0", "3.1", "3.2")


def parse_document(data: bytes) -> JsonDict:
    """Parse a JSON or YAML description; raises ConfigError."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        is_wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as of PowerShell
        text = data.decode("utf-16" if is_wide else "utf-8-sig")
        given = json.loads(text) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text)
        if not isinstance(given, dict) or not isinstance(given.get("paths"), dict):
            raise ConfigError("it is not an OpenAPI description: it has no `paths`")
        _check_size(given)
        document: JsonDict = as_json(given)
        _check_version(document)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ConfigError("it is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"it is not JSON ({error})") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise read_error(error) from None
    return document


def read_document(path: Path) -> JsonDict:
    """Return the description in a file; raises ConfigError."""
    try:
        with path.open("rb") as file:
            return parse_document(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_error(error: Exception) -> ConfigError:
    """Return the error for an unexpected failure while reading."""
    return ConfigError(f"it cannot be read: {excerpt(error, 200)}")


def _check_version(document: JsonDict) -> None:
    version = document.get("swagger") or document.get("openapi") or "nothing"
    declared = f"{version}.0" if version in (2, 3, "2", "3") else str(version)
    supported = next((each for each in _VERSIONS if declared.startswith(each)), None)
    if supported is None or (supported == "2.0") != ("swagger" in document):
        raise ConfigError(f"its version is {visible(declared[:20])}; 2.0 and 3.0 to 3.2 are known")


_YAML_WORDS = {
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": ("true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    "int": (r"[-+]?\d+|0o[0-7]+|0x[\da-fA-F]+", [*"-+0123456789"]),
    "float": (r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?", [*"-+.0123456789"]),
    "merge": ("<<", ["<"]),
}
"""Plain words that are no text, by type: a pattern and the characters it may begin with."""

_TAG = "tag:yaml.org,2002:"
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """A loader of YAML 1.2 without types that JSON lacks; all keys are text.

    PyYAML reads YAML 1.1, where NO is false, 010 is 8 and 12:30 is 750.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        self.flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep)

    def construct_int(self, node: Any) -> int:
        text = str(self.construct_scalar(node))
        return int(text, 0 if text[:2] in ("0x", "0o") else 10)


_Loader.add_constructor(f"{_TAG}int", _Loader.construct_int)
_Loader.add_constructor(f"{_TAG}merge", _SafeLoader.construct_yaml_str)  # where it is a value
for _kind, (_pattern, _first) in _YAML_WORDS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"(?:{_pattern})$"), _first)


def _parse_yaml(text: str) -> Any:
    if len(text) > MAX_YAML_BYTES:
        raise ConfigError(f"as YAML it is larger than {MAX_YAML_BYTES:,} bytes; use JSON")
    try:
        _check_flat(yaml.parse(text, _Loader))
        return yaml.load(text, _Loader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        if "nesting depth" in str(error):  # newer versions of LibYAML have a limit
            raise ConfigError("it is nested too deeply") from None
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f" (line {mark.line + 1}: {excerpt(problem, 100)})" if mark else ""
        raise ConfigError(f"it is neither JSON nor YAML{place}") from None


def _check_flat(events: Iterator[object]) -> None:
    """Raise if building the values is unsafe: LibYAML's deep nesting ends the process."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise ConfigError("it is nested too deeply")


def _check_size(document: JsonDict) -> None:
    """Raise if the document, aliases followed, is endless or too large."""
    stack: list[object] = [document]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    raise ConfigError(f"it holds more than {MAX_NODES:,} values, or itself")


_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 (names of this machine)


def server_in(path: Path) -> httpx.URL:
    """Return the first server in a description file; raises ConfigError."""
    for each in list_servers(read_document(path)):
        if each.startswith("//"):  # with the scheme of the description, which is a file here
            each = f"http{'' if httpx.URL(each).host in _LOOPBACK else 's'}:{each}"
        if each.startswith(("http://", "https://")) and "{" not in each:
            return transport.parse_url(each)
    raise ConfigError(f"{path} does not say where the service is; add --base URL")


def choose_base(
    document: JsonDict, location: httpx.URL, service: httpx.URL, *, explicit: bool
) -> tuple[httpx.URL, str]:
    """Return the base URL, on the origin of `service`, and a server elsewhere if only such are."""
    base, other = choose_server(list_servers(document), location, service)
    if base is not None:
        return base, ""
    root = service.copy_with(raw_path=b"/")
    prefix = transport.path_of(service)
    # Without servers, OpenAPI counts paths from the root. Many mean the address they were found
    # at, unless they name its path themselves.
    names_it = prefix and all(path.startswith(f"{prefix}/") for path in document["paths"])
    return (root if explicit or names_it else service), other


def choose_server(
    listed: list[str], location: httpx.URL, service: httpx.URL
) -> tuple[httpx.URL | None, str]:
    """Return the first server on the origin of `service`, and one elsewhere that is before it."""
    other = ""
    for each in listed:
        try:
            url = _same_server(location.join(each or "/"), service)
            same_origin = transport.origin(url) == transport.origin(service)
        except (httpx.InvalidURL, ValueError):
            continue
        if same_origin and not url.userinfo and _is_clean(url) and "{" not in each:
            query = b"?" + url.query if url.query else b""
            target = (transport.path_of(url) or "/").encode() + query
            return url.copy_with(raw_path=target, fragment=None), other
        other = other or each
    return None, other


def _same_server(url: httpx.URL, service: httpx.URL) -> httpx.URL:
    """Return a URL on the origin of `service` if it only names that otherwise.

    Services behind a proxy write http for their own https, with either port.
    """
    ports = {url.port, transport.origin(url)[2]} & {service.port, 443}
    is_proxied = (url.scheme, service.scheme) == ("http", "https") and (url.port is None or ports)
    is_local = {url.host, service.host} <= _LOOPBACK and url.port == service.port
    if (is_proxied and url.host == service.host) or (is_local and url.scheme == service.scheme):
        return url.copy_with(scheme=service.scheme, host=service.host, port=service.port)
    return url


def _is_clean(url: httpx.URL) -> bool:
    path = transport.path_of(url)
    return "//" not in path and "%2e" not in path.lower() and "\\" not in path


def list_servers(node: JsonDict) -> list[str]:
    """Return the servers in a document, a path's item or an operation, variables filled in."""
    if "swagger" in node:
        return _swagger_servers(node)
    listed = node.get("servers")
    named = (object_of(each) for each in (listed[:20] if isinstance(listed, list) else ()))
    return [
        _fill_variables(each["url"].strip()[:2_000], each.get("variables"))
        for each in named
        if isinstance(each.get("url"), str)
    ]


def _fill_variables(url: str, variables: object) -> str:
    for name, given in list(object_of(variables).items())[:20]:
        variable = object_of(given)
        choices = variable.get("enum")
        first = choices[0] if isinstance(choices, list) and choices else ""
        value = str(variable.get("default", first))
        url = url.replace(f"{{{name}}}", value[:200])[:2_000]
    return url


def _swagger_servers(document: JsonDict) -> list[str]:
    """Return the servers of Swagger 2, also if host or path are written as addresses."""
    given = (document.get("host"), document.get("basePath"))
    host, path = (each.strip() if isinstance(each, str) else "" for each in given)
    scheme, _, host = host.rstrip("/").rpartition("://")
    path = re.sub(r"^\w+://[^/]*", "", path)
    path = f"/{path.lstrip('/')}" if path else ""
    if not host:
        return [path] if path else []
    schemes = document.get("schemes")
    listed = schemes if isinstance(schemes, list) and schemes else [scheme]
    return [f"{each}://{host}{path}" if each else f"//{host}{path}" for each in listed]


log = logging.getLogger("ipyagent")

TRY_SECONDS = 6.0
"""Seconds that one place may take to return a description."""

_MAX_REDIRECTS = 3


async def look_up(
    service: Service, environ: Mapping[str, str], resolve: Resolve
) -> tuple[Service, list[str]]:
    """Return the service with its description's operations, and lines to show about it.

    Without a description it keeps its operations. Raises ConfigError if its address is not allowed.
    """
    notes: list[str] = []
    try:
        service, notes = await _pin_addresses(service, resolve)
        document, location = await _find_document(service, environ, resolve)
        service, lines = await asyncio.to_thread(_interpret, service, document, location)
    except RefusedAddressError as error:
        raise ConfigError(f"{service.name}: {error}") from None
    except (AgentError, TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = error if isinstance(error, AgentError) else read_error(error)
        log.warning("%s: %s", service.name, problem)
        outcome = (
            f"The operations of {service.name} that were known before are kept."
            if service.operations
            else f"{service.name} is registered without tools; `%agent api refresh {service.name}` "
            "looks again."
        )
        lines = [f"{service.name}: {problem}", outcome]
    return service, [*lines, *notes]


async def _pin_addresses(service: Service, resolve: Resolve) -> tuple[Service, list[str]]:
    """Return the service with the private addresses that were registered."""
    if service.known is not None:
        return service, []
    known: dict[str, str] = {}
    for url in (service.url, service.document):
        if _is_url(url):
            _, host, port = transport.origin(httpx.URL(url))
            addresses = await AddressGuard(resolve=resolve).resolve_host(host, port)
            known |= {str(each): host for each in addresses if not is_public(each)}
    notes = [
        f"{host} is {'' if host == address else f'at {address}, '}not on the open Internet; "
        "that is allowed for this service alone."
        for address, host in known.items()
    ]
    return service.model_copy(update={"known": tuple(known)}), notes


def _is_url(text: str | None) -> TypeGuard[str]:
    return text is not None and "://" in text


async def _find_document(
    service: Service, environ: Mapping[str, str], resolve: Resolve
) -> tuple[JsonDict, httpx.URL]:
    """Return the service's description and its final URL; raises MCPError and ConfigError.

    The credentials go to the origin of the service only.
    """
    url = httpx.URL(service.url)
    if service.document and not _is_url(service.document):
        return await asyncio.to_thread(read_document, Path(service.document)), url
    try:
        credentials = build_headers(service, environ)
    except AgentError:  # many descriptions need no credentials
        credentials = {}
    document = httpx.URL(service.document) if service.document else None
    places = (
        [document]
        if document
        else [transport.join_path(url, known) for known in transport.WELL_KNOWN]
    )
    guard = make_guard(service, resolve)
    failures: list[str] = []
    for place in places:
        headers = credentials if transport.origin(place) == transport.origin(url) else {}
        try:
            return await _fetch(place, guard, headers)
        except MCPConnectionError as error:
            log.warning("%s: %s", place, error)
            raise
        except (ConfigError, MCPError) as error:
            log.warning("no description at %s: %s", place, error)
            failures.append(f"\n  {visible(str(place))}: {error}")
    raise MCPToolCallError(f"no OpenAPI description was found:{''.join(failures)}")


async def _fetch(
    place: httpx.URL, guard: AddressGuard, headers: Mapping[str, str]
) -> tuple[JsonDict, httpx.URL]:
    """Return the document at a place and its final URL, within TRY_SECONDS in all."""
    async with connect(
        guard, connect=TRY_SECONDS - 1, total=TRY_SECONDS, max_bytes=MAX_BYTES + 1
    ) as connection:
        target = place
        for _ in range(_MAX_REDIRECTS + 1):
            reply = await connection.send("GET", target, headers)
            if (redirect := reply.location) is None:
                break
            if transport.origin(redirect) != transport.origin(place) or redirect.userinfo:
                raise MCPToolCallError(
                    f"it redirects to {visible(str(redirect)[:200])}; not followed"
                )
            target = redirect
    if not reply.ok:
        raise MCPToolCallError(f"it answered {reply.status}")
    return await asyncio.to_thread(parse_document, reply.body), reply.url


def _interpret(
    service: Service, document: JsonDict, location: httpx.URL
) -> tuple[Service, list[str]]:
    """Return the service with the operations of a document, and lines about it."""
    base, other = httpx.URL(service.url), ""
    if not service.moved:
        explicit = service.document is not None
        base, other = choose_base(document, location, base, explicit=explicit)

    def choose_own(item: JsonDict, operation: JsonDict) -> str | None:
        listed = list_servers(operation) or list_servers(item)
        own, _ = choose_server(listed, location, base)
        if listed and own is None:
            raise NotCallableError(
                f"its server is {excerpt(listed[0], 100)}, which is not the service's; register "
                "it as a service of its own"
            )
        return str(own) if own not in (None, base) else None

    content = operations.read(document, choose_own)
    notices = [*content.notices]
    if other:
        notices.append(
            f"it names other servers ({excerpt(other, 100)}), which are ignored: requests go to "
            f"{format_url(base)} only; if they are meant, register it again with --base URL"
        )
    has_key = bool(service.variables or service.secrets)
    notices += _key_notices(document, has_key=has_key)
    title = excerpt(object_of(document.get("info")).get("title") or "", 80)
    count = operations.count_operations(content.operations)
    head = f"{service.name}{title and f' ({title})'}: {count} at {format_url(base)}"
    found = service.model_copy(update={"base": str(base), "operations": content.operations})
    return found, [head, *(f"{service.name}: {each}" for each in notices)]


def _key_notices(document: JsonDict, *, has_key: bool) -> Iterator[str]:
    """Yield how the service takes its keys, and the places where none is ever sent."""
    schemes = object_of(document.get("components")).get("securitySchemes")
    schemes = object_of(schemes or document.get("securityDefinitions"))
    options: dict[str, None] = {}
    for each in map(object_of, list(schemes.values())[:20]):
        name, where = excerpt(each.get("name") or "", 60), each.get("in")
        if each.get("type") != "apiKey":
            basic = "basic" in (each.get("scheme"), each.get("type"))
            options[f"--{'header-env Authorization=' if basic else 'auth-env '}VARIABLE"] = None
        elif where == "header":
            options[f"--header-env {name}=VARIABLE"] = None
        else:
            place = "query" if where == "query" else "cookies"
            yield f"it takes a key in its {place} (`{name}`), which is never sent"
    if options and not has_key:
        yield f"it asks for a key; register it again with {' or '.join(options)}"
