"""The two streams of a connection to an MCP server, as the SDK's client expects them.

The SDK keeps its own protocols for them in a private module. Memory streams of anyio and the
streams of the SDK's transports satisfy these.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self, TypeVar

from mcp.shared.message import SessionMessage

ReceivedItem = SessionMessage | Exception

_Received = TypeVar("_Received", covariant=True)
_Sent = TypeVar("_Sent", contravariant=True)


class _Stream(Protocol):
    """A stream that closes with its context."""

    async def aclose(self) -> None:
        """Close it."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class ReceiveStream(_Stream, Protocol[_Received]):
    """A stream that items are read from."""

    async def receive(self) -> _Received:
        """Return the next item; raise EndOfStream where there is no more."""

    def __aiter__(self) -> ReceiveStream[_Received]: ...
    async def __anext__(self) -> _Received: ...


class SendStream(_Stream, Protocol[_Sent]):
    """A stream that items are written to."""

    async def send(self, item: _Sent, /) -> None:
        """Write one item."""


TransportStreams = tuple[ReceiveStream[ReceivedItem], SendStream[SessionMessage]]
