"""Look up services: find descriptions, choose base URLs, and store what was found.

Registrations and operations are stored in the user's own data directory, never in the folder, so
the tools are available without a network in the next kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import httpx
from pydantic import ValidationError

from ipyagent.config import MCPServerConfig
from ipyagent.config.sources import UserDataFile, folder_key
from ipyagent.digests import digest_text
from ipyagent.errors import AgentError, ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict, object_of
from ipyagent.plaintext import excerpt, plural, visible
from ipyagent.services import find_credentials, secret_headers
from ipyagent.services.openapi import REGISTRY, Configured, configured_services, transport
from ipyagent.services.openapi.documents import (
    MAX_BYTES,
    MAX_STORED,
    NotCallableError,
    Operation,
    Service,
    parse_document,
    read_document,
    read_error,
    read_operations,
)
from ipyagent.services.openapi.requests import make_guard
from ipyagent.services.openapi.transport import (
    AddressGuard,
    RefusedAddressError,
    Resolve,
    format_url,
    is_public,
)

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
        given = service.secrets, service.header_env, service.token_env
        credentials = find_credentials(*given, environ)
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
    """Return the document at a place and its final URL, within TRY_SECONDS for each address."""
    target = place
    for _ in range(_MAX_REDIRECTS + 1):
        reply, _ = await transport.send(
            guard,
            "GET",
            target,
            headers,
            connect=TRY_SECONDS - 1,
            total=TRY_SECONDS,
            max_bytes=MAX_BYTES + 1,
        )
        if not reply.has_redirect_location:
            break
        try:
            redirect = target.join(reply.headers["Location"])
        except httpx.InvalidURL:
            raise MCPToolCallError("it redirects to what is not an address") from None
        if transport.origin(redirect) != transport.origin(place) or redirect.userinfo:
            raise MCPToolCallError(f"it redirects to {visible(str(redirect)[:200])}; not followed")
        target = redirect
    if not reply.is_success:
        raise MCPToolCallError(f"it answered {reply.status_code}")
    return await asyncio.to_thread(parse_document, reply.content), target


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

    content = read_operations(document, choose_own)
    notices = [*content.notices]
    if other:
        notices.append(
            f"it names other servers ({excerpt(other, 100)}), which are ignored: requests go to "
            f"{format_url(base)} only; if they are meant, register it again with --base URL"
        )
    has_key = bool(service.variables or service.secrets)
    notices += _key_notices(document, has_key=has_key)
    title = excerpt(object_of(document.get("info")).get("title") or "", 80)
    count = plural(len(content.operations), "operation")
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


class Registry:
    """The services of one folder."""

    def __init__(self, folder: Path, configured: Configured = ()) -> None:
        self._folder = folder
        self._configured = configured
        self._cache: dict[Path, tuple[JsonDict, tuple[Operation, ...]]] = {}

    def all(self) -> dict[str, Service]:
        """Return all services by name, those of the settings first; raises ConfigError."""
        stored = dict(self._read_stored())
        services = {}
        for each in map(_from_config, configured_services(self._configured)):
            known = stored.get(each.name)
            if known and (known.url, known.document) == (each.url, each.document):
                facts = {name: getattr(known, name) for name in ("base", "active", "known")}
                each = each.model_copy(update=facts)
            services[each.name] = each
        for name, service in stored.items():
            if not service.configured:
                services.setdefault(name, service)
        return {name: self._with_operations(each) for name, each in services.items()}

    def get(self, name: str) -> Service:
        """Return the service with that name; raises ConfigError with the names of all."""
        services = self.all()
        if name not in services:
            known = ", ".join(services) or "none"
            raise ConfigError(f"no service is named {name!r}; there are: {known}")
        return services[name]

    def save(self, service: Service, *, operations: bool = False) -> None:
        """Add or replace a service; raises ConfigError."""
        if operations:
            lines = [each.dump_line() for each in service.operations]
            self._file(service).rewrite(lambda _: {"operations": lines})
        record = service.to_dict()
        REGISTRY.rewrite_of(self._folder, lambda mine: {**mine, service.name: record})

    def remove(self, service: Service) -> None:
        """Remove a service."""
        REGISTRY.rewrite_of(
            self._folder, lambda mine: {k: v for k, v in mine.items() if k != service.name}
        )
        path = self._file(service).path
        for each in (path, path.with_suffix(".lock")):
            with contextlib.suppress(OSError):
                each.unlink(missing_ok=True)

    def _read_stored(self) -> Iterator[tuple[str, Service]]:
        for name, record in REGISTRY.read_of(self._folder).items():
            try:
                yield name, Service.from_dict({**record, "name": name})
            except (ValidationError, TypeError) as error:
                log.warning("%s: %s is not a service: %s", REGISTRY.path, name, error)

    def _with_operations(self, service: Service) -> Service:
        """Return the service with its stored operations; none if they cannot be read."""
        file = self._file(service)
        old, operations = self._cache.get(file.path, ({}, ()))
        try:
            data = file.read()
            if data != old:
                lines = data.get("operations", [])
                operations = tuple(map(Operation.model_validate_json, lines))
                self._cache[file.path] = data, operations
        except (ConfigError, ValueError, TypeError) as error:
            log.warning("the operations of %s cannot be read: %s", service.name, error)
            return service
        return service.model_copy(update={"operations": operations})

    def _file(self, service: Service) -> UserDataFile:
        place = folder_key(self._folder)
        identity = "\0".join((place, service.name, service.url, service.document or ""))
        return UserDataFile(f"services/{digest_text(identity)[:16]}.json", MAX_STORED + 1_000)


_SHARED = ("name", "token_env", "header_env", "get_unasked", "connect_timeout", "execute_timeout")
"""The settings of a server that a service has, too."""


def _from_config(config: MCPServerConfig) -> Service:
    url, document = transport.parse_service(config.url or "")
    shared = {name: getattr(config, name) for name in _SHARED}
    secrets = secret_headers(config)
    return Service(url=str(url), document=document, configured=True, secrets=secrets, **shared)
