"""What a server says, on its way to the SDK: at a pace that can be borne, and sifted."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

import anyio
from mcp.shared.exceptions import MCPError as ProtocolError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ipyagent.errors import MCPConnectionError
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import strip_escapes
from ipyagent.services.mcp.mending import VERSION, mend_result, mended_tool
from ipyagent.services.mcp.streams import ReceivedItem, ReceiveStream

MAX_TOOLS = 200
"""Of one server; no model reads more."""


class Pace:
    """So many at once, then so many a second."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._most, self._rate = at_once, per_second
        self._left, self._at = float(at_once), time.monotonic()

    def wait(self) -> float:
        """Take one; the seconds until it is due."""
        now = time.monotonic()
        self._left = max(-1, min(self._most, self._left + (now - self._at) * self._rate) - 1)
        self._at = now
        return max(0.0, -self._left / self._rate)


class Screened:
    """A server's messages as the SDK may have them.

    `at` is when the last one came. What a server asks of us is passed on only as often as a
    well-behaved one asks, for each question becomes a task. `ended` is called when no more comes.
    """

    def __init__(self, stream: ReceiveStream[ReceivedItem], ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended
        self._messages, self._questions = Pace(2000, 2000), Pace(100, 1)
        self.at = time.monotonic()
        self.left_out: list[str] = []
        """Tools whose description is broken, since somebody last emptied it."""

    async def receive(self) -> ReceivedItem:
        """The next message; raises EndOfStream."""
        while True:
            item = await self._next()
            await anyio.sleep(self._messages.wait())
            if not isinstance(item, SessionMessage):
                return item
            self.at = time.monotonic()
            if isinstance(item.message, JSONRPCRequest) and self._questions.wait():
                continue
            if isinstance(item.message, JSONRPCResponse):
                self._sift(item.message.result)
                mend_result(item.message.result)
            return item

    async def _next(self) -> ReceivedItem:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._ended()
            raise

    def _sift(self, result: JsonDict) -> None:
        """Take broken tools out of a list of tools, which would be refused as a whole."""
        if not isinstance(tools := result.get("tools"), list):
            return
        good = []
        for each in map(mended_tool, tools[: MAX_TOOLS + 1]):
            try:
                validate_server_result("tools/list", VERSION, {"tools": [each]})
                good.append(each)
            except ValidationError:
                name = each.get("name") if isinstance(each, dict) else None
                self.left_out.append(str(name or "without a name")[:100])
        result["tools"] = good

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()

    def __aiter__(self) -> Screened:
        return self

    async def __anext__(self) -> ReceivedItem:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Screened:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def told_of(error: BaseException) -> str:
    """What went wrong, out of the groups that the SDK's task groups make of it."""
    seen = 0
    while isinstance(error, BaseExceptionGroup) and seen < 20:
        error, seen = error.exceptions[0], seen + 1
    if isinstance(error, MCPConnectionError):
        return str(error)
    if isinstance(error, ProtocolError):
        # Servers use that code, too, for whatever they refuse.
        if (error.code, error.message) == (CONNECTION_CLOSED, "Connection closed"):
            return "it ended before it answered"
        return strip_escapes(error.message) or "it refused"
    if isinstance(error, ValidationError):
        return "its answer is not what the protocol says"
    return str(error) or type(error).__name__
