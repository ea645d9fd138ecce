"""Connections to services: clients of an event loop, which keep their connections.

Proxies and certificates are those of the environment, at the time of the request: HTTPS_PROXY,
HTTP_PROXY, ALL_PROXY, NO_PROXY; SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import certifi
import httpx

from ipyagent.errors import ModelRefusedError

IDLE = 60.0
"""Seconds that an idle connection is kept; one that is silent for longer may have died unseen."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_HERE = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""Servers on this machine: no proxy has to carry what is sent there, or may read it."""

_ORIGIN = "ipyagent.origin"

MOST = 16
"""Requests of a client at once: httpcore compares all of its connections at each."""


@dataclass
class Client:
    """A client, and the number of its requests that have not ended."""

    http: httpx.AsyncClient
    open: int = 0


_Environment = tuple[str | None, ...]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Environment, list[Client]]] = (
    WeakKeyDictionary()
)


@asynccontextmanager
async def post(address: str, **request: Any) -> AsyncIterator[httpx.Response]:
    """Send a request; leaving its answer closes the connection or keeps it."""
    client = free_client()
    client.open += 1
    try:
        async with client.http.stream("POST", address, **request) as response:
            yield response
    finally:
        client.open -= 1


def free_client() -> Client:
    """Return the first of the running loop's clients that has room."""
    environments = _clients.setdefault(asyncio.get_running_loop(), {})
    clients = environments.setdefault(_read_environment(), [])
    for each in clients:
        if each.open < MOST:
            return each
    http = httpx.AsyncClient(
        verify=trust(_bundle(), os.environ.get("SSL_CERT_DIR")),
        limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE),
        follow_redirects=True,
        event_hooks={"request": [_stay_at_origin]},
        mounts=dict.fromkeys(_HERE),
    )
    clients.append(client := Client(http))
    return client


async def close() -> None:
    """Close the running loop's connections."""
    for clients in _clients.pop(asyncio.get_running_loop(), {}).values():
        for each in clients:
            await each.http.aclose()


async def _stay_at_origin(request: httpx.Request) -> None:
    """Refuse a redirection to another scheme, host or port: key and conversation stay here."""
    url = request.url
    origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
    first = request.extensions.setdefault(_ORIGIN, origin)
    if first != origin:
        raise ModelRefusedError(
            f"{first} redirects to {origin}; neither the key nor the conversation was sent there."
        )


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
