"""Messages between a kernel and its pages beside the cells' outputs.

kernel → page   {type: "overview", overview}            see overview.py; after every change
                {type: "run", run_id, message}          of a run that the page follows: feed.py
                {type: "reply", id, value}
page → kernel   {type: "follow", run_id}              draw this run too, from now on
                {type: "to_run", run_id, message}     feed.py: decisions, stop, resync
                {type: "ask", id, what: "bundle", run_id | cell_id}
                                                      the run as it is saved in an output; one
                                                      that is on, as far as it has come
                {type: "ask", id, what: "undo", run_id, dry_run}
                                                      take it back, or say what that would do:
                                                      {restored, skipped}
                {type: "ask", id, what: "models", model}
                                                      use this model from now on, if one is named:
                                                      {current, models: {name: why}, problem}
                {type: "ask", id, what: "requests"}     to begin with: {requests}; none without data
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from ipyagent.agent.approvals import Approvals
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import Message, Page, Pages
from ipyagent.schema import Run
from ipyagent.ui import static_html
from ipyagent.ui.feed import Feed

log = logging.getLogger("ipyagent")

INTERVAL = 0.15
"""Seconds within which changes are sent once."""

DRAWN = 50
"""Finished runs that stay known, of whichever session."""


class PageBridge:
    """Connects the pages of a kernel with its runs.

    `overview` describes the notebook's runs and sessions; `bundle` finds a run by its id or by its
    cell's, as it is saved in an output; `answers` has the functions that answer other requests.
    """

    def __init__(
        self,
        pages: Pages,
        overview: Callable[[list[Feed]], JsonDict],
        bundle: Callable[[str | None, str | None], JsonDict | None],
        answers: Mapping[str, Callable[[Message], JsonDict]] | None = None,
    ) -> None:
        self.pages = pages
        self._overview, self._bundle, self._answers = overview, bundle, answers or {}
        self._feeds: list[Feed] = []
        self.drawn: list[Feed] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, feed: Feed) -> None:
        """Add a run that is now drawn."""
        self._feeds.append(feed)
        self.drawn = [*self.drawn, feed][-DRAWN:]
        feed.changed = self._publish_from_loop

    def end(self, feed: Feed) -> None:
        """Remove a run that has ended, or is no longer drawn."""
        if feed in self._feeds:
            self._feeds.remove(feed)
            self.publish_soon()

    def publish_again(self, run: Run) -> None:
        """Publish a run in the place of its earlier state, wherever that is displayed."""
        from IPython.display import publish_display_data

        feeds = [feed for feed in self.drawn if feed.is_about(run.id)]
        for display_id in {run.id, *(feed.display_id for feed in feeds)}:
            where = {"display_id": display_id}
            publish_display_data(static_html.saved_bundle(run), transient=where, update=True)
        if not feeds:  # another kernel has drawn it
            feeds = [Feed(Approvals(), lambda: None, run.cell_id)]
            self.drawn = [*self.drawn, *feeds][-DRAWN:]
        for feed in feeds:
            feed.replace(run)
        self.publish_soon()

    def publish_soon(self) -> None:
        """Send the current overview to all pages."""
        pages = self.pages.all()
        if pages:
            overview = self._overview(list(self._feeds))
            for page in pages:
                page.send({"type": "overview", "overview": overview})

    def on_message(self, page: Page, message: Message) -> None:
        """Handle a message from a page; it may come on any thread."""
        match message:
            case {"type": "hello"}:
                page.send({"type": "overview", "overview": self._overview(list(self._feeds))})
            case {"type": "follow", "run_id": str(run_id)} if feed := self._feed(run_id):
                feed.follow(_RunChannel(page, run_id))
            case {"type": "to_run", "run_id": str(run_id), "message": dict(said)}:
                if feed := self._feed(run_id):
                    feed.on_message(said, _RunChannel(page, run_id))
            case {"type": "ask", "id": number, "what": "bundle"}:
                value = self._send_bundle(message.get("run_id"), message.get("cell_id"))
                page.send({"type": "reply", "id": number, "value": value})
            case {"type": "ask", "id": number, "what": str(what)} if what in self._answers:
                job = partial(self._answer, page, number, message)
                # It may ask this page about cells, for whose reply this thread is needed.
                threading.Thread(target=job, name="ipyagent-answer", daemon=True).start()
            case {"type": "bye"}:
                self._forget(page)

    def _answer(self, page: Page, number: int, message: Message) -> None:
        value = None
        try:
            value = self._answers[message["what"]](message)
        except Exception:
            log.exception("a page's request for %s failed", message["what"])
        finally:
            page.send({"type": "reply", "id": number, "value": value})

    def _send_bundle(self, run_id: str | None, cell_id: str | None) -> JsonDict | None:
        feed = self._feed(run_id) if run_id else None
        return static_html.saved_bundle(feed.run) if feed else self._bundle(run_id, cell_id)

    def _forget(self, page: Page) -> None:
        for feed in list(self._feeds):
            for send in list(feed.followers):
                if isinstance(send, _RunChannel) and send.page is page:
                    feed.unfollow(send)

    def _feed(self, run_id: str) -> Feed | None:
        return next((each for each in self._feeds if each.is_about(run_id)), None)

    def _publish_from_loop(self) -> None:
        """Send the overview soon, from the engine's loop: changes come in bursts."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._publish)

    def _publish(self) -> None:
        self._timer = None
        self.publish_soon()


@dataclass(frozen=True)
class _RunChannel:
    """Sends a run's messages to a page; equal to any other that does the same."""

    page: Page
    run_id: str

    def __call__(self, message: JsonDict) -> None:
        self.page.send({"type": "run", "run_id": self.run_id, "message": message})
