"""`%agent undo`: a run's changes of files, taken back."""

from __future__ import annotations

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.schema import FileChange, Run
from ipyagent.tools.checkpoints import Checkpoints, Undone
from ipyagent.tools.names import shown
from ipyagent.wiring import only_run


def run(book: Notebook, rest: str) -> str:
    """take back what RUN changed in files; alone, the newest run that changed any"""
    with only_run():  # not beneath a plan in the background
        found = _found(book, rest)
        undone = Checkpoints(book.place.workspace).undo(_changes(found))
    return _told(found, undone)


def _found(book: Notebook, reference: str) -> Run:
    runs = book.runs(reference) if reference else book.session().runs
    changed = [each for each in runs if _changes(each)]
    if not changed:
        raise ConfigError(f"{'that run' if reference else 'no run'} changed files; nothing to undo")
    return changed[-1]


def _changes(run: Run) -> list[FileChange]:
    return [change for result in run.results for change in result.files]


def _told(run: Run, undone: Undone) -> str:
    lines = [f"{shown(path)} is as it was before run {run.id}" for path in undone.restored]
    return "\n".join([*lines, *undone.left.values()])
