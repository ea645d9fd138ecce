"""The pages that show this kernel's notebooks, in JupyterLab with the extension; notebooks there.

    kernel → page   updates the display "ipyagent:loaded", which nobody shows, when it is loaded;
                    from then on it knows a comm "ipyagent.out" that was never opened
    page → kernel   opens "ipyagent" with {page, client, notebooks, subshell}, and alone speaks
                    on it
    kernel → page   speaks on a comm that is never opened: it has the page's id and ".out"

The messages are listed in `ui/messages.py`; this module handles

    kernel → page   {type: "request", id, …}        page → kernel   {type: "reply", id, …}
                    {type: "ping"}                                  {type: "here"}
                    {type: "again"}: connect anew                   {type: "shows", …}
                    {type: "bye"}: ipyagent is gone                 closes its end: it goes away
                    {type: "left", …}: subshells

All other messages are passed to the handler, which also gets {type: "hello"} for a page that
connects and {type: "bye"} for one that leaves. Each direction has a comm of its own: ipykernel 7.4
routes a page's messages to the shell that spoke last on that comm, and this may be the main one,
blocked by a cell. The kernel's is not opened, as JupyterLab would start a subshell for it.

A page can disappear without closing its comm. So whenever one connects the others are pinged, and
those that did not answer the previous ping are dropped: leftovers do not add up.

Notebooks that are open in a page are read and changed there, never as files, by these requests:

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

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from comm import create_comm, get_comm_manager

from ipyagent.errors import PageError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.kernel.shell import Comm, CommCallback, Kernel, Shell, detect, kernel_of


def handle_quietly(comm: Comm) -> None:
    """Have messages handled without `pre_execute` and `post_execute`.

    The package `comm` triggers both around each message. On the second one matplotlib shows and
    closes all figures, also those that the running cell has begun to draw; the picture belongs to
    the message and is drawn nowhere.
    """
    if not hasattr(comm, "_msg_callback"):
        return

    def handle(message: JsonDict) -> None:
        callback: CommCallback | None = getattr(comm, "_msg_callback", None)
        if callback is not None:
            callback(message)

    comm.handle_msg = handle  # type: ignore[method-assign]


TARGET = "ipyagent"

OUT = f"{TARGET}.out"

LOADED = f"{TARGET}:loaded"

CONNECT_SECONDS = 3.0
"""After the announcement, a page that is there already may take so long to connect."""

REQUEST_SECONDS = 5.0
"""Seconds that a page has to answer; one that is gone cannot say so."""

NO_ANSWER = "the page with the notebook does not answer; is it open?"

Message = JsonMapping


@dataclass(eq=False)
class Page:
    """A page in a browser, as far as this kernel is concerned."""

    id: str
    clients: tuple[str, ...]
    """The client names in its requests to run cells: `session` in their headers."""
    notebooks: tuple[str, ...]
    """The notebooks of this kernel that it shows, as paths of the server."""
    subshell: str | None = None
    """The subshell in which the kernel listens to it."""
    silent: bool = field(default=False, init=False)
    """It left a request unanswered, and has sent nothing since."""
    pinged: bool = field(default=False, init=False)
    """It was pinged, and has sent nothing since."""
    _out: Comm = field(kw_only=True, repr=False)
    _in: Comm = field(kw_only=True, repr=False)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)
    _waiting: dict[int, Future[Any]] = field(default_factory=dict, repr=False)

    def send(self, message: Message) -> None:
        """Send it a message."""
        self._out.send(dict(message))

    def request(
        self, what: str, *, path: str | None = None, client: str | None = None, **details: object
    ) -> Any:
        """Ask for something in the notebook at `path`, or in that of `client`; raises PageError.

        Not for the main thread: answers may come there. A page that did not answer once is not
        waited for again until it sends something.
        """
        if self.silent:
            raise PageError(NO_ANSWER)
        number = next(self._numbers)
        answer = self._waiting[number] = Future()
        try:
            about = {"what": what, "path": path, "client": client, "details": details}
            self.send({"type": "request", "id": number, **about})
            return answer.result(REQUEST_SECONDS)
        except TimeoutError:
            self.silent = True
            raise PageError(NO_ANSWER) from None
        finally:
            del self._waiting[number]

    def receive_reply(self, message: Message) -> None:
        """Pass an answer on to its request."""
        answer = self._waiting.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if (error := message.get("error")) is not None:
            answer.set_exception(PageError(str(error)))
        else:
            answer.set_result(message.get("value"))


class Pages:
    """All connected pages, the newest last. The handler gets their messages, on any thread.

    A loaded extension keeps them in `shell.meta`, by their class.
    """

    def __init__(self, on_message: Callable[[Page, Message], None]) -> None:
        self._handler = on_message
        self._lock = threading.Lock()
        self._pages: dict[str, Page] = {}
        self._left_subshells: list[str] = []
        self._known: Comm | None = None
        self._has_connected, self._awaited_until = threading.Event(), 0.0

    def open(self, kernel: Kernel) -> None:
        """Accept connections, and announce ipyagent to pages that are there already."""
        if "JPY_SESSION_NAME" in os.environ:  # as Jupyter's server sets it, which serves pages
            self._awaited_until = time.monotonic() + CONNECT_SECONDS
        get_comm_manager().register_target(TARGET, self._connect)
        self._known = _make_known()
        # Front ends without the extension ignore it; a comm would be an error.
        content = {"data": {}, "metadata": {}, "transient": {"display_id": LOADED}}
        parent = kernel.get_parent()
        kernel.session.send(kernel.iopub_socket, "update_display_data", content, parent=parent)

    def close(self) -> None:
        """Disconnect all pages."""
        get_comm_manager().unregister_target(TARGET, self._connect)
        get_comm_manager().unregister_comm(self._known)
        for page in self.all():
            page.send({"type": "bye"})
            self._drop(page)

    def all(self) -> list[Page]:
        """Return the connected pages, oldest first."""
        with self._lock:
            return list(self._pages.values())

    def wait_for_first(self) -> list[Page]:
        """Return the connected pages; the first may still connect soon after the announcement."""
        self._has_connected.wait(max(0.0, self._awaited_until - time.monotonic()))
        return self.all()

    def answering(self) -> list[Page]:
        """Return the pages that left no request unanswered."""
        return [page for page in self.all() if not page.silent]

    def _connect(self, comm: Comm, opened: JsonMapping) -> None:
        match data := opened["content"]["data"]:
            case {"page": str(name), "client": str(client), "notebooks": list(notebooks)}:
                out = _make_known(comm_id=f"{comm.comm_id}.out")
                paths, subshell = tuple(map(str, notebooks)), data.get("subshell")
                page = Page(name, (client,), paths, subshell, _out=out, _in=comm)
            case _:
                comm.close()
                return
        handle_quietly(comm)
        self._look_after(self.all(), name)
        with self._lock:
            self._pages[name] = page
        self._has_connected.set()
        comm.on_msg(lambda message: self._on_message(page, message["content"]["data"]))
        comm.on_close(lambda _: self._drop(page))
        subshells, self._left_subshells = self._left_subshells, []
        if subshells:  # a live page ends those of pages that left
            page.send({"type": "left", "subshells": subshells})
        self._handler(page, {"type": "hello"})

    def _look_after(self, others: list[Page], name: str) -> None:
        """Ping the other pages when one connects, and drop those that did not answer before."""
        for page in others:
            if page.id == name:
                self._drop(page)
            elif page.pinged:
                page.send({"type": "again"})
                self._drop(page)
            else:
                page.pinged = True
                page.send({"type": "ping"})

    def _on_message(self, page: Page, message: Message) -> None:
        page.silent = page.pinged = False
        match message:
            case {"type": "reply"}:
                page.receive_reply(message)
            case {"type": "here"}:
                pass
            case {"type": "shows", "notebooks": list(notebooks)}:
                page.notebooks = tuple(map(str, notebooks))
                page.clients = tuple(map(str, message.get("clients", page.clients)))
            case {"type": str()}:
                self._handler(page, message)

    def _drop(self, page: Page) -> None:
        with self._lock:
            if self._pages.get(page.id) is page:
                del self._pages[page.id]
        _end(page._out)
        _end(page._in)
        self._handler(page, {"type": "bye"})
        if page.subshell is not None:
            self._left_subshells.append(page.subshell)
            page.subshell = None


def _make_known(**fields: str) -> Comm:
    """Return a comm that is not opened in pages."""
    comm: Comm = create_comm(target_name=OUT, primary=False, **fields)
    get_comm_manager().register_comm(comm)
    return comm


def _end(comm: Comm) -> None:
    """Close a comm as if the page had closed it.

    A comm_close would be an error in pages that were not there when the comm was opened.
    """
    if comm.comm_id in get_comm_manager().comms:
        comm.on_close(None)
        closed = {"content": {"comm_id": comm.comm_id, "data": {}}}
        get_comm_manager().comm_close(None, None, closed)


Kind = Literal["code", "markdown", "raw"]


@dataclass(frozen=True)
class NotebookCell:
    """A cell of a notebook: its position from 0 and its id, "" in formats that have none.

    `counts` are the execution counts of all cells.
    """

    number: int
    id: str
    kind: str
    source: str
    execution_count: int | None = None
    outputs: tuple[JsonDict, ...] = ()
    """The outputs in nbformat."""
    locked: bool = False
    """True if the user locked it against changes."""
    counts: tuple[int | None, ...] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        """The cell as users see it: by its count, or by its place below one that has a count."""
        upward = reversed(self.counts[: self.number + 1])
        below, count = next((each for each in enumerate(upward) if each[1]), (0, None))
        if not count:
            return f"cell {self.number + 1} from the top"
        place = {0: "cell", 1: "the cell below"}.get(below, f"cell {below} below")
        return f"{place} [{count}]"


@dataclass(frozen=True)
class OpenNotebook:
    """A notebook that a page has open; `path` is the server's, None: the kernel's own."""

    page: Page
    path: str | None = None
    client: str | None = None
    """The client that asked for the running cell: several notebooks can share a kernel."""
    name: str = "this notebook"
    running: tuple[str | None, int | None] = None, None
    """The running cell's id, and the count that it will have."""

    def cells(self) -> list[NotebookCell]:
        """Return its current cells; raises PageError, as all of these do."""
        reply = self._ask("cells")
        asking, count = self.running
        try:
            data = reply["cells"]
            counts = tuple(count if c["id"] == asking else c.get("execution_count") for c in data)
            return [_as_cell(number, each, counts) for number, each in enumerate(data)]
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
            running = self.cell_id, self.number
            return OpenNotebook(page, client=self.client, running=running)
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
        pages=lambda: shell.meta[Pages].wait_for_first() if Pages in shell.meta else [],
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


def _as_cell(number: int, data: JsonDict, counts: tuple[int | None, ...]) -> NotebookCell:
    return NotebookCell(
        number,
        str(data["id"]),
        str(data["kind"]),
        str(data["source"]),
        data.get("execution_count"),
        tuple(data.get("outputs") or ()),
        bool(data.get("locked")),
        counts,
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
