"""The files of a rehearsal where the system forbids namespaces: it may read some, and write none.

Nothing is mounted. Landlock hides contents: that a file is there, its size and its date can still
be asked for. What Landlock does not restrict, the filter of system calls denies.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from ipyagent.kernel.rehearsal import system_calls as calls
from ipyagent.kernel.rehearsal.confinement import ALIKE, Confinement, is_in

_OLDEST = 3
"""The first version that denies truncation; what later ones add, the filter denies, too."""
_WRITE, _READ, _LIST = 1 << 1, 1 << 2, 1 << 3
_OWN = tuple(
    f"/proc/self/{name}" for name in ("cgroup", "fd", "maps", "pagemap", "stat", "statm", "status")
)
"""Files about the process itself, which it may read."""


def restrict_files(confinement: Confinement) -> None:
    """Let this process read what the confinement shows and write nothing. Raises OSError.

    Before, new privileges must be forbidden.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        raise OSError("a library starts threads on the copy, which Landlock would not reach")
    version = calls.find_landlock_version()
    if version < _OLDEST:
        raise OSError(f"Landlock is too old here (version {version}, {_OLDEST} is needed)")
    files = (1 << (16 if version >= 5 else 15)) - 1
    tcp, scopes = 3 if version >= 4 else 0, 3 if version >= 6 else 0  # all that there are
    rules = calls.make_ruleset(files, tcp, scopes)
    for path in ALIKE:
        _allow(rules, path, _READ | _WRITE)
    for path in _OWN:
        _allow(rules, path, _READ | _LIST)
    hidden = {"/proc", *confinement.hidden_paths}
    above = {str(parent) for path in hidden for parent in Path(path).parents}
    for top in (confinement.root, *confinement.readable):
        real = os.path.realpath(top)
        if is_in(top, confinement.root) and real != top:
            continue  # a link that leads anywhere: whoever writes in the workspace may have made it
        _allow(rules, real, _LIST)
        for path in _list_visible(real, hidden, above):
            _allow(rules, path, _READ)
    calls.restrict_self(rules)


def _list_visible(path: str, hidden: Collection[str], above: Collection[str]) -> Iterator[str]:
    """Yield what there is at a path: folders only if nothing in them is hidden."""
    if path not in above:
        yield path
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.path not in hidden and not entry.is_symlink():
                yield from _list_visible(entry.path, hidden, above)


def _allow(rules: int, path: str, rights: int) -> None:
    """Allow rights to a file, or to all in a folder, if there is one."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= ~_LIST
    if rights:
        calls.allow(rules, opened, rights)
    if path not in _OWN:  # which are known only as long as they are open
        os.close(opened)
