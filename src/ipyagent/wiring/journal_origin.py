"""Journals that came with a folder: whoever made them may have written anything into them.

The user's own directory knows which file this user's kernels created in a folder. The sessions in
any other file are sources that were read.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from ipyagent.agent.initial_graph import mark_origin
from ipyagent.config.user_data import Data, UserDataFile, folder_key
from ipyagent.errors import ConfigError
from ipyagent.store.journal import Journal

ORIGIN = "the sessions that came with this folder"

_JOURNALS = UserDataFile("journals.json")


def open_journal(path: Path) -> Journal:
    """Open a folder's journal; mark its sessions if it is not the file that was created here.

    Raises JournalError.
    """
    with contextlib.suppress(ConfigError):
        if path.exists() and _JOURNALS.read().get(folder_key(path)) == _identify(path):
            return Journal.open(path)
    journal: Journal | None = None

    def adopt(known: Data) -> Data:
        nonlocal journal
        journal = _open(path, known)
        return known | {folder_key(path): _identify(path)}

    with contextlib.suppress(ConfigError):
        _JOURNALS.update(adopt)
    if journal is None:  # the user's directory cannot be used, so nobody knows whose file it is
        journal = _open(path, {})
    return journal


def _open(path: Path, known: Data) -> Journal:
    is_own = not path.exists() or known.get(folder_key(path)) == _identify(path)
    journal = Journal.open(path)
    if not is_own:
        for record in journal.sessions():
            journal.update(mark_origin(record, ORIGIN))
    return journal


def _identify(path: Path) -> str:
    """Return a file's identity, which stays when it is written to or moved, and not in a copy."""
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"
