"""HTTP with a service, with limits on destination, time and size."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache

import httpx

from ipyagent.errors import MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.services.openapi import urls
from ipyagent.services.openapi.urls import AddressGuard

MAX_READ = 5_000_000
_CHUNK = 64 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class ServiceReply:
    """A service's reply; `cut` is true if its body was truncated."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes
    cut: bool = False

    @property
    def ok(self) -> bool:
        """True if the status reports success."""
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """The body's media type, in lower case."""
        return str(self.headers.get("Content-Type", "")).partition(";")[0].strip().lower()

    @property
    def location(self) -> httpx.URL | None:
        """The target of the redirect, if the reply is one."""
        target = self.headers.get("Location")
        if self.status not in _REDIRECTS or not target:
            return None
        try:
            return self.url.join(target)
        except httpx.InvalidURL:
            raise MCPToolCallError(f"it redirects to {visible(target[:200])!r}") from None


class ServiceClient:
    """A client for one service and one call. It ignores the environment's proxies and settings."""

    def __init__(self, client: httpx.AsyncClient, max_bytes: int) -> None:
        self._client, self._max_bytes = client, max_bytes

    async def send(
        self,
        method: str,
        url: httpx.URL,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> ServiceReply:
        """Send one request; return its reply. Redirects are not followed."""
        # As bytes, because httpx accepts text only in ASCII.
        encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in (headers or {}).items()]
        request = self._client.build_request(method, url, headers=encoded, content=body)
        reply = await self._client.send(request, stream=True)
        try:
            data, cut = await _read_body(reply, self._max_bytes)
        finally:
            await reply.aclose()
        return ServiceReply(url, reply.status_code, reply.headers, data, cut)


@contextlib.asynccontextmanager
async def connect(
    guard: AddressGuard, *, connect: float, total: float, max_bytes: int = MAX_READ
) -> AsyncIterator[ServiceClient]:
    """Connect for at most `total` seconds; raises MCPError for every failure."""
    client = httpx.AsyncClient(
        transport=_GuardedTransport(guard),
        timeout=httpx.Timeout(total, connect=min(connect, total)),
        headers={"User-Agent": "ipyagent", "Accept": "*/*", "Accept-Encoding": "identity"},
        follow_redirects=False,
        trust_env=False,
    )
    try:
        async with asyncio.timeout(total), client:
            yield ServiceClient(client, max_bytes)
    except (httpx.ConnectTimeout, httpx.ConnectError) as error:
        reason = str(error) or "no answer"
        raise MCPConnectionError(f"it cannot be reached: {visible(reason)}") from None
    except (TimeoutError, httpx.TimeoutException):
        raise MCPToolCallError(f"it did not answer in full within {total:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, zlib.error) as error:
        reason = str(error) or type(error).__name__
        raise MCPToolCallError(f"the connection failed: {visible(reason[:200])}") from None


class _GuardedTransport(httpx.AsyncHTTPTransport):
    """A transport that connects only to the addresses that were checked."""

    def __init__(self, guard: AddressGuard) -> None:
        super().__init__(verify=_certificates(), trust_env=False)
        self._guard = guard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request to the first address of its host that takes connections."""
        url = request.url
        _, host, port = urls.origin(url)
        # TLS still asks for the certificate of the host, and `Host` names it already.
        request.extensions["sni_hostname"] = host
        last: Exception | None = None
        for address in await self._guard.addresses(host, port):
            request.url = url.copy_with(host=address)
            try:
                return await super().handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                last = error
        raise last or httpx.ConnectError("no address")


@cache
def _certificates() -> ssl.SSLContext:
    # Reading them takes a tenth of a second.
    return httpx.create_ssl_context(trust_env=False)


async def _read_body(reply: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    """Return the body, at most `max_bytes` of it, also if it is compressed."""
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = zlib.decompressobj(47) if encoding in ("gzip", "x-gzip", "deflate") else None
    if unpack is None and encoding not in ("", "identity"):
        raise MCPError(
            f"its answer is encoded as {visible(encoding[:40])}, which was not requested"
        )
    body = bytearray()
    async for piece in reply.aiter_raw(_CHUNK):
        body += unpack.decompress(piece, max_bytes + 1 - len(body)) if unpack else piece
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), True
    return bytes(body), False
