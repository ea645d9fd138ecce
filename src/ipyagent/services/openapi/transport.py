"""HTTP with a service, bounded: where it goes, how long it takes, how much is read."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ipyagent.errors import MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.services.addresses import Guard
from ipyagent.services.openapi import urls

if TYPE_CHECKING:
    import ssl

    import httpx

MAX_READ = 5_000_000
_PIECE = 64 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Reply:
    """What a service answered; `cut` where there was more of it than is read."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes
    cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether the status says that it was done."""
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """What the body is, in lower case."""
        return str(self.headers.get("Content-Type", "")).partition(";")[0].strip().lower()

    @property
    def location(self) -> httpx.URL | None:
        """Where it redirects to, if it does."""
        import httpx

        where = self.headers.get("Location")
        if self.status not in _REDIRECTS or not where:
            return None
        try:
            return self.url.join(where)
        except httpx.InvalidURL:
            raise MCPToolCallError(f"it redirects to {visible(where[:200])!r}") from None


class Connection:
    """A client for one service and one call. Nothing of the environment has a say in it."""

    def __init__(self, client: httpx.AsyncClient, most: int) -> None:
        self._client, self._most = client, most

    async def send(
        self,
        method: str,
        url: httpx.URL,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """One request and its reply; redirects are not followed."""
        # Not as text: httpx would take ASCII only.
        encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in (headers or {}).items()]
        request = self._client.build_request(method, url, headers=encoded, content=body)
        reply = await self._client.send(request, stream=True)
        try:
            data, cut = await _read(reply, self._most)
        finally:
            await reply.aclose()
        return Reply(url, reply.status_code, reply.headers, data, cut)


@contextlib.asynccontextmanager
async def connected(
    guard: Guard, *, connect: float, total: float, most: int = MAX_READ
) -> AsyncIterator[Connection]:
    """A connection for at most `total` seconds; raises MCPError for all that goes wrong."""
    import httpx

    plain = {"User-Agent": "ipyagent", "Accept": "*/*", "Accept-Encoding": "identity"}
    async with _explained(total):
        client = httpx.AsyncClient(
            transport=_guarded(guard),
            timeout=httpx.Timeout(total, connect=min(connect, total)),
            headers=plain,
            follow_redirects=False,
            trust_env=False,
        )
        async with client:
            yield Connection(client, most)


@contextlib.asynccontextmanager
async def _explained(total: float) -> AsyncIterator[None]:
    import httpx

    try:
        async with asyncio.timeout(total):
            yield
    except (httpx.ConnectTimeout, httpx.ConnectError) as error:
        why = str(error) or "no answer"
        raise MCPConnectionError(f"it cannot be reached: {visible(why)}") from None
    except (TimeoutError, httpx.TimeoutException):
        raise MCPToolCallError(f"it did not answer in full within {total:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, zlib.error) as error:
        why = str(error) or type(error).__name__
        raise MCPToolCallError(f"the connection failed: {visible(why[:200])}") from None


def _guarded(guard: Guard) -> httpx.AsyncBaseTransport:
    """A transport that connects to the very addresses that were judged."""
    import httpx

    class Guarded(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            _, host, port = urls.origin(url)
            # TLS still asks for the certificate of the host, and `Host` names it already.
            request.extensions["sni_hostname"] = host
            last: Exception | None = None
            for address in await guard.addresses(host, port):
                request.url = url.copy_with(host=address)
                try:
                    return await super().handle_async_request(request)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    last = error
            raise last or httpx.ConnectError("no address")

    return Guarded(verify=_certificates(), trust_env=False)


@cache
def _certificates() -> ssl.SSLContext:
    # Reading them takes a tenth of a second.
    import httpx

    return httpx.create_ssl_context(trust_env=False)


async def _read(reply: httpx.Response, most: int) -> tuple[bytes, bool]:
    """The body, at most `most` bytes of it, also where it was compressed unasked."""
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = zlib.decompressobj(47) if encoding in ("gzip", "x-gzip", "deflate") else None
    if unpack is None and encoding not in ("", "identity"):
        raise MCPError(f"its answer is in {visible(encoding[:40])}, which was not asked for")
    body = bytearray()
    async for piece in reply.aiter_raw(_PIECE):
        body += unpack.decompress(piece, most + 1 - len(body)) if unpack else piece
        if len(body) > most:
            return bytes(body[:most]), True
    return bytes(body), False
