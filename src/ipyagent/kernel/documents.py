"""Notebooks that are open in a page: they are read and changed there, never as files.

    cells                             {path, cells: [{id, kind, source, locked, execution_count,
                                       outputs}]}: of outputs the text, and the names of all else
    insert   {index, kind, source}    {id, index}
    replace  {id, before, source}     {}, or an error if the cell does not hold `before`
    outputs  {id, before, outputs, execution_count}    the same
    open                              {paths}: all notebooks that the page has open

Each request names the server's path of a notebook, or the client that asked for the running cell:
then it is about that one's notebook, of those that this kernel has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

from ipyagent.errors import PageError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.frontend import detect
from ipyagent.kernel.next_input import NextInput
from ipyagent.kernel.pages import connected
from ipyagent.kernel.protocols import Shell

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
    """As nbformat has them."""
    locked: bool = False
    """The person does not want it to be changed."""


class Asked(Protocol):
    """A page, as far as it is asked for something here."""

    @property
    def clients(self) -> Sequence[str]:
        """What its requests to run cells call themselves."""
        ...

    @property
    def notebooks(self) -> Sequence[str]:
        """The notebooks of this kernel that it shows."""
        ...

    def request(self, what: str, **details: object) -> Any:
        """Ask and wait for the answer, not on the main thread; raises PageError."""
        ...


@dataclass(frozen=True)
class OpenNotebook:
    """A notebook that a page has open; `path` is the server's, None: the kernel's own."""

    page: Asked
    path: str | None = None
    client: str | None = None
    """The one that asked for the running cell: several notebooks can have one kernel."""
    name: str = "this notebook"

    def cells(self) -> list[NotebookCell]:
        """Its cells as they are now; raises PageError, as all of these do."""
        told = self._ask("cells")
        try:
            return [_cell(number, each) for number, each in enumerate(told["cells"])]
        except (KeyError, TypeError):
            raise PageError("the page told something that is no notebook") from None

    def insert(self, index: int, kind: str, source: str) -> str:
        """Insert a cell; its id."""
        return str(self._ask("insert", index=index, kind=kind, source=source)["id"])

    def replace(self, cell: NotebookCell, source: str) -> None:
        """Give a cell another source, if it still is what it was."""
        self._ask("replace", id=cell.id, before=cell.source, source=source)

    def put_outputs(self, cell: NotebookCell, outputs: list[JsonDict], number: int | None) -> None:
        """Give a cell outputs and a number, if its source still is what it was."""
        whole = {"outputs": outputs, "execution_count": number}
        self._ask("outputs", id=cell.id, before=cell.source, **whole)

    def _ask(self, what: str, **details: object) -> Any:
        about = {"client": self.client} if self.path is None else {"path": self.path}
        return self.page.request(what, **about, **details)


@dataclass(frozen=True)
class Desktop:
    """The notebooks around a run: the kernel's own, and others that pages have open."""

    pages: Callable[[], list[Asked]] = list
    folder: Path = Path()
    """Where the kernel's own notebook is."""
    saved: Path | None = None
    """Its file, where that is known; it may have been renamed since."""
    client: str | None = None
    """The page that asked for the running cell."""
    cell_id: str | None = None
    """The running cell."""
    number: int | None = None
    next_input: NextInput | None = None

    def own(self) -> OpenNotebook | None:
        """The kernel's own notebook, in a page that answers; None: no page is connected."""
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
        """That notebook where a page has it open; raises PageError if this cannot be known."""
        for page in self._pages():
            told = page.request("open")
            root = self._root(page.notebooks)
            for path in told["paths"]:
                if root is None and _name(path) == file.name:
                    raise PageError(
                        f"{file.name} may be the notebook {path} that is open in a page, and must "
                        "not be changed behind it; load ipyagent in the notebook's own folder"
                    )
                if root is not None and _is_same(root / _plain(path), file):
                    return OpenNotebook(page, path, name=file.name)
        return None

    def is_own(self, file: Path) -> bool:
        """Whether that is the kernel's own notebook."""
        return self.saved is not None and _is_same(self.saved, file)

    def _pages(self) -> list[Asked]:
        """The page that asked for the running cell, then the newest first."""
        return sorted(self.pages(), key=lambda page: self.client in page.clients)[::-1]

    def _root(self, notebooks: Iterable[str]) -> Path | None:
        """The server's folder: its name for a notebook of this kernel ends as our folder does."""
        for path in map(_plain, notebooks):
            below = PurePosixPath(path).parent.parts
            above = len(self.folder.parts) - len(below)
            root = Path(*self.folder.parts[:above])
            # A notebook that was moved since is not there.
            if self.folder.parts[above:] == below and (root / path).is_file():
                return root
        return None


def around(shell: Shell | None, home: Path) -> Desktop:
    """The notebooks around the cell that is running now; on the main thread.

    `home` is the folder of the kernel's notebook, where the server does not tell it.
    """
    if shell is None:
        return Desktop()
    frontend, saved = detect(shell), _saved(shell)
    return Desktop(
        pages=lambda: list(connected()),
        folder=saved.parent if saved else home,
        saved=saved,
        client=frontend.client,
        cell_id=frontend.cell_id,
        number=shell.displayhook.prompt_count,
        next_input=NextInput(shell),
    )


def _saved(shell: Shell) -> Path | None:
    """The notebook's file as Jupyter's server tells it, or VS Code."""
    named = os.environ.get("JPY_SESSION_NAME") or shell.user_ns.get("__vsc_ipynb_file__")
    path = Path(named) if isinstance(named, str) else Path()
    return path if path.is_absolute() else None


def _cell(number: int, told: JsonDict) -> NotebookCell:
    return NotebookCell(
        number,
        str(told["id"]),
        str(told["kind"]),
        str(told["source"]),
        told.get("execution_count"),
        tuple(told.get("outputs") or ()),
        bool(told.get("locked")),
    )


def _plain(path: str) -> str:
    """A server's path without the drive that notebooks edited together are on."""
    return path.removeprefix("RTC:")


def _name(path: str) -> str:
    return PurePosixPath(_plain(path)).name


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
