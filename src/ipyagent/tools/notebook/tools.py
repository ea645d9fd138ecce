"""read_notebook, insert_cell and edit_cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Protocol

from pydantic import Field

from ipyagent.errors import AgentError, InvalidArgumentsError, PageError
from ipyagent.kernel.documents import Desktop, Kind, NotebookCell, OpenNotebook
from ipyagent.schema import Preview
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.changes import Change
from ipyagent.tools.names import shown
from ipyagent.tools.notebook.closed import ClosedNotebook
from ipyagent.tools.notebook.text import notebook_text
from ipyagent.tools.pending import Pending, digest
from ipyagent.tools.workspace import Workspace

NO_PAGE = (
    "the notebook of this kernel cannot be reached: that needs JupyterLab 4 or Notebook 7 with "
    "ipyagent's extension, and a page that shows it. Without that, insert_cell without an index "
    "proposes a new code cell; other changes can be described to the person"
)

CellRef = int | str
Index = Annotated[int, Field(ge=0)]

_LANGUAGES = {"code": "python", "markdown": "markdown", "raw": "text"}


def check_closed(workspace: Workspace, desktop: Desktop, path: str) -> None:
    """Raise PageError for a notebook that is open, or may be: its file is not to be written."""
    file = workspace.root / path
    if path.lower().endswith(".ipynb") and (desktop.is_own(file) or desktop.at(file)):
        raise PageError(
            f"{shown(path)} is open, so its file is left alone: insert_cell and edit_cell change "
            "it in its page"
        )


class Document(Protocol):
    """A notebook, open or closed."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def cells(self) -> list[NotebookCell]:
        """Its cells."""
        ...

    def insert(self, index: int, kind: str, source: str) -> str:
        """Insert a cell; its id."""
        ...

    def replace(self, cell: NotebookCell, source: str) -> None:
        """Give a cell another source, if it still is what it was."""
        ...


class Notebooks:
    """The tools that read and change notebooks: open ones in their page, closed ones as files.

    What a preview showed is remembered until the call runs, as for files.
    """

    def __init__(self, workspace: Workspace, desktop: Desktop, edit_seconds: float) -> None:
        self._workspace, self._desktop = workspace, desktop
        self._pending = Pending(edit_seconds)
        self._inserted: dict[str, set[str]] = {}

    def tools(self) -> Iterator[Tool]:
        """All three."""
        workspace = self._workspace
        yield tool(
            where=Where.THREAD,
            refuse_controls=True,
            validate=lambda path: workspace.readable(path) if path else None,
            requires=self._require,
            paths=lambda path, **_: self._files(path),
            source=lambda path, **_: shown(workspace.named(path)) if path else "this notebook",
            always_asks=lambda path, **_: workspace.linked(path) if path else None,
        )(self.read_notebook)
        for function, preview in (
            (self.insert_cell, self._preview_insert),
            (self.edit_cell, self._preview_edit),
        ):
            yield tool(
                sensitive=True,
                refuse_controls=True,
                where=Where.THREAD,
                preview=preview,
                validate=lambda path, **_: workspace.changeable(path) if path else None,
                paths=lambda path, **_: self._files(path),
                always_asks=lambda path, **_: workspace.guarded(path) if path else None,
            )(function)

    def read_notebook(self, path: str | None = None) -> str:
        """Read a notebook's cells with ids and outputs; without a path, the user's own."""
        document, note = self._readable(path)
        return notebook_text(document.name + note, document.cells(), self._desktop.cell_id)

    def insert_cell(
        self,
        source: str,
        kind: Kind = "code",
        index: Index | None = None,
        path: str | None = None,
    ) -> str:
        """Insert a cell into the user's notebook, below this cell or at index (0: first)."""
        call = digest("insert", source, kind, index, path)
        document = self._document(path)
        if document is None:
            self._check_next(kind, index)
            self._pending.take(call, "the next cell", b"")
            return self._propose(source)
        cells = document.cells()
        place = self._place(document, cells, index)
        self._pending.take(call, document.name, _there(cells, index))
        cell_id = document.insert(place, kind, source)
        self._inserted.setdefault(document.name, set()).add(cell_id)
        named = f" (id={cell_id})" if cell_id else ""
        return f"inserted a {kind} cell as [{place}]{named} in {document.name}; it was not run"

    def edit_cell(self, cell: CellRef, source: str, path: str | None = None) -> str:
        """Replace the source of a cell in the user's notebook, given by id or number."""
        document = self._known(path)
        old = _changeable(document.cells(), cell)
        title = f"cell {old.number} of {document.name}"
        self._pending.take(digest("edit", cell, source, path), title, identity(old))
        document.replace(old, source)
        return f"changed {title}; it was not run"

    def _preview_insert(
        self, source: str, kind: Kind, index: int | None = None, path: str | None = None
    ) -> Preview:
        _encoded(source)
        document, before = self._document(path), b""
        if document is None:
            self._check_next(kind, index)
        else:
            cells = document.cells()
            self._place(document, cells, index)
            before = _there(cells, index)
        change = Change("", before, None, "")
        self._pending.add(digest("insert", source, kind, index, path), change)
        return Preview(kind="code", language=_LANGUAGES[kind], text=source)

    def _preview_edit(self, cell: CellRef, source: str, path: str | None = None) -> Preview:
        document = self._known(path)
        old = _changeable(document.cells(), cell)
        name = f"{document.name}, cell {old.number}"
        if old.source == source:
            raise InvalidArgumentsError(f"{name} holds exactly that; nothing to do")
        change = Change(name, _lines(old.source), _lines(source), "")
        known = replace(change, before=identity(old))
        self._pending.add(digest("edit", cell, source, path), known)
        return Preview(kind="diff", language="diff", text=change.diff())

    def _document(self, path: str | None) -> Document | None:
        """The notebook that is meant; None: the kernel's own, and no page shows it."""
        if path is None:
            return self._desktop.own()
        relative = self._workspace.relative(path)
        file = self._workspace.root / relative
        if opened := self._desktop.at(file):
            return opened
        if self._desktop.is_own(file):
            return self._desktop.own()
        return ClosedNotebook(self._workspace, relative)

    def _known(self, path: str | None) -> Document:
        document = self._document(path)
        if document is None:
            raise PageError(NO_PAGE)
        return document

    def _require(self, path: str | None) -> None:
        """Raise AgentError where no notebook is at `path`."""
        document, _ = self._readable(path)
        if isinstance(document, ClosedNotebook):
            document.cells()

    def _readable(self, path: str | None) -> tuple[Document, str]:
        """A notebook to read, and what is to be said of it beside its name."""
        if (document := self._document(path)) is not None:
            return document, ", open" if isinstance(document, OpenNotebook) else ""
        saved = self._desktop.saved
        if saved is None:
            raise PageError(NO_PAGE)
        path = self._workspace.relative(str(saved))
        return ClosedNotebook(self._workspace, path), ", as it was saved last"

    def _files(self, path: str | None) -> tuple[str, ...]:
        """The file that a call is about, as far as it is known."""
        if path is not None:
            return (self._workspace.named(path),)
        with suppress(AgentError):
            saved = self._desktop.saved
            return (self._workspace.relative(str(saved)),) if saved else ()
        return ()

    def _place(self, document: Document, cells: list[NotebookCell], index: int | None) -> int:
        """Where a cell goes; without an index below what asks, and below what it inserted."""
        if index is not None:
            if index > len(cells):
                raise InvalidArgumentsError(
                    f"index {index}: {document.name} has {len(cells)} cells, so the last place "
                    f"is {len(cells)}"
                )
            return index
        ours = {self._desktop.cell_id, *self._inserted.get(document.name, ())}
        below = [cell.number + 1 for cell in cells if cell.id and cell.id in ours]
        return max(below, default=len(cells))

    def _check_next(self, kind: str, index: int | None) -> None:
        """Whether a cell can be proposed as the next input."""
        if kind != "code" or index is not None:
            raise PageError(NO_PAGE)

    def _propose(self, source: str) -> str:
        proposed = self._desktop.next_input
        if proposed is None:
            raise PageError("there is no notebook around this code; name one by its path")
        proposed.add(source)
        return (
            f"no page with ipyagent's extension shows the notebook, so the code is proposed as "
            f"input: it appears {proposed.where} when this run is over. It was not run"
        )


def found(cells: list[NotebookCell], cell: CellRef) -> NotebookCell:
    """The cell with that id, or at that position; raises InvalidArgumentsError."""
    for each in cells:
        if each.id and each.id == cell:
            return each
    if isinstance(cell, str) and not re.fullmatch(r"-?[0-9]{1,9}", cell):
        unknown = InvalidArgumentsError(f"no cell has the id {cell!r}")
        raise unknown.advise("(read_notebook shows them.)")
    number = int(cell)
    if not 0 <= number < len(cells):
        raise InvalidArgumentsError(
            f"there is no cell {number}: the notebook has {len(cells)}, counted from 0"
        )
    return cells[number]


def _changeable(cells: list[NotebookCell], cell: CellRef) -> NotebookCell:
    """That cell, unless the person has locked it."""
    named = found(cells, cell)
    if named.locked:
        raise InvalidArgumentsError(
            f"cell {named.number} is locked: its metadata says that it is not editable"
        )
    return named


def identity(cell: NotebookCell) -> bytes:
    """What tells whether a cell is another one, or changed."""
    return f"{cell.id}\n{cell.source}".encode("utf-8", "surrogatepass")


def _there(cells: list[NotebookCell], index: int | None) -> bytes:
    """What stands where a cell is to be inserted."""
    return b"" if index is None or index == len(cells) else identity(cells[index])


def _lines(source: str) -> bytes:
    """A source as a diff is to see it: cells end without a line break."""
    return _encoded(f"{source}\n") if source else b""


def _encoded(source: str) -> bytes:
    try:
        return source.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(f"the text is not valid Unicode: {error.reason}") from None
