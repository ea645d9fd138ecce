"""An MCP server at an address: streamable HTTP, or the older SSE.

The SDK follows redirects within the server's own origin only. This module adds the limits that the
SDK lacks, and the credentials, which go to that origin alone.
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
from ipyagent.services.mcp.content import TRACE_ID
from ipyagent.services.mcp.message_filter import TransportStreams
from ipyagent.services.mcp.stdio import BYTES_PER_SECOND, MAX_MESSAGE
from ipyagent.telemetry import trace_ids


class LimitedTransport(httpx2.AsyncHTTPTransport):
    """A transport that limits responses; `status` is that of the last refusal."""

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self.status: int | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, uncompressed and limited in size."""
        response = await super().handle_async_request(request)
        if (request.method, response.status_code) != ("GET", 405):  # a server without notifications
            self.status = response.status_code if response.is_error else None
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("it compresses its answers, which was not requested")
        is_event_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        stream = cast("httpx2.AsyncByteStream", response.stream)
        response.stream = _LimitedStream(stream, None if is_event_stream else MAX_MESSAGE)
        return response


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int | None) -> None:
        self._stream, self._max_bytes = stream, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for chunk in self._stream:
            length += len(chunk)
            if self._max_bytes is not None and length > self._max_bytes:
                raise httpx2.StreamError(f"it sent more than {self._max_bytes:,} bytes")
            yield chunk
            await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def connect_http(
    url: str, config: MCPServerConfig, environ: Mapping[str, str], *, sse: bool
) -> AsyncIterator[tuple[TransportStreams, LimitedTransport]]:
    """Open the server's streams; raises MCPConnectionError for a missing credential."""
    _credential_headers(config, environ)
    transport = LimitedTransport()
    client = _client(config, environ, transport)
    if sse:

        def make_client(*_: object, **__: object) -> httpx2.AsyncClient:
            return client

        async with sse_client(url, httpx_client_factory=make_client) as streams:
            yield streams, transport
        return
    connection = streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE)
    async with client, connection as streams:
        yield streams, transport


def _client(
    config: MCPServerConfig, environ: Mapping[str, str], transport: LimitedTransport
) -> httpx2.AsyncClient:
    async def authorize(request: httpx2.Request) -> None:
        if trace_id := _find_trace_id(await request.aread()):
            request.headers[trace_ids.HEADER] = trace_id
        request.headers.update(_credential_headers(config, environ))

    # The time limits of a call, also of its silence, are applied where the call is made.
    timeout = httpx2.Timeout(config.connect_timeout, read=None, write=config.execute_timeout)
    return httpx2.AsyncClient(
        transport=transport,
        timeout=timeout,
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [authorize]},
    )


def _find_trace_id(message: bytes) -> str | None:
    """Return the trace id of the run that a message was sent for."""
    # The SDK sends from tasks of its own, so only the message identifies its run.
    if TRACE_ID.encode() not in message:
        return None
    value = json.loads(message)
    for key in ("params", "_meta", TRACE_ID):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _credential_headers(config: MCPServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send, with the current values of their variables."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    headers |= {name: _environment_value(environ, each) for name, each in config.header_env.items()}
    if config.token is not None:
        headers["Authorization"] = f"Bearer {config.token.get_secret_value()}"
    if config.token_env is not None:
        headers["Authorization"] = f"Bearer {_environment_value(environ, config.token_env)}"
    for name, text in headers.items():
        if not (text.isascii() and text.isprintable()):
            raise MCPConnectionError(f"the value for the header {name} is not valid in a header")
    return headers


def _environment_value(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise MCPConnectionError(f"the environment variable {name} is not set")
