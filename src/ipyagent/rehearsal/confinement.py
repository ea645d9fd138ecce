"""The confinement of a rehearsal: what it can see, and how much it may take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

ALIKE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices that are there too."""
Way = Literal["namespaces", "Landlock"]
"""The way to isolate: the second where the first does not hold."""


@dataclass(frozen=True)
class Limits:
    """The limits of one rehearsal. Memory is counted beyond the kernel's."""

    seconds: float = 2.0
    """Seconds of processor time."""
    idle: float = 10.0
    """Seconds without any use of a processor."""
    setup: float = 10.0
    """Seconds for the isolation, beyond those of the code."""
    memory: int = 4 << 30
    """Bytes of memory in use, or half of what is free on the machine if that is less."""
    files: int = 256 << 20
    """Bytes that it may write to files."""
    report: int = 144 << 20
    """Bytes that it may send back."""


@dataclass(frozen=True)
class Confinement:
    """The part of the system that a rehearsal sees; everything else is not there.

    Paths are absolute, but those that are hidden are relative to the workspace, `root`.
    """

    root: str
    readable: tuple[str, ...] = ()
    """Folders and files that it can read, those in the workspace included."""
    links: tuple[tuple[str, str], ...] = ()
    """Links at the top of the file system, and their targets."""
    hidden_files: tuple[str, ...] = ()
    hidden_folders: tuple[str, ...] = ()
    state: str = ""
    """The hidden folder of our own: whoever lists it learns nothing."""
    call_filter: bytes = b""
    """The seccomp filter."""
    variables: frozenset[str] = frozenset()
    """Names of the environment's variables that stay."""
    way: Way = "namespaces"

    @cached_property
    def hidden_paths(self) -> list[str]:
        """The files and folders that are hidden in the workspace, as absolute paths."""
        top = self.root.rstrip("/")
        return [f"{top}/{each}" for each in (*self.hidden_files, *self.hidden_folders)]

    def sees(self, path: str) -> bool:
        """Return whether an absolute path, links resolved, is as it is outside."""
        if any(is_in(path, each) for each in (*self.readable, *ALIKE)):
            return True
        if not is_in(path, self.root):
            return False
        return not any(is_in(path, each) for each in self.hidden_paths)


def is_in(path: str, folder: str) -> bool:
    """Return whether an absolute path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")
