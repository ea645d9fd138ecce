"""`%agent undo`: what a run changed in variables, files and cells, taken back."""

from __future__ import annotations

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook

DRY_RUN = "--dry-run"


def run(book: Notebook, rest: str) -> str:
    """take back what RUN or CALL changed; alone, the newest run; --dry-run only says what"""
    words = rest.split()
    names = [word for word in words if word != DRY_RUN]
    if len(names) > 1 or any(name.startswith("-") for name in names):
        raise ConfigError(f"usage: %agent undo [RUN|CALL] [{DRY_RUN}]")
    return str(book.undo("".join(names), dry_run=DRY_RUN in words))
