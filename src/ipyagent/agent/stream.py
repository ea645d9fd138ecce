"""The one event stream: everything that happens in a run, told once, in order, to all listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ipyagent.agent.session import Session
from ipyagent.schema import Event, Run

log = logging.getLogger("ipyagent")

Listener = Callable[[Event], object]


class EventStream:
    """Passes events on, to the session before all others; the session folds them into `run`.

    A listener that fails is logged and left out from then on: a view never breaks a run. What the
    session cannot take in must not be shown as done, so its failure is raised.
    """

    def __init__(self, session: Session, listeners: Iterable[Listener] = ()) -> None:
        self.session = session
        self.listeners = list(listeners)
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """The run so far; there is one from `run_started` on."""
        if self._run is None:
            raise RuntimeError("no run has started")
        return self._run

    def emit(self, event: Event) -> None:
        """Tell everybody."""
        self._run = self.session.listen(event)
        for listener in tuple(self.listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s and is left out", event.type)
                self.listeners.remove(listener)
