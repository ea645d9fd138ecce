"""The base URL of a service's requests, from the servers that its description names."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from ipyagent.errors import ConfigError
from ipyagent.json_types import object_of
from ipyagent.services.openapi import documents, urls
from ipyagent.services.openapi.documents import Document

_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 (names of this machine)


def server_in(path: Path) -> httpx.URL:
    """Return the first server in a description file; raises ConfigError."""
    for each in list_servers(documents.read_file(path)):
        if each.startswith("//"):  # with the scheme of the description, which is a file here
            each = f"http{'' if httpx.URL(each).host in _LOOPBACK else 's'}:{each}"
        if each.startswith(("http://", "https://")) and "{" not in each:
            return urls.parse_url(each)
    raise ConfigError(f"{path} does not say where the service is; add --base URL")


def choose_base(
    document: Document, location: httpx.URL, service: httpx.URL, *, explicit: bool
) -> tuple[httpx.URL, str]:
    """Return the base URL, on the origin of `service`, and a server elsewhere if only such are."""
    base, other = choose_server(list_servers(document), location, service)
    if base is not None:
        return base, ""
    root = service.copy_with(raw_path=b"/")
    prefix = urls.path_of(service)
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
            same_origin = urls.origin(url) == urls.origin(service)
        except (httpx.InvalidURL, ValueError):
            continue
        if same_origin and not url.userinfo and _is_clean(url) and "{" not in each:
            query = b"?" + url.query if url.query else b""
            target = (urls.path_of(url) or "/").encode() + query
            return url.copy_with(raw_path=target, fragment=None), other
        other = other or each
    return None, other


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


def list_servers(node: Document) -> list[str]:
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
