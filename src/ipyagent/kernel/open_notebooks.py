"""Notebooks that are open in a page: they are read and changed there, never as files.

    cells                             {path, cells: [{id, kind, source, locked, execution_count,
                                       outputs}]}: of outputs the text, and the names of all else
    insert   {index, kind, source}    {id, index}
    replace  {id, before, source}     {}, or an error if the cell does not hold `before`
    remove   {id, before}             the same
    outputs  {id, before, outputs, execution_count}    the same
    open                              {paths}: all notebooks that the page has open

Each request names the server's path of a notebook, or the client that asked for the running cell,
which stands for that client's notebook of this kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from ipyagent.errors import PageError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import Page, Pages
from ipyagent.kernel.shell import Shell, detect, kernel_of

Kind = Literal["code", "markdown", "raw"]


@dataclass(frozen=True)
class NotebookCell:
    """A cell of a notebook: its position from 0 and its id, "" in formats that have none."""

    number: int
    id: str
    kind: str
    source: str
    execution_count: int | None = None
    outputs: tuple[JsonDict, ...] = ()
    """The outputs in nbformat."""
    locked: bool = False
    """True if the user locked it against changes."""


@dataclass(frozen=True)
class OpenNotebook:
    """A notebook that a page has open; `path` is the server's, None: the kernel's own."""

    page: Page
    path: str | None = None
    client: str | None = None
    """The client that asked for the running cell: several notebooks can share a kernel."""
    name: str = "this notebook"

    def cells(self) -> list[NotebookCell]:
        """Return its current cells; raises PageError, as all of these do."""
        reply = self._ask("cells")
        try:
            return [_cell(number, each) for number, each in enumerate(reply["cells"])]
        except (KeyError, TypeError):
            raise PageError("the page sent an invalid notebook") from None

    def insert(self, index: int, kind: str, source: str) -> str:
        """Insert a cell; return its id."""
        return str(self._ask("insert", index=index, kind=kind, source=source)["id"])

    def replace(self, cell: NotebookCell, source: str) -> None:
        """Replace the source of a cell, if it has not changed since it was read."""
        self._ask("replace", id=cell.id, before=cell.source, source=source)

    def remove(self, cell: NotebookCell) -> None:
        """Remove a cell, if it has not changed since it was read."""
        self._ask("remove", id=cell.id, before=cell.source)

    def put_outputs(self, cell: NotebookCell, outputs: list[JsonDict], number: int | None) -> None:
        """Set the outputs and number of a cell, if its source has not changed."""
        whole = {"outputs": outputs, "execution_count": number}
        self._ask("outputs", id=cell.id, before=cell.source, **whole)

    def _ask(self, what: str, **details: object) -> Any:
        client = self.client if self.path is None else None
        return self.page.request(what, path=self.path, client=client, **details)


@dataclass(frozen=True)
class OpenNotebooks:
    """The notebooks around a run: the kernel's own, and others that pages have open."""

    pages: Callable[[], list[Page]] = list
    folder: Path = Path()
    """The folder of the kernel's own notebook."""
    saved: Path | None = None
    """Its file, if known; it may have been renamed since."""
    client: str | None = None
    """The page that asked for the running cell."""
    cell_id: str | None = None
    """The running cell."""
    number: int | None = None
    next_input: NextInput | None = None

    def own(self) -> OpenNotebook | None:
        """Return the kernel's own notebook in a page that answers; None if no page is connected."""
        failed = None
        for page in self._pages():
            if not page.notebooks:
                continue
            try:
                page.request("open")
            except PageError as error:  # a page that is gone cannot say so
                failed = error
                continue
            return OpenNotebook(page, client=self.client)
        if failed is not None:
            raise failed
        return None

    def at(self, file: Path) -> OpenNotebook | None:
        """Return that notebook if a page has it open; raises PageError if this cannot be known."""
        for page in self._pages():
            reply = page.request("open")
            root = self._root(page.notebooks)
            for path in reply["paths"]:
                if root is None and _name(path) == file.name:
                    raise PageError(
                        f"{file.name} may be the notebook {path} that is open in a page, and must "
                        "not be changed behind it; load ipyagent in the notebook's own folder"
                    )
                if root is not None and _is_same(root / _plain(path), file):
                    return OpenNotebook(page, path, name=file.name)
        return None

    def is_own(self, file: Path) -> bool:
        """Return whether that is the kernel's own notebook."""
        return self.saved is not None and _is_same(self.saved, file)

    def _pages(self) -> list[Page]:
        """Return the page that asked for the running cell, then the others, newest first."""
        return sorted(self.pages(), key=lambda page: self.client in page.clients)[::-1]

    def _root(self, notebooks: Iterable[str]) -> Path | None:
        """Return the server's folder: a notebook's path on the server ends like our folder."""
        for path in map(_plain, notebooks):
            below = PurePosixPath(path).parent.parts
            above = len(self.folder.parts) - len(below)
            root = Path(*self.folder.parts[:above])
            # A notebook that was moved since is not there.
            if self.folder.parts[above:] == below and (root / path).is_file():
                return root
        return None


def current(shell: Shell | None, home: Path) -> OpenNotebooks:
    """Return the notebooks around the running cell; on the main thread.

    `home` is the folder of the kernel's notebook if the server does not name it.
    """
    if shell is None:
        return OpenNotebooks()
    frontend, saved = detect(shell), _saved_path(shell)
    return OpenNotebooks(
        pages=lambda: shell.meta[Pages].all() if Pages in shell.meta else [],
        folder=saved.parent if saved else home,
        saved=saved,
        client=frontend.client,
        cell_id=frontend.cell_id,
        number=shell.displayhook.prompt_count,
        next_input=NextInput(shell),
    )


def _saved_path(shell: Shell) -> Path | None:
    """Return the notebook's file as Jupyter's server or VS Code names it."""
    file = os.environ.get("JPY_SESSION_NAME") or shell.user_ns.get("__vsc_ipynb_file__")
    path = Path(file) if isinstance(file, str) else Path()
    return path if path.is_absolute() else None


def _cell(number: int, data: JsonDict) -> NotebookCell:
    return NotebookCell(
        number,
        str(data["id"]),
        str(data["kind"]),
        str(data["source"]),
        data.get("execution_count"),
        tuple(data.get("outputs") or ()),
        bool(data.get("locked")),
    )


def _plain(path: str) -> str:
    """Return a server's path without the drive of notebooks that are edited together."""
    return path.removeprefix("RTC:")


def _name(path: str) -> str:
    return PurePosixPath(_plain(path)).name


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


class NextInput:
    """The next cell of a notebook, or the text of the next prompt in a terminal."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._sources: list[str] = []

    @property
    def where(self) -> str:
        """The place where the user finds it."""
        is_kernel = kernel_of(self._shell) is not None
        return "in a new cell below this one" if is_kernel else "at the next prompt"

    def add(self, source: str) -> None:
        """Propose a cell together with those proposed before: only one can come next."""
        self._sources.append(source.strip("\n"))
        self._shell.set_next_input("\n\n".join(self._sources), replace=False)
