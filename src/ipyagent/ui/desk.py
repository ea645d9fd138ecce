"""What the pages of a kernel are told of it beside the cells' outputs, and what they may do.

kernel → page   {op: "overview", overview}            see overview.py; after every change
                {op: "run", run_id, message}          of a run that the page follows: feed.py
                {op: "reply", id, value}
page → kernel   {kind: "follow", run_id}              draw this run too, from now on
                {kind: "to_run", run_id, message}     feed.py: decisions, stop, resync
                {kind: "ask", id, what: "bundle", run_id | cell_id}
                                                      the run as it is saved in an output; one
                                                      that is on, as far as it has come
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import Message, Page, Pages
from ipyagent.ui import mirror
from ipyagent.ui.feed import Feed

INTERVAL = 0.15
"""Seconds in which changes are told once."""

DRAWN = 50
"""Runs that stay known when they are over, whichever session they were of."""


class Desk:
    """Between the pages of a kernel and its runs.

    `overview` describes the notebook's runs and sessions; `bundle` finds a run by its id or by its
    cell's, as it is saved in an output.
    """

    def __init__(
        self,
        pages: Pages,
        overview: Callable[[list[Feed]], JsonDict],
        bundle: Callable[[str | None, str | None], JsonDict | None],
    ) -> None:
        self.pages = pages
        self._overview, self._bundle = overview, bundle
        self._feeds: list[Feed] = []
        self.drawn: list[Feed] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, feed: Feed) -> None:
        """A run is drawn from now on."""
        self._feeds.append(feed)
        self.drawn = [*self.drawn, feed][-DRAWN:]
        feed.changed = self._soon

    def end(self, feed: Feed) -> None:
        """It has ended, or is no longer drawn."""
        if feed in self._feeds:
            self._feeds.remove(feed)
            self.tell()

    def tell(self) -> None:
        """Tell all pages how things are now."""
        pages = self.pages.all()
        if pages:
            overview = self._overview(list(self._feeds))
            for page in pages:
                page.send({"op": "overview", "overview": overview})

    def heard(self, page: Page, message: Message) -> None:
        """What a page says; it may come on any thread."""
        match message:
            case {"kind": "hello"}:
                page.send({"op": "overview", "overview": self._overview(list(self._feeds))})
            case {"kind": "follow", "run_id": str(run_id)} if feed := self._feed(run_id):
                feed.follow(_To(page, run_id))
            case {"kind": "to_run", "run_id": str(run_id), "message": dict(said)}:
                if feed := self._feed(run_id):
                    feed.heard(said, _To(page, run_id))
            case {"kind": "ask", "id": number, "what": "bundle"}:
                value = self._saved(message.get("run_id"), message.get("cell_id"))
                page.send({"op": "reply", "id": number, "value": value})
            case {"kind": "bye"}:
                self._forget(page)

    def _saved(self, run_id: str | None, cell_id: str | None) -> JsonDict | None:
        feed = self._feed(run_id) if run_id else None
        return mirror.bundle(feed.run) if feed else self._bundle(run_id, cell_id)

    def _forget(self, page: Page) -> None:
        for feed in list(self._feeds):
            for send in list(feed.followers):
                if isinstance(send, _To) and send.page is page:
                    feed.leave(send)

    def _feed(self, run_id: str) -> Feed | None:
        return next((each for each in self._feeds if each.is_about(run_id)), None)

    def _soon(self) -> None:
        """From the engine's loop: changes come in bursts."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._told)

    def _told(self) -> None:
        self._timer = None
        self.tell()


@dataclass(frozen=True)
class _To:
    """Sends what a run has to say to a page; equal to any other that does the same."""

    page: Page
    run_id: str

    def __call__(self, message: JsonDict) -> None:
        self.page.send({"op": "run", "run_id": self.run_id, "message": message})
