"""An MCP server at an address: streamable HTTP, or the older SSE.

The SDK follows redirects within the server's own origin only; here are the limits that it does not
have, and the credentials, which go to that origin alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPConnectionError
from ipyagent.services.mcp.requests import TRACE_ID
from ipyagent.services.mcp.stdio import BYTES_PER_SECOND, MAX_MESSAGE
from ipyagent.services.mcp.streams import TransportStreams
from ipyagent.telemetry import trace_ids


class Exchange(httpx2.AsyncHTTPTransport):
    """Requests whose answers have limits; `status` is that of the last refusal."""

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self.status: int | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, neither packed nor endless."""
        response = await super().handle_async_request(request)
        if (request.method, response.status_code) != ("GET", 405):  # it has nothing to announce
            self.status = response.status_code if response.is_error else None
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("it packs its answers, which nobody asked it to")
        endless = response.headers.get("content-type", "").startswith("text/event-stream")
        stream = cast("httpx2.AsyncByteStream", response.stream)
        response.stream = _Limited(stream, None if endless else MAX_MESSAGE)
        return response


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int | None) -> None:
        self._stream, self._most = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for chunk in self._stream:
            length += len(chunk)
            if self._most is not None and length > self._most:
                raise httpx2.StreamError(f"it sent more than {self._most:,} bytes")
            yield chunk
            await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def reached(
    url: str, config: MCPServerConfig, environ: Mapping[str, str], *, sse: bool
) -> AsyncIterator[tuple[TransportStreams, Exchange]]:
    """The server's streams; raises MCPConnectionError for a credential that is not there."""
    _credentials(config, environ)
    exchange = Exchange()
    client = _client(config, environ, exchange)
    if sse:

        def ours(*_: object, **__: object) -> httpx2.AsyncClient:
            return client

        async with sse_client(url, httpx_client_factory=ours) as streams:
            yield streams, exchange
        return
    spoken = streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE)
    async with client, spoken as streams:
        yield streams, exchange


def _client(
    config: MCPServerConfig, environ: Mapping[str, str], exchange: Exchange
) -> httpx2.AsyncClient:
    async def authorize(request: httpx2.Request) -> None:
        if trace_id := _trace_id(await request.aread()):
            request.headers[trace_ids.HEADER] = trace_id
        request.headers.update(_credentials(config, environ))

    # How long a call may take, or be silent, is seen to where it is made.
    patience = httpx2.Timeout(config.connect_timeout, read=None, write=config.execute_timeout)
    return httpx2.AsyncClient(
        transport=exchange,
        timeout=patience,
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [authorize]},
    )


def _trace_id(message: bytes) -> str | None:
    """Return the trace id of the run that a message was sent for."""
    # The SDK sends from tasks of its own, so that the message alone knows its run.
    if TRACE_ID.encode() not in message:
        return None
    found = json.loads(message)
    for key in ("params", "_meta", TRACE_ID):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _credentials(config: MCPServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers to send, with what their variables hold now."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    headers |= {name: _variable(environ, each) for name, each in config.header_env.items()}
    if config.token is not None:
        headers["Authorization"] = f"Bearer {config.token.get_secret_value()}"
    if config.token_env is not None:
        headers["Authorization"] = f"Bearer {_variable(environ, config.token_env)}"
    for name, text in headers.items():
        if not (text.isascii() and text.isprintable()):
            raise MCPConnectionError(f"what is given for the header {name} cannot be in a header")
    return headers


def _variable(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise MCPConnectionError(f"the environment variable {name} is not set")
