"""Look up a service: find its description, and read its operations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

import httpx

from ipyagent.errors import AgentError, ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict, object_of
from ipyagent.plaintext import excerpt, visible
from ipyagent.services.openapi import documents, operations, urls
from ipyagent.services.openapi.arguments import NotCallableError
from ipyagent.services.openapi.calls import build_headers, make_guard
from ipyagent.services.openapi.documents import Document
from ipyagent.services.openapi.registry import Service
from ipyagent.services.openapi.servers import choose_base, choose_server, list_servers
from ipyagent.services.openapi.transport import connect
from ipyagent.services.openapi.urls import AddressGuard, RefusedAddressError, Resolve, is_public

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
        problem = error if isinstance(error, AgentError) else documents.read_error(error)
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
            _, host, port = urls.origin(httpx.URL(url))
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
) -> tuple[Document, httpx.URL]:
    """Return the service's description and its final URL; raises MCPError and ConfigError.

    The credentials go to the origin of the service only.
    """
    url = httpx.URL(service.url)
    if service.document and not _is_url(service.document):
        return await asyncio.to_thread(documents.read_file, Path(service.document)), url
    try:
        credentials = build_headers(service, environ)
    except AgentError:  # many descriptions need no credentials
        credentials = {}
    document = httpx.URL(service.document) if service.document else None
    places = [document] if document else [urls.join_path(url, known) for known in urls.WELL_KNOWN]
    guard = make_guard(service, resolve)
    failures: list[str] = []
    for place in places:
        headers = credentials if urls.origin(place) == urls.origin(url) else {}
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
) -> tuple[Document, httpx.URL]:
    """Return the document at a place and its final URL, within TRY_SECONDS in all."""
    async with connect(
        guard, connect=TRY_SECONDS - 1, total=TRY_SECONDS, max_bytes=documents.MAX_BYTES + 1
    ) as connection:
        target = place
        for _ in range(_MAX_REDIRECTS + 1):
            reply = await connection.send("GET", target, headers)
            if (redirect := reply.location) is None:
                break
            if urls.origin(redirect) != urls.origin(place) or redirect.userinfo:
                raise MCPToolCallError(
                    f"it redirects to {visible(str(redirect)[:200])}; not followed"
                )
            target = redirect
    if not reply.ok:
        raise MCPToolCallError(f"it answered {reply.status}")
    return await asyncio.to_thread(documents.parse, reply.body), reply.url


def _interpret(
    service: Service, document: Document, location: httpx.URL
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
            f"{urls.format_url(base)} only; if they are meant, register it again with --base URL"
        )
    has_key = bool(service.variables or service.secrets)
    notices += _key_notices(document, has_key=has_key)
    title = excerpt(object_of(document.get("info")).get("title") or "", 80)
    count = operations.count_operations(content.operations)
    head = f"{service.name}{title and f' ({title})'}: {count} at {urls.format_url(base)}"
    found = service.model_copy(update={"base": str(base), "operations": content.operations})
    return found, [head, *(f"{service.name}: {each}" for each in notices)]


def _key_notices(document: Document, *, has_key: bool) -> Iterator[str]:
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
