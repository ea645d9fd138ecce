"""The program that tries to escape from the sandbox and reports its successes.

It is started as `python -I -S -c SOURCE TRIES` and uses only the standard library.
"""

from __future__ import annotations

import ctypes
import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CANARY = "a secret that is to stay one"

_REMOUNT_BIND = 32 | 4096
_TRACE_ME = 0  # PTRACE_TRACEME


def escape_attempts(tries: dict[str, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield attempts by name; one that returns something true has escaped."""
    libc = ctypes.CDLL(None)
    environment = Path("/proc/1/environ")
    # Whether that is the real place can only be seen from there.
    yield "", lambda: Path(tries["outside"]).write_text("x") is None
    yield "reads a secret", lambda: CANARY in Path(".env").read_text()
    yield "changes .git", lambda: Path(".git", "config").write_text("x")
    yield "reads /etc/shadow", lambda: Path("/etc/shadow").read_bytes()
    yield "remounts", lambda: libc.mount(b"none", b"/usr", None, _REMOUNT_BIND, None) == 0
    settings = Path("/proc/sys/kernel/core_pattern")
    yield "changes the kernel's settings", lambda: settings.open("r+")
    yield (
        "sees our variables",
        lambda: _variable_names(environment.read_bytes()) - {*tries["names"]},
    )
    yield "sees other processes", lambda: len(list(Path("/proc").glob("[0-9]*"))) > 3
    yield "connects", lambda: socket.create_connection(("127.0.0.1", tries["port"]), 1)
    unix = socket.socket(socket.AF_UNIX)
    yield "connects by name", lambda: unix.connect_ex(f"\0{tries['name']}") == 0
    yield "has capabilities", _has_capabilities
    if tries["filtered"]:
        yield "traces processes", lambda: libc.ptrace(_TRACE_ME, 0, None, None) == 0
    yield "has no workspace", lambda: not Path("made").write_text("x")


def _variable_names(environment: bytes) -> set[str]:
    return {each.partition(b"=")[0].decode() for each in environment.split(b"\0") if each}


def _has_capabilities() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return any(int(values[each], 16) for each in ("CapEff", "CapPrm", "CapBnd", "CapInh"))


def succeeds(deed: Callable[[], object]) -> bool:
    """Return whether an attempt succeeded."""
    try:
        return bool(deed())
    except OSError:
        return False


if __name__ == "__main__":
    found = escape_attempts(json.loads(sys.argv[1]))
    print(json.dumps([name for name, deed in found if succeeds(deed)]))  # noqa: T201
