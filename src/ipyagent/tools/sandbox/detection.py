"""Detection of a working bubblewrap: a program tries to escape before it is relied on."""

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

from ipyagent.tools.sandbox import bubblewrap, escape_probe, seccomp
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan

# Not the user's PATH: it may lead into the workspace.
_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
_NEWER_OPTIONS = ("--disable-userns", "--size")
_PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class SandboxSupport:
    """The sandbox support of this machine: `problem` says why it cannot be relied on.

    `seccomp_filter` is the filter of system calls; `unfiltered_reason` says why there is none.
    """

    bwrap: str = ""
    options: frozenset[str] = frozenset()
    problem: str | None = None
    seccomp_filter: bytes = b""
    unfiltered_reason: str | None = None


@cache
def detect_sandbox() -> SandboxSupport:
    """Return what bubblewrap supports here; tried once in a process."""
    if sys.platform != "linux":
        return SandboxSupport(problem=f"there is no sandbox for this system ({sys.platform}) yet")
    bwrap = shutil.which("bwrap", path=_PATH)
    if bwrap is None:
        return SandboxSupport(problem="bubblewrap is not installed (package bubblewrap)")
    try:
        completed = subprocess.run(  # noqa: S603
            [bwrap, "--help"], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
        options = frozenset(
            each for each in _NEWER_OPTIONS if each.encode() in completed.stdout + completed.stderr
        )
        calls = seccomp.build_filter()
        if not calls:
            unfiltered = f"there is no filter of system calls for {platform.machine()}"
            return SandboxSupport(
                bwrap, options, _try_escape(bwrap, options), unfiltered_reason=unfiltered
            )
        why = _try_escape(bwrap, options, calls)
        if why and not (without := _try_escape(bwrap, options)):
            return SandboxSupport(
                bwrap, options, without, unfiltered_reason=f"it cannot be filtered: {why}"
            )
        return SandboxSupport(bwrap, options, why, calls)
    except (OSError, subprocess.SubprocessError) as error:
        return SandboxSupport(problem=f"bubblewrap could not be tried: {error}")


def _try_escape(bwrap: str, options: frozenset[str], calls: bytes = b"") -> str | None:
    """Try to escape; return why the sandbox cannot be trusted, or None."""
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
        (root / ".env").write_text(escape_probe.CANARY)
        guarded = WorkspaceScan(root, frozenset()).run()
        environment = bubblewrap.environment(str(root))
        outside = root.parent / "outside"
        tries = {"names": sorted(environment), "outside": str(outside), **addresses}
        tries["filtered"] = bool(calls)
        command = [sys.executable, "-I", "-S", "-c", inspect.getsource(escape_probe)]
        arguments = bubblewrap.build_arguments(str(root), guarded, options)
        if calls:
            arguments += ["--seccomp", str(program.fileno())]
        completed = subprocess.run(  # noqa: S603
            [bwrap, *arguments, "--", *command, json.dumps(tries)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
            pass_fds=[program.fileno()] if calls else [],
        )
        if completed.returncode or not completed.stdout.startswith("["):
            message = (completed.stderr or completed.stdout).strip().splitlines() or [
                "it said nothing"
            ]
            return f"bubblewrap does not work here ({message[-1][:200]})"
        escapes = json.loads(completed.stdout)
        if outside.exists():
            escapes.append("writes elsewhere")
        return f"bubblewrap does not hold here ({', '.join(escapes)})" if escapes else None


@contextlib.contextmanager
def _listeners() -> Iterator[dict[str, object]]:
    """Open two servers that nothing in the sandbox should reach."""
    name = f"ipyagent-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()
        yield {"port": tcp.getsockname()[1], "name": name}
