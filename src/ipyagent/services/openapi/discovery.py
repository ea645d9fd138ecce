"""Finding a service's description, and what it says about where requests go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ipyagent.errors import ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.services.addresses import Guard
from ipyagent.services.openapi import documents, operations, urls
from ipyagent.services.openapi.documents import Document, told
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.transport import connected

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("ipyagent")

TRY_SECONDS = 6.0
"""How long one place may take to give a description."""

_MAX_REDIRECTS = 3


@dataclass(frozen=True)
class Discovered:
    """What a description says. `base` is where requests go."""

    title: str
    base: str
    operations: tuple[Operation, ...]
    notices: tuple[str, ...]


async def discover(
    url: httpx.URL,
    guard: Guard,
    *,
    document: httpx.URL | None,
    base: httpx.URL | None,
    headers: Mapping[str, str],
) -> Discovered:
    """The description of the service at `url`, or at `document`; raises MCPError, ConfigError.

    `headers` let us in; no other origin than that of the service gets them.
    """
    places = [document] if document else [urls.below(url, known) for known in urls.WELL_KNOWN]
    said: list[str] = []
    for place in places:
        try:
            own = urls.origin(place) == urls.origin(base or url)
            found, where = await _fetched(place, guard, headers if own else {})
        except MCPConnectionError as error:
            log.warning("%s: %s", place, error)
            raise
        except (ConfigError, MCPError) as error:
            log.warning("no description at %s: %s", place, error)
            said.append(f"{visible(str(place))}: {error}")
            continue
        return await asyncio.to_thread(
            _understood, found, where, base or url, fixed=base, explicit=document is not None
        )
    listed = "\n".join(f"  {each}" for each in said)
    raise MCPToolCallError(f"no description by OpenAPI was found:\n{listed}")


def from_file(path: Path, base: httpx.URL) -> Discovered:
    """The description in a file of the person's; raises ConfigError."""
    return _understood(_read(path), base, base, fixed=base, explicit=True)


def server_in(path: Path) -> httpx.URL:
    """The first server that the description in a file names; raises ConfigError."""
    for each in _servers(_read(path)):
        if each.startswith(("http://", "https://")):
            return urls.address(each)
    raise ConfigError(f"{path} does not say where the service is; add --base URL")


def _read(path: Path) -> Document:
    try:
        with path.open("rb") as file:
            return documents.parse(file.read(documents.MAX_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


async def _fetched(
    place: httpx.URL, guard: Guard, headers: Mapping[str, str]
) -> tuple[Document, httpx.URL]:
    """The document at a place and where it was in the end; within TRY_SECONDS in all."""
    async with connected(
        guard, connect=TRY_SECONDS - 1, total=TRY_SECONDS, most=documents.MAX_BYTES + 1
    ) as connection:
        target = place
        for _ in range(_MAX_REDIRECTS + 1):
            reply = await connection.send("GET", target, headers)
            if (there := reply.location) is None:
                break
            if urls.origin(there) != urls.origin(place) or there.userinfo:
                raise MCPToolCallError(f"it redirects to {visible(str(there)[:200])}; not followed")
            target = there
    if not reply.ok:
        raise MCPToolCallError(f"it answered {reply.status}")
    return await asyncio.to_thread(documents.parse, reply.body), reply.url


def _understood(
    document: Document,
    where: httpx.URL,
    home: httpx.URL,
    *,
    fixed: httpx.URL | None,
    explicit: bool,
) -> Discovered:
    """What the document says; `where` it was, `fixed` where requests go if the person said so."""
    found = operations.read(document)
    notices = [*found.notices]
    if wrong := documents.problems(document):
        notices.append("the description is not quite valid: " + "; ".join(wrong))
    base, elsewhere = fixed, False
    if base is None:
        base, elsewhere = _base(document, where, home, explicit=explicit)
    if elsewhere:
        notices.append(
            f"it names other servers, which are ignored: requests go to {urls.shown(base)} only; "
            "if they are meant, register it again with --base URL"
        )
    info = document.get("info")
    title = told(info.get("title") or "", 80) if isinstance(info, dict) else ""
    return Discovered(title, str(base), found.operations, tuple(notices))


def _base(
    document: Document, where: httpx.URL, home: httpx.URL, *, explicit: bool
) -> tuple[httpx.URL, bool]:
    """Where requests go, always on the origin of `home`; and whether others were named."""
    import httpx

    elsewhere = False
    for each in _servers(document):
        try:
            url = where.join(each)
            near = urls.origin(url) == urls.origin(home)
        except (httpx.InvalidURL, ValueError):
            continue
        if near and not url.userinfo and _is_clean(url):
            return url.copy_with(raw_path=urls.path_of(url).encode() or b"/"), False
        elsewhere = True
    root = home.copy_with(raw_path=b"/")
    prefix = urls.path_of(home)
    # Without servers, OpenAPI counts paths from the root. Many mean the address they were found
    # at, unless they name its path themselves.
    names_it = prefix and all(path.startswith(f"{prefix}/") for path in document["paths"])
    return (root if explicit or names_it else home), elsewhere


def _is_clean(url: httpx.URL) -> bool:
    path = urls.path_of(url)
    return "//" not in path and "%2e" not in path.lower() and "\\" not in path


def _servers(document: Document) -> list[str]:
    """The addresses that the document names, variables filled in."""
    if "swagger" in document:
        return _old_servers(document)
    listed = document.get("servers")
    found = []
    for each in listed[:20] if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("url"), str):
            found.append(_filled(each["url"][:2_000], each.get("variables")))
    return found


def _filled(url: str, variables: object) -> str:
    named = list(variables.items())[:20] if isinstance(variables, dict) else []
    for name, variable in named:
        if isinstance(variable, dict):
            url = url.replace(f"{{{name}}}", str(variable.get("default", ""))[:200])[:2_000]
    return url


def _old_servers(document: Document) -> list[str]:
    path, host = document.get("basePath") or "", document.get("host")
    if not isinstance(path, str):
        path = ""
    if not isinstance(host, str) or not host:
        return [path] if path.startswith("/") else []
    schemes = document.get("schemes")
    listed = schemes if isinstance(schemes, list) and schemes else [""]
    return [f"{each}://{host}{path}" if each else f"//{host}{path}" for each in listed]
