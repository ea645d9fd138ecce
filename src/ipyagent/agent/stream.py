"""The one event stream: everything that happens in a run, told once, in order, to all listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from ipyagent.agent.session import Session
from ipyagent.redaction import Redactor, StreamRedactor
from ipyagent.schema import Event, MessageDelta, MessageFinished, MessageStarted, Run

log = logging.getLogger("ipyagent")

Kind = Literal["text", "thinking"]

Listener = Callable[[Event], object]


class EventStream:
    """Passes events on, to the session before all others; the session folds them into `run`.

    A listener that fails is logged and left out from then on: a view never breaks a run. What the
    session cannot take in must not be shown as done, so its failure is raised. Nobody is told a
    secret: events pass the redactor first.
    """

    def __init__(
        self,
        session: Session,
        listeners: Iterable[Listener] = (),
        redactor: Redactor | None = None,
    ) -> None:
        self.session = session
        self.listeners = list(listeners)
        self.redactor = redactor or Redactor()
        self._pieces: dict[Kind, StreamRedactor] = {}
        self._kind: Kind | None = None
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """The run so far; there is one from `run_started` on."""
        if self._run is None:
            raise RuntimeError("no run has started")
        return self._run

    def emit(self, event: Event) -> None:
        """Tell everybody."""
        self.tell(self.take(event))

    def take(self, event: Event) -> list[Event]:
        """Have the session take in what happened; return what `tell` tells the others of it."""
        events = [*self._clean(event)]
        for each in events:
            self._run = self.session.listen(each)
        return events

    def tell(self, events: Iterable[Event]) -> None:
        """Tell the listeners what the session has taken in."""
        for each in events:
            for listener in tuple(self.listeners):
                try:
                    listener(each)
                except Exception:
                    log.exception("a listener failed on %s and is left out", each.type)
                    self.listeners.remove(listener)

    def _clean(self, event: Event) -> Iterator[Event]:
        """What may be told; of a text that streams, the part that cannot be half of a secret."""
        match event:
            case MessageDelta(step=step, kind=kind, text=text):
                yield from self._pause(step, kind)
                if kind not in self._pieces:
                    self._pieces[kind] = self.redactor.stream()
                if told := self._pieces[kind].add(text):
                    yield event.model_copy(update={"text": told})
                return
            case MessageStarted():
                self._pieces.clear()
                self._kind = None
            case MessageFinished(step=step):
                # What streamed last is ended first: its words stand on an open line.
                for each in sorted(self._pieces, key=lambda kind: kind != self._kind):
                    if rest := self._pieces[each].end():
                        yield MessageDelta(step=step, kind=each, text=rest)
                self._pieces.clear()
        yield self.redactor.of(event)

    def _pause(self, step: int, kind: Kind) -> Iterator[Event]:
        """Show what the kind before has left, when another one begins."""
        before, self._kind = self._kind, kind
        if before is not None and before != kind and (rest := self._pieces[before].pause()):
            yield MessageDelta(step=step, kind=before, text=rest)
