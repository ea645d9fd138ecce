"""The pages that show this kernel's notebooks: JupyterLab with ipyagent's extension.

    kernel → page   updates the display "ipyagent:loaded", which nobody shows, when it is loaded;
                    from then on it knows a comm "ipyagent.out" that was never opened
    page → kernel   opens "ipyagent" with {page, client, notebooks, subshell}, and alone speaks
                    on it
    kernel → page   opens "ipyagent.out" with {page}, and alone speaks on it

    kernel → page   {op: "request", number, what, …} page → kernel   {kind: "reply", id, value}
                                                                     {kind: "reply", id, error}
                                                                     {kind: "shows", notebooks,
                                                                                     clients}
    kernel → page   {op: "ping"}                     page → kernel   {kind: "here"}
                    {op: "again"}: connect anew      page closes its end: it goes away
                    {op: "bye"}: ipyagent is gone
                    {op: "left", subshells}: of pages that went; only a page can end them

All other messages are those of whoever was given as `heard`, who also gets {kind: "hello"} for a
page that comes and {kind: "bye"} for one that goes. Each direction has a comm of its own: ipykernel
7.4 routes what a page says to the shell that spoke last on that comm, and this may be the main one,
blocked by a cell.

A page may go without goodbye. So whenever one comes the others are pinged, and those that did not
answer the ping before that are let go of: what is left over does not add up.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from comm import create_comm, get_comm_manager

from ipyagent.errors import PageError
from ipyagent.json_types import JsonMapping
from ipyagent.kernel.protocols import Comm, Kernel
from ipyagent.kernel.quiet_comms import handle_quietly

TARGET = "ipyagent"

OUT = f"{TARGET}.out"

LOADED = f"{TARGET}:loaded"

REQUEST_SECONDS = 5.0
"""For a page to answer; one that is gone cannot say so."""

NO_ANSWER = "the page with the notebook does not answer; is it open?"

Message = JsonMapping


@dataclass(eq=False)
class Page:
    """One page in a browser, as far as it is about this kernel."""

    id: str
    clients: tuple[str, ...]
    """What its requests to run cells call themselves: `session` in their headers."""
    notebooks: tuple[str, ...]
    """The notebooks of this kernel that it shows, as paths of the server."""
    subshell: str | None = None
    """Where the kernel listens to it."""
    silent: bool = field(default=False, init=False)
    """It left a request unanswered, and has said nothing since."""
    pinged: bool = field(default=False, init=False)
    """It was asked whether it is still there, and has said nothing since."""
    _out: Comm = field(kw_only=True, repr=False)
    _in: Comm = field(kw_only=True, repr=False)
    _numbers: Any = field(default_factory=lambda: itertools.count(1), repr=False)
    _waiting: dict[int, Future[Any]] = field(default_factory=dict, repr=False)

    def send(self, message: Message) -> None:
        """Tell it something."""
        self._out.send(dict(message))

    def request(self, what: str, **details: object) -> Any:
        """Ask for something and wait for the answer; raises PageError.

        Not for the main thread: answers may come there. A page that once did not answer is not
        waited for again until it speaks.
        """
        if self.silent:
            raise PageError(NO_ANSWER)
        number = next(self._numbers)
        answer = self._waiting[number] = Future()
        try:
            self.send({**details, "op": "request", "number": number, "what": what})
            return answer.result(REQUEST_SECONDS)
        except TimeoutError:
            self.silent = True
            raise PageError(NO_ANSWER) from None
        finally:
            del self._waiting[number]

    def replied(self, message: Message) -> None:
        """Pass an answer on to whoever waits for it."""
        answer = self._waiting.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if (error := message.get("error")) is not None:
            answer.set_exception(PageError(str(error)))
        else:
            answer.set_result(message.get("value"))


class Pages:
    """All that are connected, the newest last. `heard` gets what they say, on any thread."""

    def __init__(self, heard: Callable[[Page, Message], None]) -> None:
        self._heard = heard
        self._lock = threading.Lock()
        self._pages: dict[str, Page] = {}
        self._left: list[str] = []
        self._known: Comm | None = None

    def open(self, kernel: Kernel) -> None:
        """Take connections, and tell pages that are there already."""
        _opened.append(self)
        get_comm_manager().register_target(TARGET, self._connect)
        self._known = create_comm(target_name=OUT, primary=False)
        get_comm_manager().register_comm(self._known)
        _announce(kernel)

    def close(self) -> None:
        """Let go of all pages."""
        _opened.remove(self)
        get_comm_manager().unregister_target(TARGET, self._connect)
        get_comm_manager().unregister_comm(self._known)
        for page in self.all():
            page.send({"op": "bye"})
            self._drop(page)

    def all(self) -> list[Page]:
        """Those that are connected, oldest first."""
        with self._lock:
            return list(self._pages.values())

    def answering(self) -> list[Page]:
        """Those that did not leave a request unanswered."""
        return [page for page in self.all() if not page.silent]

    def _connect(self, comm: Comm, opened: JsonMapping) -> None:
        match data := opened["content"]["data"]:
            case {"page": str(name), "client": str(client), "notebooks": list(notebooks)}:
                out = create_comm(target_name=OUT, data={"page": name})
                shown, subshell = tuple(map(str, notebooks)), data.get("subshell")
                page = Page(name, (client,), shown, subshell, _out=out, _in=comm)
            case _:
                comm.close()
                return
        handle_quietly(comm)
        self._look_after(self.all(), name)
        with self._lock:
            self._pages[name] = page
        comm.on_msg(lambda message: self._said(page, message["content"]["data"]))
        comm.on_close(lambda _: self._drop(page))
        self._clear_up(page)
        self._heard(page, {"kind": "hello"})

    def _look_after(self, others: list[Page], name: str) -> None:
        """A page of that name comes: which of the others are still there?"""
        for page in others:
            if page.id == name:
                self._drop(page)
            elif page.pinged:
                page.send({"op": "again"})
                self._drop(page)
            else:
                page.pinged = True
                page.send({"op": "ping"})

    def _said(self, page: Page, message: Message) -> None:
        page.silent = page.pinged = False
        match message:
            case {"kind": "reply"}:
                page.replied(message)
            case {"kind": "here"}:
                pass
            case {"kind": "shows", "notebooks": list(notebooks)}:
                page.notebooks = tuple(map(str, notebooks))
                page.clients = tuple(map(str, message.get("clients", page.clients)))
            case {"kind": str()}:
                self._heard(page, message)

    def _drop(self, page: Page) -> None:
        with self._lock:
            if self._pages.get(page.id) is page:
                del self._pages[page.id]
        _end(page._out)
        _end(page._in)
        self._heard(page, {"kind": "bye"})
        if page.subshell is not None:
            self._left.append(page.subshell)
            page.subshell = None

    def _clear_up(self, page: Page) -> None:
        """Have a page that is there for sure end the subshells of those that went."""
        left, self._left = self._left, []
        if left:
            page.send({"op": "left", "subshells": left})


_opened: list[Pages] = []


def connected() -> list[Page]:
    """All pages of this process, the newest last."""
    return [page for pages in _opened for page in pages.all()]


def _announce(kernel: Kernel) -> None:
    """To front ends without the extension this is nothing; a comm would be an error there."""
    content = {"data": {}, "metadata": {}, "transient": {"display_id": LOADED}}
    parent = kernel.get_parent()
    kernel.session.send(kernel.iopub_socket, "update_display_data", content, parent=parent)


def _end(comm: Comm) -> None:
    """As if the page had closed it.

    A comm_close would be an error in the pages that were not there when the comm was opened.
    """
    if comm.comm_id in get_comm_manager().comms:
        comm.on_close(None)
        closed = {"content": {"comm_id": comm.comm_id, "data": {}}}
        get_comm_manager().comm_close(None, None, closed)
