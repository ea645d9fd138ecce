"""An MCP server that is a program: newline-delimited JSON over its pipes.

The SDK's own transport keeps everything until a line ends. This one limits the length of a line,
the rate of reading, and the stored part of stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from ipyagent.errors import MCPConnectionError
from ipyagent.json_types import object_of, parse_json
from ipyagent.services.mcp.messages import TransportStreams, repair_message

MAX_MESSAGE = 16_000_000
"""Bytes of one message; an image in it may be large."""

BYTES_PER_SECOND = 64_000_000
"""Bytes read per second, so that a flooding server does not use up the kernel's processor."""

_CHUNK = 65_536
_DECODER = json.JSONDecoder()
_BEGINNING = re.compile(r'\{\s*"(?:jsonrpc|id|result)"')
_EXIT_SECONDS = 1.0  # seconds to end after its input is closed, and again after SIGTERM
_MAX_STDERR = 8_000  # bytes that are stored


class Program:
    """A server's process, its process group, and the end of its stderr."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._input = cast("asyncio.StreamWriter", process.stdin)
        self._output = cast("asyncio.StreamReader", process.stdout)
        self._errors = cast("asyncio.StreamReader", process.stderr)
        self._stderr = b""
        self._stderr_closed = asyncio.Event()
        self._exited = False
        self.problem: str | None = None

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr."""
        return self._stderr.decode("utf-8", "replace").strip()

    async def listen(self) -> None:
        """Keep reading stderr, so that the program never blocks on it."""
        while chunk := await self._errors.read(_CHUNK):
            self._stderr = (self._stderr + chunk)[-_MAX_STDERR:]
            await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)
        self._stderr_closed.set()

    async def read(self, received: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on its messages until its stdout ends; other lines are dropped."""
        lines = LineSplitter()
        async with received:
            with contextlib.suppress(anyio.BrokenResourceError):
                while chunk := await self._output.read(_CHUNK):
                    for line in lines.feed(chunk):
                        for message in _parse_messages(line):
                            await received.send(SessionMessage(message))
                    if lines.too_long:
                        self.problem = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
                        return
                    await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)

    async def write(self, to_send: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send messages to it."""
        async with to_send:
            with contextlib.suppress(ConnectionError):
                async for each in to_send:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._input.write(text.encode("utf-8", "replace") + b"\n")
                    await self._input.drain()

    async def end(self) -> None:
        """Close its input, then terminate it, then kill it and its children."""
        self._input.close()
        if not await self._wait_for_exit():
            self._signal(signal.SIGTERM)
            await self._wait_for_exit()
        self.kill()
        self._exited = await self._wait_for_exit()
        with anyio.move_on_after(0.2):
            await self._stderr_closed.wait()
        # A child that left the group may hold the pipes open; do not wait for it.
        getattr(self._process, "_transport").close()  # noqa: B009 - asyncio has no public way

    def kill(self) -> None:
        """Kill it and its children at once, unless its process id may have been reused."""
        if not self._exited:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    async def _wait_for_exit(self) -> bool:
        # Not `wait`, which also waits until the pipes are closed.
        for _ in range(int(_EXIT_SECONDS / 0.01)):
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


def _parse_messages(line: bytes) -> list[JSONRPCMessage]:
    """Return the messages in a line, several in a batch; small flaws are repaired."""
    with contextlib.suppress(ValueError):
        return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
    # Some servers cut texts between the two halves of a character.
    text = line.decode("utf-8-sig", "replace")
    given = parse_json(text) or [*_find_messages(text)]
    messages = []
    for each in given if isinstance(given, list) else [given]:
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(repair_message(each), ensure_ascii=False)
            data = text.encode("utf-8", "replace")
            messages.append(jsonrpc_message_adapter.validate_json(data, by_name=False))
    return messages


def _find_messages(text: str) -> Iterator[object]:
    """Yield the answers in a line that holds something else as well.

    A request in it is one that the server writes to its log.
    """
    end = 0
    while found := _BEGINNING.search(text, end):
        try:
            message, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return
        fields = object_of(message)
        if "jsonrpc" in fields and fields.keys() & {"result", "error"}:
            yield message


class LineSplitter:
    """Splits bytes into lines, none longer than a message may be.

    A `StreamReader` with such a limit would hold that much of a flood before the answer behind it.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self.too_long = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the completed lines."""
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            self._partial += line
            yield bytes(self._partial)
            self._partial.clear()
        self._partial += rest
        self.too_long = len(self._partial) > MAX_MESSAGE


@contextlib.asynccontextmanager
async def start_program(
    command: Sequence[str], env: Mapping[str, str], cwd: Path
) -> AsyncIterator[tuple[TransportStreams, Program]]:
    """Start the program; raises MCPConnectionError. It ends with the context."""
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
            *_death_signal_prefix(), program, *command[1:],
            stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(env), cwd=cwd, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise MCPConnectionError(f"{name!r} cannot be started: {error}") from None


@cache
def _death_signal_prefix() -> tuple[str, ...]:
    """Return a command prefix that ends a program with the kernel, if the system has one."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    probe = subprocess.run([*prefix, "true"], check=False, capture_output=True)  # noqa: S603
    return prefix if probe.returncode == 0 else ()
