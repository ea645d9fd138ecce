"""The report of a rehearsal, read: its writer has run hostile code, so nothing is taken on trust.

A forged report can only say what the code could have printed as well, or bind new names to data.
"""

from __future__ import annotations

import builtins
import keyword
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.images import as_image
from ipyagent.kernel.rehearsal.plain_data import read_all
from ipyagent.kernel.rehearsal.plain_tables import BadDataError
from ipyagent.kernel.rehearsal.rehearser import NotRehearsedError
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
) -> Rehearsed:
    """Return what a report means; raises NotRehearsedError if it makes no sense.

    `existing` are the variables that its data may refer to.
    """
    try:
        result = _read_result(report["result"])
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
    is_clean = not (found.variables or found.files or found.texts)
    if not result.success:
        if attempts or (result.error or "").partition(":")[0] not in _PLAIN_ERRORS:
            return Rehearsed(found)
        failed = Rehearsal(outcome=RehearsalOutcome.FAILED)
        return Rehearsed(failed, result if is_clean else result.with_note(UNKEPT))
    if is_clean:
        return Rehearsed(Rehearsal(outcome=RehearsalOutcome.LOOKED), result)
    new = {each.name for each in found.variables if each.change == "created"}
    nodes = report.get("adoption")
    if found.files or found.texts or len(new) != len(found.variables):
        return Rehearsed(found)
    if type(nodes) is not dict or new != nodes.keys() or not all(map(is_bindable, new)):
        return Rehearsed(found)
    try:
        adoption = read_all(nodes, buffers, existing)
    except BadDataError:
        return Rehearsed(found)
    adopted = found.model_copy(update={"outcome": RehearsalOutcome.ADOPTED, "result": None})
    return Rehearsed(adopted, result, adoption)


def _read_result(data: JsonDict) -> ToolResult:
    images = (as_image(str(i["media_type"]), str(i["data"])) for i in data["images"][:_IMAGES])
    displays = [Display.model_validate(each) for each in data["displays"][:_DISPLAYS]]
    return ToolResult(
        success=data["success"],
        output=str(data["output"]),
        error=None if data["success"] else str(data["error"]),
        for_model=data.get("for_model"),
        truncated=data.get("truncated"),
        images=tuple(each for each in images if each is not None),
        displays=tuple(
            Display(
                data={kind: text for kind, text in each.data.items() if kind in _SHOWN},
                images_before=each.images_before,
            )
            for each in displays
        ),
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
        elif kind == "deleted" and not exists:
            continue  # an overlay has it for what is in it, or it was made there before
        change: Any = "deleted" if kind == "deleted" else "changed" if exists else "created"
        name = path.relative_to(root) if path.is_relative_to(root) else path
        diff = _diff(str(name), entry.get("text"), workspace, is_new=not exists)
        end = "/" if kind in ("folder", "new folder") else ""
        yield FileEffect(path=f"{name}{end}", change=change, diff=diff)


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
    """Return whether a name may be bound to data: none that hides a part of the language."""
    return name.isidentifier() and not keyword.iskeyword(name) and not hasattr(builtins, name)
