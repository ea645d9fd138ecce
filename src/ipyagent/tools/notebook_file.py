"""A notebook that no page has open: one cell of its file is changed and nothing else.

Also the cells of a notebook as text, and changes of cells as they are kept to be taken back.

It is written in the style that it had, so that a change of one cell changes no other line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from ipyagent.digests import digest_json
from ipyagent.errors import AgentError, InvalidArgumentsError, PageError, PathValidationError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import NotebookCell, OpenNotebook
from ipyagent.plaintext import ellipsize, first_line, plural, spell, strip_escapes
from ipyagent.schema import FileChange
from ipyagent.tools.file_change import Change, Checkpoints, decode_utf8
from ipyagent.tools.workspace import Workspace

_STYLES: tuple[JsonDict, ...] = (
    {"indent": 1},  # Jupyter's own
    {"indent": 2},
    {"indent": 4},
    {"indent": "\t"},
    {},
    {"separators": (",", ":")},
)


def _write_like(text: str, before: JsonDict, after: JsonDict) -> str:
    """Return a changed notebook in the style in which its text was written.

    That is the style in which the notebook before the change is the text; else Jupyter's own.
    """
    body, space = text.rstrip(), text[len(text.rstrip()) :]
    newline = "\r\n" if "\r\n" in text else "\n"
    for style, escapes in product(_STYLES, (False, True)):
        chosen = {**style, "ensure_ascii": escapes}
        if json.dumps(before, **chosen).replace("\n", newline) == body:
            break
    else:
        chosen = {"indent": 1, "ensure_ascii": "\\u" in text}
    return json.dumps(after, **chosen).replace("\n", newline) + space


class NotebookFile:
    """A notebook's file as of reading its cells; later changes by others are not lost."""

    def __init__(self, workspace: Workspace, path: str) -> None:
        self._workspace = workspace
        self._path = path
        self.changes: tuple[FileChange, ...] = ()
        """The changes that it has written."""
        self.name = spell(path)
        if workspace.stat(path) is None:
            missing = PathValidationError(f"{self.name}: no such file")
            raise missing.advise("(list_files shows them.)")
        self._before = workspace.read_bytes(path)
        self._text = decode_utf8(self._before, path)
        self._notebook = self._parse_notebook(self._text)

    def cells(self) -> list[NotebookCell]:
        """Return the cells."""
        return _parse_cells(self._notebook)

    def insert(self, index: int, kind: str, source: str) -> str:
        """Insert a cell; return its id, or "" in formats without ids."""
        cell = self._build_cell(kind, source)
        cells = self._notebook["cells"]
        self._write([*cells[:index], cell, *cells[index:]])
        return str(cell.get("id", ""))

    def replace(self, cell: NotebookCell, source: str) -> None:
        """Replace the source of a cell; code loses its outputs, which belong to the old source."""
        raw = dict(self._notebook["cells"][cell.number])
        raw["source"] = _split_source(source) if isinstance(raw.get("source"), list) else source
        if raw["cell_type"] == "code":
            raw |= {"outputs": [], "execution_count": None}
        cells = self._notebook["cells"]
        self._write([*cells[: cell.number], raw, *cells[cell.number + 1 :]])

    def _build_cell(self, kind: str, source: str) -> JsonDict:
        cell: JsonDict = {"cell_type": kind, "metadata": {}, "source": _split_source(source)}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        if _has_ids(self._notebook):
            cell["id"] = digest_json([self._text, cell])[:8]  # a replay gives it the same one
        return dict(sorted(cell.items()))

    def _write(self, cells: list[JsonDict]) -> None:
        text = _write_like(self._text, self._notebook, {**self._notebook, "cells": cells})
        self._parse_notebook(text)
        change = Change(self._path, self._before, text.encode(), "")
        kept = Checkpoints(self._workspace).save(change)
        self._workspace.compare_and_swap(self._path, self._before, text.encode())
        self.changes += (kept,)

    def _parse_notebook(self, text: str) -> JsonDict:
        """Return the notebook in a text; raises AgentError with the problem."""
        try:
            notebook = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AgentError(f"{self.name} is not a notebook: it is not JSON ({error})") from None
        if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
            raise AgentError(f"{self.name} is not a notebook in format 4, so it is left alone")
        if problem := _find_problem(notebook):
            raise AgentError(f"{self.name} is a damaged notebook, so it is left alone: {problem}")
        return notebook


def _find_problem(notebook: JsonDict) -> str | None:
    """Return the first problem that nbformat finds; missing ids are none."""
    from nbformat import validator

    try:
        error = next(validator.iter_validate(_with_ids(notebook)), None)
    except Exception as raised:  # a strange notebook fails in as many ways as it can be strange
        error = raised
    problem = first_line(str(error)) or type(error).__name__
    return None if error is None else problem[:200]


def _has_ids(notebook: JsonDict) -> bool:
    return bool(notebook.get("nbformat_minor", 0) >= 5)


def _with_ids(notebook: JsonDict) -> JsonDict:
    if not _has_ids(notebook):
        return notebook
    cells = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(notebook["cells"])]
    return notebook | {"cells": cells}


def _parse_cells(notebook: JsonDict) -> list[NotebookCell]:
    cells = notebook["cells"]
    counts = tuple(each.get("execution_count") for each in cells)
    return [_parse_cell(number, each, counts) for number, each in enumerate(cells)]


def _parse_cell(number: int, raw: JsonDict, counts: tuple[int | None, ...]) -> NotebookCell:
    return NotebookCell(
        number,
        raw.get("id", ""),
        raw["cell_type"],
        _join_text(raw.get("source", "")),
        raw.get("execution_count"),
        tuple(raw.get("outputs", ())),
        raw.get("metadata", {}).get("editable") is False,
        counts,
    )


def _split_source(source: str) -> list[str]:
    """Return a source as nbformat writes it."""
    return source.splitlines(keepends=True)


_MAX_OUTPUT_CHARS = 500
"""Characters of one output in this text."""


def render_notebook(name: str, cells: list[NotebookCell], running_id: str | None) -> str:
    """Return all cells with numbers, ids, kinds, sources and outputs; `running_id` asks."""
    rendered = [render_cell(cell, is_running=cell.id == running_id) for cell in cells]
    return "\n\n".join([f"({name}, {plural(len(cells), 'cell')})", *rendered])


def render_saved(text: str) -> str:
    """Return the cells of a notebook's file as text; the file's own text if it is invalid."""
    try:
        return render_notebook("notebook", _parse_cells(json.loads(text)), None)
    except Exception:  # a damaged notebook fails in as many ways as it can be damaged
        return text


def render_cell(
    cell: NotebookCell, *, is_running: bool = False, most: int = _MAX_OUTPUT_CHARS
) -> str:
    """Return a cell with its number, id, kind, source and outputs of `most` characters each."""
    marks = [
        f"#{cell.number} {cell.kind}",
        f"id={cell.id}" if cell.id else "",
        f"[{cell.execution_count}]" if cell.execution_count else "",
        "(the cell that you answer)" if is_running else "",
    ]
    outputs = [] if is_running else [ellipsize(_render_output(each), most) for each in cell.outputs]
    lines = [f"-> {each}" for each in outputs if each]
    return "\n".join([" ".join(filter(None, marks)), cell.source, *lines])


def _render_output(output: JsonDict) -> str:
    match output:
        case {"ename": name, "evalue": value}:
            frames = _list_own_frames(output.get("traceback") or ())
            text = "\n".join([f"{_join_text(name)}: {_join_text(value)}", *frames])
        case {"output_type": "stream", "text": said}:
            text = _join_text(said)
        case _:
            text = _render_rich_output(output.get("data", {}))
    return strip_escapes(text).strip()


_FRAME = re.compile(r"\s*(?:File |Cell In)")
"""The first line of a frame, as IPython and Python write it."""
_LIBRARY = re.compile(
    r"(?:site|dist)-packages|[\\/]lib[\\/]python[\d.]+[\\/]|\.px[di]\b|\.pyx\b|<frozen |<__array"
)
_AROUND, _FRAME_LINES = 2, 20
"""Lines before and after the one that failed, and lines of all frames."""


def _list_own_frames(traceback: Iterable[str]) -> list[str]:
    """Return the lines near the fault in the frames that are the user's, not a library's."""
    lines: list[str] = []
    for first, *rest in (strip_escapes(part).rstrip().split("\n") for part in traceback):
        if _FRAME.match(first) and not _LIBRARY.search(first):
            fault = next((at for at, line in enumerate(rest) if line.startswith("--")), None)
            near = rest if fault is None else rest[max(0, fault - _AROUND) : fault + _AROUND + 1]
            lines += [first, *near]
    return lines[-_FRAME_LINES:]


def _render_rich_output(data: JsonDict) -> str:
    """Return the text of a rich output, with a note if it has an image."""
    plain = _join_text(data.get("text/plain", ""))
    images = [kind for kind in data if kind.startswith("image/")]
    kinds = "" if plain else ", ".join(data)
    note = f"(image: {images[0]})" if images else f"({kinds})" if kinds else ""
    return " ".join(filter(None, (note, plain.strip())))


def _join_text(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


@dataclass(frozen=True)
class CellChange:
    """A cell that a call inserted (`before` is None), edited, or an undo removed (`after` is)."""

    path: str | None
    """The notebook's path as the tool got it; None: the kernel's own."""
    title: str
    """The cell in words."""
    number: int
    id: str
    kind: str
    before: str | None
    after: str | None

    def check(self, document: object) -> tuple[OpenNotebook, NotebookCell | None]:
        """Return the notebook, and the cell; raises AgentError if somebody changed it since."""
        if not isinstance(document, OpenNotebook):
            raise PageError(f"{self.title} stays: no page shows the notebook")
        cell = next((each for each in document.cells() if each.id == self.id), None)
        if (cell.source if cell else None) != self.after:
            raise InvalidArgumentsError(f"{self.title} has changed since, so it is left as it is")
        return document, cell

    def revert(self, document: object) -> CellChange:
        """Take the change back; return the change that this was."""
        notebook, cell = self.check(document)
        cell_id = self.id
        if cell is None:
            place = min(self.number, len(notebook.cells()))
            cell_id = notebook.insert(place, self.kind, self.before or "")
        elif self.before is None:
            notebook.remove(cell)
        else:
            notebook.replace(cell, self.before)
        return replace(self, id=cell_id, before=self.after, after=self.before)
