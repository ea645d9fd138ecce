"""The memory of a rehearsal: what it shares with other processes, and its environment."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ipyagent.rehearsal import system_calls

_MAPS = Path("/proc/self/maps")
_SHARED = re.compile(r"^(\w+)-(\w+) [r-]([w-])[x-]s \S+ \S+ \S+ *(.*)$", re.MULTILINE)
_LOCK, _INDEX = "/dev/shm/sem.", "-shm"  # noqa: S108
"""Shared memory without data of the user's: a progress bar's lock, the index of a SQLite file."""
_LARGEST_COPY = 1 << 24
_ENVIRONMENT = (50, 51)  # fields of /proc/self/stat: where the first environment lies


def read_mappings() -> str:
    """Return the mappings of this process, one on a line."""
    return _MAPS.read_text(errors="surrogateescape")


def describe_shared_memory() -> str | None:
    """Return why this process's memory cannot be copied, or None."""
    for _, _, writable, path in _SHARED.findall(read_mappings()):
        name = path.removesuffix(" (deleted)") or "without a name"
        if writable == "w" and not (name.startswith(_LOCK) or name.endswith(_INDEX)):
            return f"memory is shared with other processes ({Path(name).name})"
    return None


def leave_shared_memory() -> None:
    """Replace all shared memory that could be written by a private copy.

    Raises OSError if that is too much.
    """
    for first, last, _, _ in _SHARED.findall(read_mappings()):
        start, length = int(first, 16), int(last, 16) - int(first, 16)
        try:
            system_calls.make_writable(start, length)
        except PermissionError:
            continue  # mapped from a file that was opened for reading
        if length > _LARGEST_COPY:
            raise OSError(f"{length:,} bytes of memory are shared with other processes")
        content = ctypes.string_at(start, length)
        system_calls.replace_mapping(start, length)
        ctypes.memmove(start, content, length)


def clean_environment(kept: Collection[str]) -> None:
    """Remove all variables but those `kept`, from where processes get them as well."""
    for name in list(os.environ):
        if name not in kept:
            del os.environ[name]
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = (int(fields[number - 3]) for number in _ENVIRONMENT)
    ours = dict(os.environ)
    if start and end > start:
        ctypes.memset(start, 0, end - start)
    for name, value in ours.items():  # some of them lay there
        os.environ[name] = value


def read_page_flags(first: int, last: int) -> bytes:
    """Return the highest byte of each page's entry in /proc/self/pagemap. Raises OSError."""
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        entries = os.pread(pagemap, 8 * (last - first), 8 * first)
    finally:
        os.close(pagemap)
    if len(entries) < 8 * (last - first):
        raise OSError("the system does not tell which memory is in use")
    return entries[7::8]


def drop_signing_keys() -> None:
    """Let this process sign and send nothing any more: it is a copy of the kernel.

    Whoever has the key can speak for the kernel. A message would be printed as a warning instead.
    """
    app: Any = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    if app is not None and app.initialized():
        session = app.instance().session
        session.auth, session.key, session.send = None, b"", lambda *_, **__: None
