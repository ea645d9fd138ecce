"""An MCP server that is a program: newline-delimited JSON over its pipes.

The SDK's own transport keeps whatever a server writes until a line ends. This one has limits: on
the length of a line, on how fast a server is listened to, and on what is kept of its stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from ipyagent.errors import MCPConnectionError
from ipyagent.services.mcp.streams import TransportStreams

MAX_MESSAGE = 16_000_000
"""Bytes of one message; a picture in it may be large."""

BYTES_PER_SECOND = 64_000_000
"""A server that floods does not take the kernel's whole processor."""

_CHUNK = 65_536
_PATIENCE = 1.0  # seconds to end after its input is closed, and again after SIGTERM
_STDERR = 8_000  # bytes that are kept


class _Pipes(NamedTuple):
    input: asyncio.StreamWriter
    output: asyncio.StreamReader
    errors: asyncio.StreamReader


class Program:
    """A server's process, its group of children, and the last that it wrote to stderr."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._pipes = _Pipes(
            cast("asyncio.StreamWriter", process.stdin),
            cast("asyncio.StreamReader", process.stdout),
            cast("asyncio.StreamReader", process.stderr),
        )
        self._stderr: deque[bytes] = deque(maxlen=_STDERR // 100)
        self._silent = asyncio.Event()
        self._over = False
        self.trouble: str | None = None

    @property
    def last_words(self) -> str:
        """The end of its stderr."""
        return b"".join(self._stderr)[-_STDERR:].decode("utf-8", "replace").strip()

    async def listen(self) -> None:
        """Keep reading stderr, so that it never blocks on it."""
        while chunk := await self._pipes.errors.read(_CHUNK):
            tail = chunk[-_STDERR:]
            self._stderr.extend(tail[at : at + 100] for at in range(0, len(tail), 100))
            await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)
        self._silent.set()

    async def read(self, received: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on its messages until its stdout ends; other lines are left out."""
        lines = Lines()
        async with received:
            with contextlib.suppress(anyio.BrokenResourceError):
                while chunk := await self._pipes.output.read(_CHUNK):
                    for line in lines.feed(chunk):
                        if (message := _message(line)) is not None:
                            await received.send(SessionMessage(message))
                    if lines.too_long:
                        self.trouble = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
                        return
                    await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)

    async def write(self, to_send: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Pass messages on to it."""
        async with to_send:
            with contextlib.suppress(ConnectionError):
                async for each in to_send:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._pipes.input.write(text.encode("utf-8", "replace") + b"\n")
                    await self._pipes.input.drain()

    async def end(self) -> None:
        """Close its input, then ask it to end, then end it and its children."""
        self._pipes.input.close()
        if not await self._ended():
            self._signal(signal.SIGTERM)
            await self._ended()
        self.kill()
        self._over = await self._ended()
        with anyio.move_on_after(0.2):
            await self._silent.wait()
        # A child that left the group may hold the pipes open; nobody waits for that.
        getattr(self._process, "_transport").close()  # noqa: B009 - asyncio has no public way

    def kill(self) -> None:
        """End it and its children at once, unless its number may be another's by now."""
        if not self._over:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    async def _ended(self) -> bool:
        # Not `wait`, which also waits until the pipes are closed.
        for _ in range(int(_PATIENCE / 0.01)):
            if self._process.returncode is not None:
                return True
            await asyncio.sleep(0.01)
        return False

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.terminate()


def _message(line: bytes) -> JSONRPCMessage | None:
    """The message in a line, if there is one; halves of characters in it become question marks."""
    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    # Some servers cut texts between the two halves of a character.
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(line.decode("utf-8", "replace")), ensure_ascii=False)
        return jsonrpc_message_adapter.validate_json(text.encode("utf-8", "replace"), by_name=False)
    return None


class Lines:
    """Bytes cut into lines, of which none is longer than a message may be."""

    def __init__(self) -> None:
        self._begun = bytearray()
        self.too_long = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are whole by now."""
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._begun += line
            yield bytes(self._begun)
            self._begun.clear()
        self._begun += rest
        self.too_long = len(self._begun) > MAX_MESSAGE


@contextlib.asynccontextmanager
async def started(
    command: Sequence[str], env: Mapping[str, str], cwd: Path
) -> AsyncIterator[tuple[TransportStreams, Program]]:
    """The program, started; raises MCPConnectionError. It ends with the context."""
    program = Program(await _start(command, env, cwd))
    received, to_read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    written, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with received, to_read, written, to_send, anyio.create_task_group() as tasks:
        tasks.start_soon(program.listen)
        tasks.start_soon(program.read, received)
        tasks.start_soon(program.write, to_send)
        try:
            yield (to_read, written), program
        finally:
            with anyio.CancelScope(shield=True):
                to_read.close()
                await program.end()
            tasks.cancel_scope.cancel()


async def _start(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> Process:
    name = command[0]
    local = os.sep in name
    program = shutil.which(str(cwd / name) if local else name, path=env.get("PATH"))
    if program is None:
        raise MCPConnectionError(f"there is no program {name!r} to start; is it installed?")
    try:
        return await asyncio.create_subprocess_exec(
            *_tied(), program, *command[1:],
            stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(env), cwd=cwd, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise MCPConnectionError(f"{name!r} cannot be started: {error}") from None


@cache
def _tied() -> tuple[str, ...]:
    """What makes a program end with the kernel, however that ends, where the system knows how."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    tied = (setpriv, "--pdeathsig", "KILL", "--")
    probe = subprocess.run([*tied, "true"], check=False, capture_output=True)  # noqa: S603
    return tied if probe.returncode == 0 else ()
