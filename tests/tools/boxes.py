"""Workspaces beside a place where nobody may get to, and commands that try it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipyagent.tools.sandbox import Sandbox, SandboxResult, bubblewrap
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE

CANARY = "canary-5e1f-outside"

needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap.detect_sandbox().bwrap,
    reason="bubblewrap is not installed (tests/tools/install_bubblewrap.sh)",
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root could do that anyway")


@dataclass
class Place:
    """A workspace with secrets and rules in it, and what lies beside it."""

    root: Path
    outside: Path
    sandbox: Sandbox

    async def python(self, code: str, *arguments: object, limit: float = 20.0) -> SandboxResult:
        """Run code in the sandbox."""
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return await self.sandbox.run(command, seconds=limit)

    async def shell(self, command: str, *, limit: float = 20.0) -> SandboxResult:
        """Run a shell command in the sandbox."""
        return await self.sandbox.run(["/bin/sh", "-c", command], seconds=limit)

    def plainly(self, code: str, *arguments: object) -> str:
        """Run code as a process like any other: the naive way."""
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return output_of(command, cwd=self.root)

    def bubblewrap(self, without: Iterable[str] = (), extra: Iterable[str] = ()) -> list[str]:
        """The box of a command, weakened by what is left out of it and what is put in."""
        guarded = WorkspaceScan(self.root, frozenset()).run()
        found = bubblewrap.detect_sandbox()
        told = less(bubblewrap.build_arguments(str(self.root), guarded, found.options), without)
        return [found.bwrap, *told, *extra, "--"]


def place_in(folder: Path) -> Place:
    """A workspace in a folder; the paths have no blanks."""
    root, outside = folder / "ws", folder / "outside"
    for each in (root, outside):
        each.mkdir()
    (outside / "secret.txt").write_text(CANARY)
    (root / "data.csv").write_text("a\n1\n")
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / ".env").write_text(f"KEY={CANARY}")
    (root / "deep" / ".ssh").mkdir(parents=True)
    (root / "deep" / ".ssh" / "id_rsa").write_text(CANARY)
    (root / "deep" / "server.pem").write_text(CANARY)
    (root / "link.txt").symlink_to(outside / "secret.txt")
    return Place(root, outside, Sandbox(Workspace(root)))


def less(arguments: Iterable[str], without: Iterable[str]) -> list[str]:
    """What bubblewrap is told, with some of it left out; no argument has a blank in it."""
    told = " ".join(arguments)
    for each in without:
        assert each in told
        told = told.replace(f"{each} ", "")
    return told.split(" ")


def output_of(command: list[str], cwd: Path | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return str(done.stdout + done.stderr)


def alive(mark: str) -> list[int]:
    """The processes that have `mark` among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def printed(ran: SandboxResult) -> str:
    """What a command printed."""
    return ran.outcome.output.head() + ran.outcome.output.tail()
