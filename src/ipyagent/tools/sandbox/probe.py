"""Whether bubblewrap holds here: a program in the box tries to get out before it is relied on."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
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

from ipyagent.tools.sandbox import box, breakout
from ipyagent.tools.sandbox.guard import Survey

# Not the person's PATH: it may lead into the workspace.
_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
_NEWER = ("--disable-userns", "--size")
_SECONDS = 10.0


@dataclass(frozen=True)
class Found:
    """What there is: `why` says why it is not to be relied on."""

    bwrap: str = ""
    options: frozenset[str] = frozenset()
    why: str | None = None


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
        return Found(bwrap, options, _try(bwrap, options))
    except (OSError, subprocess.SubprocessError) as error:
        return Found(why=f"bubblewrap could not be tried: {error}")


def _try(bwrap: str, options: frozenset[str]) -> str | None:
    """What speaks against it, if anything does."""
    with tempfile.TemporaryDirectory(prefix="ipyagent-") as folder, _listeners() as addresses:
        root = Path(os.path.realpath(folder), "workspace")
        (root / ".git").mkdir(parents=True)
        (root / ".ipyagent").mkdir()
        (root / ".env").write_text(breakout.CANARY)
        guarded = Survey(root, frozenset()).look()
        environment = box.environment(str(root))
        outside = root.parent / "outside"
        tries = {"names": sorted(environment), "outside": str(outside), **addresses}
        command = [sys.executable, "-I", "-S", "-c", inspect.getsource(breakout)]
        said = subprocess.run(  # noqa: S603
            [bwrap, *box.arguments(str(root), guarded, options), "--", *command, json.dumps(tries)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
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
