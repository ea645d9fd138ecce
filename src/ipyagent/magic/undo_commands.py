"""`%agent undo`: a run's changes of files, taken back."""

from __future__ import annotations

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.plaintext import spell
from ipyagent.schema import FileChange, Run
from ipyagent.tools.checkpoints import Checkpoints, UndoResult
from ipyagent.wiring import runtime


def run(book: Notebook, rest: str) -> str:
    """take back what RUN changed in files; alone, the newest run that changed any"""
    with runtime().run_lock.hold_all():  # not beneath a plan in the background
        found = _find_run(book, rest)
        undone = Checkpoints(book.environment.workspace).undo(_changes(found))
    return _describe_undo(found, undone)


def _find_run(book: Notebook, reference: str) -> Run:
    runs = book.sessions.find_runs(reference) if reference else book.sessions.get().runs
    changed = [each for each in runs if _changes(each)]
    if not changed:
        raise ConfigError(f"{'that run' if reference else 'no run'} changed files; nothing to undo")
    return changed[-1]


def _changes(run: Run) -> list[FileChange]:
    return [change for result in run.results for change in result.files]


def _describe_undo(run: Run, undone: UndoResult) -> str:
    lines = [f"{spell(path)} is as it was before run {run.id}" for path in undone.restored]
    return "\n".join([*lines, *undone.skipped.values()])
