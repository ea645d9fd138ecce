"""Connections to services: one client for each event loop, so that connections are kept.

Proxies and certificates are those of the environment, at the time of the request: HTTPS_PROXY,
HTTP_PROXY, ALL_PROXY, NO_PROXY; SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import lru_cache
from weakref import WeakKeyDictionary

import certifi
import httpx

IDLE = 60.0
"""Seconds that an idle connection is kept; one that is silent for longer may have died unseen."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_KEY_HEADER, _ORIGIN = "ipyagent.key_header", "ipyagent.origin"

_Environment = tuple[str | None, ...]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Environment, httpx.AsyncClient]] = (
    WeakKeyDictionary()
)


def client() -> httpx.AsyncClient:
    """Return the running loop's client."""
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    environment = _read_environment()
    if environment not in clients:
        clients[environment] = httpx.AsyncClient(
            verify=trust(_bundle(), os.environ.get("SSL_CERT_DIR")),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE),
            follow_redirects=True,
            event_hooks={"request": [_drop_key_elsewhere]},
        )
    return clients[environment]


async def close() -> None:
    """Close the running loop's connections."""
    for each in _clients.pop(asyncio.get_running_loop(), {}).values():
        await each.aclose()


def mark_key(header: str) -> dict[str, str]:
    """Return the extensions of a request whose key is in that header, and goes to its host only."""
    return {_KEY_HEADER: header}


async def _drop_key_elsewhere(request: httpx.Request) -> None:
    """Drop the key of a request that was redirected to another host.

    httpx does so only for `authorization`, and knows of no other header that holds a key.
    """
    origin = (request.url.scheme, request.url.host, request.url.port)
    header = request.extensions.get(_KEY_HEADER)
    if header and request.extensions.setdefault(_ORIGIN, origin) != origin:
        request.headers.pop(header, None)


@lru_cache(maxsize=4)
def trust(bundle: str | None, folder: str | None) -> ssl.SSLContext:
    """Return a context that trusts a file's or folder's certificates, without both certifi's."""
    if not bundle and not folder:
        bundle = certifi.where()
    return ssl.create_default_context(cafile=bundle or None, capath=folder or None)


def prepare() -> None:
    """Prepare the first request in advance: certificates take the longest."""
    trust(_bundle(), os.environ.get("SSL_CERT_DIR"))


def _bundle() -> str | None:
    return next((value for name in _BUNDLES if (value := os.environ.get(name))), None)


def _read_environment() -> _Environment:
    proxies = (os.environ.get(n) or os.environ.get(n.upper()) for n in _PROXIES)
    return (*proxies, _bundle(), os.environ.get("SSL_CERT_DIR"))
