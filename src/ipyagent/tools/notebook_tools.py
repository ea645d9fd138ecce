"""read_notebook, insert_cell, edit_cell and run_cell, whose outputs appear in the notebook."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from ipyagent.digests import digest_json
from ipyagent.errors import AgentError, InvalidArgumentsError, PageError
from ipyagent.kernel.outputs import CellOutputs, offer_output, output_so_far
from ipyagent.kernel.pages import Kind, NotebookCell, OpenNotebook, OpenNotebooks
from ipyagent.kernel.threads import Post
from ipyagent.plaintext import spell
from ipyagent.schema import CellPlace, Preview, ToolResult
from ipyagent.tools.argument_schema import check_control_characters
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.file_change import Change, Previews, encode_text
from ipyagent.tools.notebook_file import CellChange, NotebookFile, render_cell, render_notebook
from ipyagent.tools.tracked_namespace import TrackedNamespace
from ipyagent.tools.workspace import Workspace

NO_PAGE = (
    "the notebook of this kernel cannot be reached: that needs JupyterLab 4 or Notebook 7 with "
    "ipyagent's extension, and a page that shows it. Without that, insert_cell without an index "
    "proposes a new code cell; other changes can be described to the user"
)

CellRef = Annotated[int | str, WithJsonSchema({"type": "string"})]
"""The id or number of a cell; on the wire a text, which takes fewer bytes than both types."""
Index = Annotated[int, Field(ge=0)]

_LANGUAGES = {"code": "python", "markdown": "markdown", "raw": "text"}


def check_not_open(workspace: Workspace, desktop: OpenNotebooks, path: str) -> None:
    """Raise PageError for a notebook that is or may be open: its file must not be written."""
    file = workspace.root / path
    if path.lower().endswith(".ipynb") and (desktop.is_own(file) or desktop.at(file)):
        raise PageError(
            f"{spell(path)} is open, so its file is left alone: insert_cell and edit_cell change "
            "it in its page"
        )


Document = OpenNotebook | NotebookFile


class NotebookTools:
    """The tools that read and change notebooks: open ones in their page, closed ones as files.

    A preview is remembered until its call runs, as for files.
    """

    def __init__(self, workspace: Workspace, desktop: OpenNotebooks) -> None:
        self._workspace, self._desktop = workspace, desktop
        self._previews = Previews()
        self._inserted: dict[str, set[str]] = {}
        self._shown: dict[str, CellRef] = {}
        """The cells that previews have shown: others may have been inserted above since."""

    def tools(self) -> Iterator[Tool]:
        """Yield all three tools."""
        workspace = self._workspace
        yield tool(
            where=Where.THREAD,
            refuse_controls=True,
            validate=lambda path: workspace.readable_path(path) if path else None,
            requires=self._check_exists,
            paths=lambda path, **_: self._call_paths(path),
            source=lambda path, **_: (
                spell(workspace.normalize_path(path)) if path else "this notebook"
            ),
            always_asks=lambda path, **_: workspace.read_approval_reason(path) if path else None,
        )(self.read_notebook)
        for function, preview, target in (
            (self.insert_cell, self._preview_insert, _insert_target),
            (self.edit_cell, self._preview_edit, _edit_target),
        ):
            yield tool(
                sensitive=True,
                refuse_controls=True,
                where=Where.THREAD,
                preview=preview,
                validate=lambda path, **_: workspace.writable_path(path) if path else None,
                paths=lambda path, **_: self._call_paths(path),
                target=target,
                always_asks=lambda path, **_: (
                    workspace.write_approval_reason(path) if path else None
                ),
            )(function)

    def read_notebook(self, path: str | None = None) -> str:
        """Read a notebook's cells with ids and outputs; without a path, the user's own."""
        document, note = self._find_readable(path)
        return render_notebook(document.name + note, document.cells(), self._desktop.cell_id)

    def insert_cell(
        self,
        source: str,
        kind: Kind = "code",
        index: Index | None = None,
        path: str | None = None,
    ) -> str | ToolResult:
        """Insert a cell into the user's notebook, below this cell or at index (0: first)."""
        call = digest_json(["insert", source, kind, index, path])
        document = self._find_document(path)
        if document is None:
            self._check_proposable(kind, index)
            self._previews.consume(call, "the next cell", b"")
            return self._propose(source)
        cells = document.cells()
        place = self._insert_position(document, cells, index)
        self._previews.consume(call, document.name, _fingerprint_at(cells, index))
        cell_id = document.insert(place, kind, source)
        self._inserted.setdefault(document.name, set()).add(cell_id)
        id_text = f" (id={cell_id})" if cell_id else ""
        output = f"inserted a {kind} cell as #{place} in {document.name}; it was not run{id_text}"
        title = f"{_name_place(cells, place)} of {document.name}"
        change = CellChange(path, title, place, cell_id, kind, None, source)
        return self._with_undo(output, document, change)

    def edit_cell(self, cell: CellRef, source: str, path: str | None = None) -> ToolResult:
        """Replace the source of a cell of the user's notebook, by id or number."""
        document = self._require_document(path)
        call = digest_json(["edit", cell, source, path])
        old = _find_editable(document.cells(), self._shown.get(call, cell))
        title = f"{old.title} of {document.name}"
        self._previews.consume(call, title, fingerprint(old))
        document.replace(old, source)
        change = CellChange(path, title, old.number, old.id, old.kind, old.source, source)
        return self._with_undo(f"changed {title}; it was not run", document, change)

    def describe_cell(self, name: str) -> str:
        """Describe a cell as the user names it: [10], nearest above the running one, or #3."""
        document, _ = self._find_readable(None)
        cells, number = document.cells(), name.strip("[]#")
        place = next(
            (each.number for each in cells if each.id == self._desktop.cell_id), len(cells)
        )
        found = [
            each
            for each in cells
            if number == str(each.number if name.startswith("#") else each.execution_count)
        ]
        if not found:
            raise InvalidArgumentsError(f"this notebook has no cell {name}")
        nearest = max(found, key=lambda each: (each.number < place, each.number))
        return f"The cell that the prompt is about:\n{render_cell(nearest, most=2_000)}"

    def check_cell(self, change: CellChange) -> None:
        """Raise AgentError if a change of a cell cannot be taken back."""
        change.check(self._find_document(change.path))

    def revert_cell(self, change: CellChange) -> CellChange:
        """Take a change back; return the change that this was. Raises AgentError."""
        return change.revert(self._find_document(change.path))

    def _preview_insert(
        self, source: str, kind: Kind, index: int | None = None, path: str | None = None
    ) -> Preview:
        encode_text(source)
        document, before, cell = self._find_document(path), b"", None
        if document is None:
            self._check_proposable(kind, index)
            place = "the next cell"
        else:
            cells = document.cells()
            position = self._insert_position(document, cells, index)
            place, before = _name_place(cells, position), _fingerprint_at(cells, index)
            if cells:
                beside = cells[max(position - 1, 0)]
                cell = _place_at(document, beside, "after" if position else "before", kind)
        self._previews.add(digest_json(["insert", source, kind, index, path]), before)
        language = _LANGUAGES[kind]
        return Preview(kind="code", language=language, text=source, place=place, cell=cell)

    def _preview_edit(self, cell: CellRef, source: str, path: str | None = None) -> Preview:
        document = self._require_document(path)
        old = _find_editable(document.cells(), cell)
        name = f"{document.name}, {old.title}"
        if old.source == source:
            raise InvalidArgumentsError(f"{name} holds exactly that; nothing to do")
        change = Change(name, _diff_bytes(old.source), _diff_bytes(source), "")
        call = digest_json(["edit", cell, source, path])
        self._shown[call] = old.id or cell
        self._previews.add(call, fingerprint(old))
        place = _place_at(document, old, "changed", old.kind)
        text = change.diff()
        return Preview(kind="diff", language="diff", text=text, place=old.title, cell=place)

    def _find_document(self, path: str | None) -> Document | None:
        """Return the notebook; None: the kernel's own, and no page shows it."""
        if path is None:
            return self._desktop.own()
        relative = self._workspace.relative_path(path)
        file = self._workspace.root / relative
        if opened := self._desktop.at(file):
            return opened
        if self._desktop.is_own(file):
            return self._desktop.own()
        return NotebookFile(self._workspace, relative)

    def _require_document(self, path: str | None) -> Document:
        document = self._find_document(path)
        if document is None:
            raise PageError(NO_PAGE)
        return document

    def _check_exists(self, path: str | None) -> None:
        """Raise AgentError if no notebook is at `path`."""
        document, _ = self._find_readable(path)
        if isinstance(document, NotebookFile):
            document.cells()

    def _find_readable(self, path: str | None) -> tuple[Document, str]:
        """Return a notebook to read, and a remark on it."""
        if (document := self._find_document(path)) is not None:
            return document, ", open" if isinstance(document, OpenNotebook) else ""
        saved = self._desktop.saved
        if saved is None:
            raise PageError(NO_PAGE)
        path = self._workspace.relative_path(str(saved))
        return NotebookFile(self._workspace, path), ", as it was saved last"

    def _call_paths(self, path: str | None) -> tuple[str, ...]:
        """Return the file that a call concerns, as far as it is known."""
        if path is not None:
            return (self._workspace.normalize_path(path),)
        with suppress(AgentError):
            saved = self._desktop.saved
            return (self._workspace.relative_path(str(saved)),) if saved else ()
        return ()

    def _insert_position(
        self, document: Document, cells: list[NotebookCell], index: int | None
    ) -> int:
        """Return the position of a new cell: by default below the asking cell's insertions."""
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

    def _with_undo(self, output: str, document: Document, change: CellChange) -> ToolResult:
        """Return the result with what takes the change back: of a closed notebook, its file."""
        if isinstance(document, NotebookFile):
            return ToolResult(output=output, files=document.changes)
        path = change.path and self._workspace.relative_path(change.path)
        is_own = path is None or self._desktop.is_own(self._workspace.root / path)
        return ToolResult(output=output, undo=change, cell=change.id if is_own else "")

    def _check_proposable(self, kind: str, index: int | None) -> None:
        """Raise if a cell cannot be proposed as the next input."""
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


def _place_at(
    document: Document, cell: NotebookCell, side: Literal["before", "changed", "after"], kind: str
) -> CellPlace | None:
    """Return the place of a change for the page that shows the notebook, if one does."""
    if not isinstance(document, OpenNotebook):
        return None
    return CellPlace(cell_id=cell.id, side=side, kind=kind, path=document.path)


def _edit_target(cell: CellRef, path: str | None, **_: object) -> str:
    return f"{path} {cell}"


def _insert_target(source: str, index: int | None, path: str | None, **_: object) -> str | None:
    """Return a name for a new cell below the others; at an index, it depends on the order."""
    return f"{path} + {source}" if index is None else None


def find_cell(cells: list[NotebookCell], cell: CellRef) -> NotebookCell:
    """Return the cell with that id or position; raises InvalidArgumentsError."""
    for each in cells:
        if each.id and each.id == cell:
            return each
    if isinstance(cell, str) and not re.fullmatch(r"-?[0-9]{1,9}", cell):
        unknown = InvalidArgumentsError("the notebook has no such cell")
        raise unknown.advise(f"(No cell has the id {cell!r}; read_notebook shows them.)")
    number = int(cell)
    if not 0 <= number < len(cells):
        raise InvalidArgumentsError(
            f"there is no cell {number}: the notebook has {len(cells)}, counted from 0"
        )
    return cells[number]


def _find_editable(cells: list[NotebookCell], cell: CellRef) -> NotebookCell:
    """Return the cell, unless the user has locked it."""
    target = find_cell(cells, cell)
    if target.locked:
        raise InvalidArgumentsError(
            f"{target.title} is locked: its metadata says that it is not editable"
        )
    return target


def _name_place(cells: list[NotebookCell], place: int) -> str:
    """Return the title of a cell that is to be inserted there."""
    counts = tuple([cell.counts[cell.number] for cell in cells[:place]])
    return NotebookCell(place, "", "", "", counts=(*counts, None)).title


def fingerprint(cell: NotebookCell) -> bytes:
    """Return a digest that changes when the cell changes."""
    return f"{cell.id}\n{cell.source}".encode("utf-8", "surrogatepass")


def _fingerprint_at(cells: list[NotebookCell], index: int | None) -> bytes:
    """Return the digest of the cell before which a cell is to be inserted."""
    return b"" if index is None or index == len(cells) else fingerprint(cells[index])


def _diff_bytes(source: str) -> bytes:
    """Return a source as a diff needs it: cells end without a line break."""
    return encode_text(f"{source}\n") if source else b""


_NESTED = re.compile(r"^\s*%%agent\b", re.MULTILINE)


class RunCellTool:
    """The tool. It asks the page from a pool: the answer needs the main thread, which is busy."""

    def __init__(self, namespace: TrackedNamespace, desktop: OpenNotebooks, post: Post) -> None:
        self._namespace, self._desktop, self._post = namespace, desktop, post
        self._previews = Previews()

    def as_tool(self) -> Tool:
        """Return run_cell."""
        traits = tool(
            sensitive=True,
            reaches_out=True,
            preview=self._preview_cell,
            effects=lambda preview: self._namespace.analyze(preview.text),
            where=Where.RELAY,
        )
        return traits(self.run_cell)

    async def run_cell(self, cell: CellRef) -> ToolResult:
        """Run a code cell of the user's notebook, by id or number."""
        notebook, target = await asyncio.to_thread(self._take_approved_cell, cell)
        outputs = CellOutputs(self._desktop.number)
        job = self._post(lambda: self._namespace.run(target.source, outputs))
        offer_output(lambda: output_so_far(outputs), outputs.recent_text, job)

        def write_outputs() -> None:
            notebook.put_outputs(target, outputs.cell(), self._desktop.number)

        try:
            result: ToolResult = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            # The code itself ends a little later, when the interrupt reaches it.
            job.add_done_callback(lambda ended: _write_in_background(ended, write_outputs))
            raise
        try:
            await asyncio.to_thread(write_outputs)
        except PageError as error:
            note = f"The outputs were not put into {target.title}: {error}."
            return result.with_note(note)
        return result

    def _preview_cell(self, cell: CellRef) -> Preview:
        _, target = self._find_runnable(cell)
        self._previews.add(digest_json([cell]), fingerprint(target))
        return Preview(kind="code", language="python", text=target.source, place=target.title)

    def _take_approved_cell(self, cell: CellRef) -> tuple[OpenNotebook, NotebookCell]:
        notebook, target = self._find_runnable(cell)
        self._previews.consume(digest_json([cell]), target.title, fingerprint(target))
        return notebook, target

    def _find_runnable(self, cell: CellRef) -> tuple[OpenNotebook, NotebookCell]:
        """Return the cell; raises AgentError if it must not be run."""
        notebook = self._desktop.own()
        if notebook is None:
            raise PageError(NO_PAGE)
        target = find_cell(notebook.cells(), cell)
        name = target.title
        if target.kind != "code":
            raise InvalidArgumentsError(f"{name} is a {target.kind} cell; it cannot be run")
        if target.id == self._desktop.cell_id:
            raise InvalidArgumentsError(f"{name} is the one that is running now")
        check_control_characters({name: target.source})
        if _NESTED.search(target.source):
            raise InvalidArgumentsError(f"{name} asks an agent; agents are not nested")
        return notebook, target


def _write_in_background(job: Future[object], put: Callable[[], None]) -> None:
    """Put the output of a stopped cell into it without keeping the user waiting for the page.

    Called on the main thread, which has to be free for the page's answer.
    """

    def try_to_put() -> None:
        with suppress(PageError):  # the card has it all
            put()

    if not job.cancelled():
        threading.Thread(target=try_to_put, name="ipyagent-outputs", daemon=True).start()
