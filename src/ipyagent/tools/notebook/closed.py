"""A notebook that no page has open: its file, of which one cell is changed and nothing else."""

from __future__ import annotations

import json
import uuid

from ipyagent.errors import AgentError, PathValidationError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.documents import NotebookCell
from ipyagent.tools.names import shown
from ipyagent.tools.notebook.spans import Cells, lists_of_cells
from ipyagent.tools.reading import text_of
from ipyagent.tools.workspace import Workspace

_WITH_IDS = (4, 5)
"""The first format whose cells have ids."""


class ClosedNotebook:
    """A notebook's file as it was when its cells were read; what changes it since is not lost."""

    def __init__(self, workspace: Workspace, path: str) -> None:
        self._workspace = workspace
        self._path = path
        self.name = shown(path)
        if workspace.stat(path) is None:
            missing = PathValidationError(f"{self.name}: no such file")
            raise missing.advise("(list_files shows them.)")
        self._before = workspace.read_bytes(path)
        self._text = text_of(self._before, path)
        self._notebook = self._checked(self._text)

    def cells(self) -> list[NotebookCell]:
        """Its cells."""
        return [_cell(number, each) for number, each in enumerate(self._raw())]

    def insert(self, index: int, kind: str, source: str) -> str:
        """Insert a cell; its id, or "" in formats without ids."""
        cell = self._new(kind, source)
        cells, place = self._placed(index)
        self._write(cells.inserted(place, cell))
        return str(cell.get("id", ""))

    def replace(self, cell: NotebookCell, source: str) -> None:
        """Give a cell another source; code loses its outputs, which were of the old one."""
        cells, place = self._placed(cell.number)
        raw = dict(self._raw()[cell.number])
        key = "input" if "input" in raw else "source"
        raw[key] = _as_lines(source) if isinstance(raw.get(key), list) else source
        if raw["cell_type"] == "code":
            raw["outputs"] = []
            raw.pop("prompt_number", None)
            raw |= {"execution_count": None} if self._version[0] > 3 else {}
        self._write(cells.replaced(place, raw))

    @property
    def _version(self) -> tuple[int, int]:
        return self._notebook["nbformat"], self._notebook.get("nbformat_minor", 0)

    def _raw(self) -> list[JsonDict]:
        sheets = self._notebook.get("worksheets", [self._notebook])
        return [cell for sheet in sheets for cell in sheet.get("cells", ())]

    def _new(self, kind: str, source: str) -> JsonDict:
        lines = _as_lines(source)
        if self._version[0] == 3:
            code = {"collapsed": False, "input": lines, "language": "python", "outputs": []}
            parts = code if kind == "code" else {"source": lines}
            return {"cell_type": kind, **parts, "metadata": {}}
        cell: JsonDict = {"cell_type": kind, "metadata": {}, "source": lines}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        if self._version >= _WITH_IDS:
            cell["id"] = uuid.uuid4().hex[:8]
        return dict(sorted(cell.items()))

    def _placed(self, index: int) -> tuple[Cells, int]:
        """The list of cells, and the place in it, that the index of a cell stands for."""
        lists = lists_of_cells(self._text)
        if not lists:
            raise AgentError(f"{self.name} has no worksheet that could hold a cell")
        for cells in lists[:-1]:
            if index < len(cells.items):
                return cells, index
            index -= len(cells.items)
        return lists[-1], index

    def _write(self, text: str) -> None:
        self._checked(text)
        self._workspace.swap(self._path, self._before, text.encode())

    def _checked(self, text: str) -> JsonDict:
        """The notebook in a text, if it is one; raises AgentError saying what is wrong with it."""
        try:
            notebook = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AgentError(f"{self.name} is no notebook: it is not JSON ({error})") from None
        if not isinstance(notebook, dict) or notebook.get("nbformat") not in (3, 4):
            raise AgentError(f"{self.name} is no notebook in format 3 or 4, so it is left alone")
        if problem := _problem(notebook):
            raise AgentError(f"{self.name} is a damaged notebook, so it is left alone: {problem}")
        return notebook


def _problem(notebook: JsonDict) -> str | None:
    """What nbformat finds wrong first; ids that are missing are no damage."""
    from nbformat import validator

    try:
        error = next(validator.iter_validate(_with_ids(notebook)), None)
    except Exception as raised:  # a strange notebook fails in as many ways as it can be strange
        error = raised
    said = str(error).strip().partition("\n")[0] or type(error).__name__
    return None if error is None else said[:200]


def _with_ids(notebook: JsonDict) -> JsonDict:
    if (notebook["nbformat"], notebook.get("nbformat_minor", 0)) < _WITH_IDS:
        return notebook
    cells = [{"id": f"cell-{i}", **cell} for i, cell in enumerate(notebook["cells"])]
    return notebook | {"cells": cells}


def _cell(number: int, raw: JsonDict) -> NotebookCell:
    # Headings of format 3 are Markdown since.
    kind = "markdown" if raw["cell_type"] == "heading" else raw["cell_type"]
    return NotebookCell(
        number,
        raw.get("id", ""),
        kind,
        _joined(raw["input"] if "input" in raw else raw.get("source", "")),
        raw.get("execution_count", raw.get("prompt_number")),
        tuple(raw.get("outputs", ())),
        raw.get("metadata", {}).get("editable") is False,
    )


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _as_lines(source: str) -> list[str]:
    """A source as nbformat writes it."""
    return source.splitlines(keepends=True)
