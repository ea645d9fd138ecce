"""Find a service's description, and the base URL of its requests."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipyagent.errors import ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import excerpt, visible
from ipyagent.services.openapi import documents, operations, urls
from ipyagent.services.openapi.arguments import NotCallableError
from ipyagent.services.openapi.documents import Document
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.transport import connect
from ipyagent.services.openapi.urls import AddressGuard

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("ipyagent")

TRY_SECONDS = 6.0
"""Seconds that one place may take to return a description."""

_MAX_REDIRECTS = 3


@dataclass(frozen=True)
class Discovery:
    """The content of a description; `base` is the URL that requests go to."""

    title: str
    base: str
    operations: tuple[Operation, ...]
    notices: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Options that register the service with the keys that it asks for."""


async def discover(
    url: httpx.URL,
    guard: AddressGuard,
    *,
    document: httpx.URL | None,
    base: httpx.URL | None,
    headers: Mapping[str, str],
) -> Discovery:
    """Return the description of the service at `url`, or at `document`.

    Raises MCPError and ConfigError. `headers` are for authentication; only the origin of the
    service gets them.
    """
    places = [document] if document else [urls.join_path(url, known) for known in urls.WELL_KNOWN]
    failures: list[str] = []
    for place in places:
        try:
            same_origin = urls.origin(place) == urls.origin(base or url)
            content, location = await _fetch(place, guard, headers if same_origin else {})
        except MCPConnectionError as error:
            log.warning("%s: %s", place, error)
            raise
        except (ConfigError, MCPError) as error:
            log.warning("no description at %s: %s", place, error)
            failures.append(f"{visible(str(place))}: {error}")
            continue
        return await asyncio.to_thread(
            _interpret, content, location, base or url, fixed=base, explicit=document is not None
        )
    listed = "\n".join(f"  {each}" for each in failures)
    raise MCPToolCallError(f"no OpenAPI description was found:\n{listed}")


def from_file(path: Path, base: httpx.URL) -> Discovery:
    """Return the description in one of the user's files; raises ConfigError."""
    return _interpret(_read_file(path), base, base, fixed=base, explicit=True)


def server_in(path: Path) -> httpx.URL:
    """Return the first server in a description file; raises ConfigError."""
    import httpx

    for each in _servers(_read_file(path)):
        if each.startswith("//"):  # with the scheme of the description, which is a file here
            each = f"http{'' if httpx.URL(each).host in _LOOPBACK else 's'}:{each}"
        if each.startswith(("http://", "https://")) and "{" not in each:
            return urls.parse_url(each)
    raise ConfigError(f"{path} does not say where the service is; add --base URL")


def _read_file(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            return documents.parse(file.read(documents.MAX_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


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
    document: Document,
    location: httpx.URL,
    service: httpx.URL,
    *,
    fixed: httpx.URL | None,
    explicit: bool,
) -> Discovery:
    """Interpret a document from `location`; `fixed` is the base URL, if the user gave one."""
    base, other = fixed, ""
    if base is None:
        base, other = _choose_base(document, location, service, explicit=explicit)

    def choose_own(item: JsonDict, operation: JsonDict) -> str | None:
        listed = _servers(operation) or _servers(item)
        own, _ = _choose_server(listed, location, base)
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
    keys, unsent = _list_keys(document)
    notices += [f"it takes a key in its {each}, which is never sent" for each in unsent]
    info = document.get("info")
    title = excerpt(info.get("title") or "", 80) if isinstance(info, dict) else ""
    return Discovery(title, str(base), content.operations, tuple(notices), tuple(keys))


def _list_keys(document: Document) -> tuple[list[str], list[str]]:
    """Return the options for keys in headers, and the other places where the service takes keys."""
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    schemes = schemes or document.get("securityDefinitions")
    listed = list(schemes.values())[:20] if isinstance(schemes, dict) else []
    options, unsent = [], []
    for each in (each for each in listed if isinstance(each, dict)):
        name, where = excerpt(each.get("name") or "", 60), each.get("in")
        if each.get("type") != "apiKey":
            basic = "basic" in (each.get("scheme"), each.get("type"))
            options.append(f"--{'header-env Authorization=' if basic else 'auth-env '}VARIABLE")
        elif where == "header":
            options.append(f"--header-env {name}=VARIABLE")
        else:
            unsent.append(f"{'query' if where == 'query' else 'cookies'} (`{name}`)")
    return list(dict.fromkeys(options)), unsent


def _choose_base(
    document: Document, location: httpx.URL, service: httpx.URL, *, explicit: bool
) -> tuple[httpx.URL, str]:
    """Return the base URL, on the origin of `service`, and a server elsewhere if only such are."""
    base, other = _choose_server(_servers(document), location, service)
    if base is not None:
        return base, ""
    root = service.copy_with(raw_path=b"/")
    prefix = urls.path_of(service)
    # Without servers, OpenAPI counts paths from the root. Many mean the address they were found
    # at, unless they name its path themselves.
    names_it = prefix and all(path.startswith(f"{prefix}/") for path in document["paths"])
    return (root if explicit or names_it else service), other


def _choose_server(
    listed: list[str], location: httpx.URL, service: httpx.URL
) -> tuple[httpx.URL | None, str]:
    """Return the first server on the origin of `service`, and one elsewhere that is before it."""
    import httpx

    other = ""
    for each in listed:
        try:
            url = _same_server(location.join(each or "/"), service)
            same_origin = urls.origin(url) == urls.origin(service)
        except (httpx.InvalidURL, ValueError):
            continue
        if same_origin and not url.userinfo and _is_clean(url) and "{" not in each:
            query = b"?" + url.query if url.query else b""
            target = (urls.path_of(url) or "/").encode() + query
            return url.copy_with(raw_path=target, fragment=None), other
        other = other or each
    return None, other


_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 (names of this machine)


def _same_server(url: httpx.URL, service: httpx.URL) -> httpx.URL:
    """Return a URL on the origin of `service` if it only names that otherwise.

    Services behind a proxy write http for their own https, with either port.
    """
    ports = {url.port, urls.origin(url)[2]} & {service.port, 443}
    is_proxied = (url.scheme, service.scheme) == ("http", "https") and (url.port is None or ports)
    is_local = {url.host, service.host} <= _LOOPBACK and url.port == service.port
    if (is_proxied and url.host == service.host) or (is_local and url.scheme == service.scheme):
        return url.copy_with(scheme=service.scheme, host=service.host, port=service.port)
    return url


def _is_clean(url: httpx.URL) -> bool:
    path = urls.path_of(url)
    return "//" not in path and "%2e" not in path.lower() and "\\" not in path


def _servers(document: Document) -> list[str]:
    """Return the servers in the document, variables filled in."""
    if "swagger" in document:
        return _swagger_servers(document)
    listed = document.get("servers")
    addresses = []
    for each in listed[:20] if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("url"), str):
            addresses.append(_fill_variables(each["url"].strip()[:2_000], each.get("variables")))
    return addresses


def _fill_variables(url: str, variables: object) -> str:
    named = list(variables.items())[:20] if isinstance(variables, dict) else []
    for name, variable in named:
        if isinstance(variable, dict):
            choices = variable.get("enum")
            first = choices[0] if isinstance(choices, list) and choices else ""
            value = str(variable.get("default", first))
            url = url.replace(f"{{{name}}}", value[:200])[:2_000]
    return url


def _swagger_servers(document: Document) -> list[str]:
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
