"""Reports of rehearsals, and what they mean.

A report was written by a process that has run hostile code, so nothing is taken on trust. A forged
one can only say what the code could have printed as well, or bind new names to data.
"""

from __future__ import annotations

import builtins
import keyword
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Literal
from unicodedata import normalize

from pydantic import ValidationError

from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.images import as_image
from ipyagent.kernel.rehearsal.performance import digest_file
from ipyagent.kernel.rehearsal.plain_cells import NotPlainError
from ipyagent.kernel.rehearsal.plain_data import read_all
from ipyagent.kernel.rehearsal.rehearser import NotRehearsedError
from ipyagent.kernel.rehearsal.surroundings import PASSING
from ipyagent.schema import (
    Display,
    FileEffect,
    Rehearsal,
    RehearsalOutcome,
    ToolResult,
    VariableChange,
)
from ipyagent.tools.file_change import Change
from ipyagent.tools.rehearsed import Rehearsed
from ipyagent.tools.workspace import Workspace

_TEXTS, _TEXT, _PATH = 30, 300, 4_096
"""Texts of a list that are taken, characters of each, and of a path."""
_IMAGES, _DISPLAYS, _CHANGES, _FILES, _DIFF = 20, 50, 200, 100, 100_000
_SHOWN = frozenset({"text/html", "text/markdown", "text/latex", "image/svg+xml"}) | {
    "application/json",
    "text/plain",
}
_PLAIN_ERRORS = {
    name
    for name, each in vars(builtins).items()
    if isinstance(each, type)
    and issubclass(each, Exception)
    and not issubclass(each, OSError | ImportError | MemoryError | EOFError | RecursionError)
} | {"UndefinedVariableError", "MergeError", "AxisError", "LinAlgError"}
"""Errors that can hardly come from the isolation."""

UNKEPT = "(Tried on a copy of the kernel: nothing that it did before the error was kept.)"


def judge_report(
    report: JsonDict,
    buffers: Sequence[memoryview],
    workspace: Workspace,
    existing: Mapping[str, object],
    own: Collection[str] = (),
    *,
    may_leave: bool = False,
    comes_again: bool = False,
) -> Rehearsed:
    """Return what a report means; raises NotRehearsedError if it makes no sense.

    `existing` are the variables that its data may refer to, `own` those that the run has made.
    `may_leave`: names that only loops bind may stay on the copy, and what code makes for its own
    output, unless it `comes_again`.
    """
    try:
        result = _read_result(report["result"])
        passing, loops = ({*map(str, report[each])} for each in ("passing", "loops"))
        attempts, around = report["attempts"], report["around"]
        found = Rehearsal(
            outcome=RehearsalOutcome.CHANGES,
            variables=tuple(_read_variables(report["variables"])),
            files=tuple(_read_files(report["files"], workspace)),
            result=result,
            texts=tuple(str(each)[:_TEXT] for each in (*around[:_TEXTS], *attempts[:_TEXTS])),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError):
        raise NotRehearsedError("its report makes no sense") from None
    if not result.success:
        if attempts or not _is_of_code(result.error or "", around):
            return Rehearsed(found)
        failed = Rehearsal(outcome=RehearsalOutcome.FAILED)
        is_half = bool(found.files or found.texts) or any(
            each.change != "created" for each in found.variables
        )
        result = result if _is_clean(found) else result.with_note(UNKEPT)
        return Rehearsed(failed, result, is_half=is_half)
    kept = found
    if may_leave and _shows(result) and not comes_again:
        kept = _leave_passing(found, passing, loops, PASSING)
    elif may_leave:
        kept = _leave_passing(found, (), loops, {})
    if _is_clean(kept):
        return Rehearsed(Rehearsal(outcome=RehearsalOutcome.LOOKED, left=kept.left), result)
    nodes, names = report.get("adoption"), {each.name for each in kept.variables}
    is_own = all(
        (each.change == "created" and is_bindable(each.name))
        or (each.change != "created" and each.name in own)
        for each in kept.variables
    )
    gone = [each.name for each in kept.variables if each.change == "deleted"]
    if kept.files or kept.texts or not is_own or type(nodes) is not dict:
        return Rehearsed(found)
    if nodes.keys() != names.difference(gone):
        return Rehearsed(found)
    try:
        adoption = replace(read_all(nodes, buffers, existing), gone=gone)
    except NotPlainError:
        return Rehearsed(found)
    adopted = kept.model_copy(update={"outcome": RehearsalOutcome.ADOPTED, "result": None})
    return Rehearsed(adopted, result, adoption)


def _is_clean(found: Rehearsal) -> bool:
    return not (found.variables or found.files or found.texts)


_OF_QUERIES = re.compile(r"no such (column|table)|syntax error")


def _is_of_code(error: str, around: Collection[str]) -> bool:
    """Return whether code would fail with this error outside of the isolation, too."""
    kind, _, text = error.partition(":")
    if kind in ("OperationalError", "DatabaseError"):
        # A connection that has lost its file is named there: its database is empty.
        return _OF_QUERIES.search(text) is not None and not around
    if kind != "ModuleNotFoundError":
        return kind in _PLAIN_ERRORS and text != " no running event loop"  # a fork has none
    name = text.partition("'")[2].partition("'")[0].partition(".")[0]
    return bool(name) and PathFinder.find_spec(name) is None


def _shows(result: ToolResult) -> bool:
    """Return whether there is something to look at: else the changes are what code is for."""
    return bool(result.output.strip() or result.images or result.displays)


def _leave_passing(
    found: Rehearsal,
    passing: Collection[str],
    loops: Collection[str],
    settings: Mapping[str, str],
) -> Rehearsal:
    """Return the rehearsal without what its code has made for its own output, which is named.

    That is what is `passing`, names that only `loops` bind, and `settings`, by their text.
    """
    may_go = {"created": {*passing, *loops}, "changed": loops}
    gone = [
        each.name
        for each in found.variables
        if each.name in may_go.get(each.change, ()) and is_bindable(each.name)
    ]
    return found.model_copy(
        update={
            "variables": tuple(each for each in found.variables if each.name not in gone),
            "texts": tuple(each for each in found.texts if each not in settings),
            "left": (*gone, *(settings[text] for text in found.texts if text in settings)),
        }
    )


def _read_result(data: JsonDict) -> ToolResult:
    images = (as_image(str(i["data"])) for i in data["images"][:_IMAGES])
    displays = (
        Display(
            data={kind: text for kind, text in each["data"].items() if kind in _SHOWN},
            images_before=each["images_before"],
        )
        for each in data["displays"][:_DISPLAYS]
    )
    return ToolResult(
        success=data["success"],
        output=str(data["output"]),
        error=None if data["success"] else str(data["error"]),
        for_model=data.get("for_model"),
        truncated=data.get("truncated"),
        images=tuple(each for each in images if each is not None),
        displays=tuple(displays),
    )


def _read_variables(changes: list[JsonDict]) -> Iterator[VariableChange]:
    for change in changes[:_CHANGES]:
        if len(change["name"]) > _TEXT or len(change["type"]) > _TEXT:
            raise ValueError("a name is too long")
        cut = {key: str(text)[:_TEXT] for key, text in change.items()}
        yield VariableChange.model_validate(cut)


def _read_files(entries: list[JsonDict], workspace: Workspace) -> Iterator[FileEffect]:
    """Yield the files and folders that would differ from what is there now."""
    root = workspace.root
    for entry in entries[:_FILES]:
        path, kind = Path(str(entry["path"])[:_PATH]), entry["kind"]
        exists = path.is_relative_to(root) and path.exists()
        if kind == "folder" and exists and path.is_dir():
            if stat.S_IMODE(entry["mode"]) == stat.S_IMODE(path.stat().st_mode):
                continue
        elif kind == "file" and exists and _is_same_file(entry, path):
            continue  # it was only opened for writing, as databases are
        elif kind == "deleted" and not exists:
            continue  # an overlay has it for what is in it, or it was made there before
        change: Literal["created", "changed", "deleted"] = (
            "deleted" if kind == "deleted" else "changed" if exists else "created"
        )
        name = path.relative_to(root) if path.is_relative_to(root) else path
        diff = _diff(str(name), entry.get("text"), workspace, is_new=not exists)
        end = "/" if kind in ("folder", "new folder") else ""
        yield FileEffect(path=f"{name}{end}", change=change, diff=diff)


def _is_same_file(entry: JsonDict, path: Path) -> bool:
    status, digest = path.lstat(), entry["digest"]
    is_alike = (entry["mode"], entry["time"]) == (status.st_mode, status.st_mtime_ns)
    return is_alike and digest is not None and digest == digest_file(path)


def _diff(path: str, text: object, workspace: Workspace, *, is_new: bool) -> str:
    """Return how a text file in the workspace would differ; "" if that cannot be told."""
    if not isinstance(text, str) or Path(path).is_absolute():
        return ""
    try:
        before = None if is_new else workspace.read_bytes(path)
    except AgentError:
        return ""
    return Change(path, before, text.encode(), "").diff()[:_DIFF]


def is_bindable(name: str) -> bool:
    """Return whether a name may be bound to data: none that hides or is a part of the language."""
    is_special = name.startswith("__") or keyword.iskeyword(name) or hasattr(builtins, name)
    # Another spelling of a name, which Python reads as that one, would not be the one shown.
    return name.isidentifier() and not is_special and normalize("NFKC", name) == name
