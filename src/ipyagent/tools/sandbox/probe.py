"""Whether bubblewrap holds here: a program in the box tries to get out before it is relied on."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ipyagent.tools.sandbox import box, breakout, system_calls
from ipyagent.tools.sandbox.guard import Survey

# Not the person's PATH: it may lead into the workspace.
_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
_NEWER = ("--disable-userns", "--size")
_SECONDS = 10.0


@dataclass(frozen=True)
class Found:
    """What there is: `why` says why it is not to be relied on.

    `calls` is the program that filters system calls; `unfiltered` says why there is none.
    """

    bwrap: str = ""
    options: frozenset[str] = frozenset()
    why: str | None = None
    calls: bytes = b""
    unfiltered: str | None = None


@cache
def found() -> Found:
    """Bubblewrap, as it is here; tried once in a process."""
    if sys.platform != "linux":
        return Found(why=f"there is no sandbox for this system ({sys.platform}) yet")
    bwrap = shutil.which("bwrap", path=_PATH)
    if bwrap is None:
        return Found(why="bubblewrap is not installed (package bubblewrap)")
    try:
        said = subprocess.run(  # noqa: S603
            [bwrap, "--help"], capture_output=True, timeout=_SECONDS, check=False
        )
        options = frozenset(each for each in _NEWER if each.encode() in said.stdout + said.stderr)
        calls = system_calls.program()
        if not calls:
            unfiltered = f"there is no filter of system calls for {platform.machine()}"
            return Found(bwrap, options, _try(bwrap, options), unfiltered=unfiltered)
        why = _try(bwrap, options, calls)
        if why and not (without := _try(bwrap, options)):
            return Found(bwrap, options, without, unfiltered=f"it cannot be filtered: {why}")
        return Found(bwrap, options, why, calls)
    except (OSError, subprocess.SubprocessError) as error:
        return Found(why=f"bubblewrap could not be tried: {error}")


def _try(bwrap: str, options: frozenset[str], calls: bytes = b"") -> str | None:
    """What speaks against it, if anything does."""
    with (
        tempfile.TemporaryDirectory(prefix="ipyagent-") as folder,
        tempfile.TemporaryFile() as program,
        _listeners() as addresses,
    ):
        program.write(calls)
        program.seek(0)
        root = Path(os.path.realpath(folder), "workspace")
        (root / ".git").mkdir(parents=True)
        (root / ".ipyagent").mkdir()
        (root / ".env").write_text(breakout.CANARY)
        guarded = Survey(root, frozenset()).look()
        environment = box.environment(str(root))
        outside = root.parent / "outside"
        tries = {"names": sorted(environment), "outside": str(outside), **addresses}
        tries["filtered"] = bool(calls)
        command = [sys.executable, "-I", "-S", "-c", inspect.getsource(breakout)]
        made = box.arguments(str(root), guarded, options)
        if calls:
            made += ["--seccomp", str(program.fileno())]
        said = subprocess.run(  # noqa: S603
            [bwrap, *made, "--", *command, json.dumps(tries)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            pass_fds=[program.fileno()] if calls else [],
        )
        if said.returncode or not said.stdout.startswith("["):
            message = (said.stderr or said.stdout).strip().splitlines() or ["it said nothing"]
            return f"bubblewrap does not work here ({message[-1][:200]})"
        escapes = json.loads(said.stdout)
        if outside.exists():
            escapes.append("writes elsewhere")
        return f"bubblewrap does not hold here ({', '.join(escapes)})" if escapes else None


@contextlib.contextmanager
def _listeners() -> Iterator[dict[str, object]]:
    """Two servers that nobody in the box should reach."""
    name = f"ipyagent-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()
        yield {"port": tcp.getsockname()[1], "name": name}
