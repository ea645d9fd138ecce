"""Notes for later sessions, in `.ipyagent/notes.json`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ipyagent.errors import PathValidationError
from ipyagent.schema import Note, ToolResult
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.names import STATE, human_size, shown
from ipyagent.tools.sourced import with_sources
from ipyagent.tools.workspace import State, Workspace

FILE = "notes.json"
MAX_BYTES = 1_000_000
"""No note is added to more than this."""

_NAMED = 5  # sources of a note

Content = Annotated[str, Field(min_length=1, max_length=10_000)]
Category = Annotated[str, Field(min_length=1, max_length=100)]


def note_tools(workspace: Workspace, read: Callable[[], Iterable[str]] = tuple) -> list[Tool]:
    """record_note and recall_notes for that workspace.

    A note reaches later sessions, so after others' words were read it is asked about, and it says
    what `read` returns, which is whose words they were. The folder may have come with notes of
    whoever made it.
    """
    notes = Notes(workspace, read)
    return [
        tool(where=Where.THREAD, reaches_out=True, refuse_controls=True)(notes.record_note),
        tool(where=Where.THREAD, source=lambda **_: f"{STATE}/{FILE}")(notes.recall_notes),
    ]


class Notes:
    """The tools that keep notes. Two writers lose nothing, and neither does a damaged file."""

    def __init__(self, workspace: Workspace, read: Callable[[], Iterable[str]] = tuple) -> None:
        self._workspace, self._read = workspace, read

    def record_note(self, content: Content, category: Category | None = None) -> str:
        """Keep a fact or decision that is worth knowing in later sessions."""
        note = Note(content=content, category=category, origin=tuple(self._read()))
        state = self._workspace.state()
        with state.locked(f"{FILE}.lock"):
            before, entries, remark = _load(state)
            after = _dumped([*entries, note.to_dict()])
            if len(after) > MAX_BYTES:
                raise PathValidationError(
                    f"the notes would be larger than {human_size(MAX_BYTES)}; the person may "
                    f"remove some from {STATE}/{FILE}"
                )
            state.swap(FILE, before, after)
        where = f" (category: {category})" if category else ""
        return f"Recorded note: {note.content}{where}{remark}"

    def recall_notes(self, category: Category | None = None) -> str | ToolResult:
        """Read the notes of this and earlier sessions, all or those of a category."""
        if self._workspace.stat(f"{STATE}/{FILE}") is None:
            return with_sources(ToolResult(output="No notes recorded yet."), ())
        state = self._workspace.state()
        with state.locked(f"{FILE}.lock"):
            before, entries, remark = _load(state)
            if remark:
                state.delete(FILE, before)
        notes = list(_notes(entries))
        found = [each for each in notes if category is None or each.category == category]
        if left := len(entries) - len(notes):
            remark += f"\n({left} of the entries in {STATE}/{FILE} are no notes)"
        if not notes:
            return f"No notes recorded yet.{remark}"
        if not found:
            return f"No notes found in category: {category}{remark}"
        return "\n".join(_line(number, each) for number, each in enumerate(found, 1)) + remark


def _load(state: State) -> tuple[bytes | None, list[Any], str]:
    """What the file holds, the entries in it, and a remark where it was damaged."""
    data = state.content(FILE)
    if data is None:
        return None, [], ""
    if not data.strip():
        return data, [], ""
    try:
        entries = json.loads(data)
    except (ValueError, RecursionError):
        entries = None
    if isinstance(entries, list):
        return data, entries, ""
    return data, [], f"\n({STATE}/{FILE} was damaged; it is kept as {_kept(state, data)})"


def _kept(state: State, data: bytes) -> str:
    """Keep a damaged file under a name that no other has."""
    numbered = (f"{FILE}.corrupt.{number}" for number in itertools.count(1))
    free = (name for name in itertools.chain([f"{FILE}.corrupt"], numbered) if not state.stat(name))
    name = next(free)
    state.swap(name, None, data)
    return name


def _dumped(entries: list[Any]) -> bytes:
    # What is no valid Unicode stays an escape, as it was.
    return json.dumps(entries, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")


def _notes(entries: list[Any]) -> Iterator[Note]:
    """The entries that are notes, ours or in the layout that others use."""
    for entry in entries:
        try:
            yield Note.from_dict(_in_zone(entry))
        except (ValidationError, ValueError, OverflowError):
            continue


def _in_zone(entry: Any) -> Any:
    """An entry whose moment has no zone gets the zone of this machine."""
    given = entry.get("timestamp") if isinstance(entry, dict) else None
    if not isinstance(given, str):
        return entry
    return {**entry, "timestamp": datetime.fromisoformat(given).astimezone()}


def _line(number: int, note: Note) -> str:
    label = f"[{note.category}] " if note.category else ""
    after = f"; after reading {_listed(note.origin)}" if note.origin else ""
    return (
        f"{number}. {label}{note.content}\n"
        f"   (recorded {note.created_at:%Y-%m-%d %H:%M} UTC{after})"
    )


def _listed(origin: Sequence[str]) -> str:
    some = [shown(each) for each in origin[:_NAMED]]
    return ", ".join([*some, *([f"{len(origin) - _NAMED} more"] if len(origin) > _NAMED else [])])
