"""The one event stream: everything that happens in a run, in order, for all listeners."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from ipyagent.agent.session import Session
from ipyagent.redaction import Redactor, StreamRedactor
from ipyagent.schema import (
    Event,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Run,
    RunState,
)
from ipyagent.schema.state import Kind, Listener

log = logging.getLogger("ipyagent")

RecordedEvents = list[tuple[Event, RunState]]
"""Events that the session has applied, each with the state after it."""


class EventStream:
    """Passes events to the session first, then to the listeners; the session keeps the run's state.

    A listener that fails is logged and dropped: a view never breaks a run. A failure of the session
    is raised, because what it cannot record must not be shown as done. Events pass the redactor
    before anyone sees them.
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
        self._redactors: dict[Kind, StreamRedactor] = {}
        self._last_kind: Kind | None = None
        self._state: RunState | None = None

    @property
    def run(self) -> Run:
        """The run so far; it exists from `run_started` on."""
        if self._state is None:
            raise RuntimeError("no run has started")
        return self._state.run

    def emit(self, event: Event) -> None:
        """Pass an event to the session and the listeners."""
        self.notify(self.record(event))

    def record(self, event: Event) -> RecordedEvents:
        """Apply an event to the session; return what `notify` passes to the listeners."""
        events: RecordedEvents = []
        for each in self._redact(event):
            self._state = self.session.apply_event(each)
            events.append((each, self._state))
        return events

    def notify(self, events: RecordedEvents) -> None:
        """Pass recorded events to the listeners."""
        for each, state in events:
            for listener in tuple(self.listeners):
                try:
                    listener(each, state)
                except Exception:
                    log.exception("a listener failed on %s and is left out", each.type)
                    self.listeners.remove(listener)

    def _redact(self, event: Event) -> Iterator[Event]:
        """Yield the event redacted; of streaming text, only what cannot be half of a secret."""
        match event:
            case MessageDelta(step=step, kind=kind, text=text):
                yield from self._flush_other_kind(step, kind)
                if kind not in self._redactors:
                    self._redactors[kind] = self.redactor.stream()
                if safe_text := self._redactors[kind].add(text):
                    yield event.model_copy(update={"text": safe_text})
                return
            case MessageStarted():
                self._redactors.clear()
                self._last_kind = None
            case MessageFinished(step=step):
                # The kind that streamed last is ended first: its words stand on an open line.
                for each in sorted(self._redactors, key=lambda kind: kind != self._last_kind):
                    if rest := self._redactors[each].end():
                        yield MessageDelta(step=step, kind=each, text=rest)
                self._redactors.clear()
        yield self.redactor.record(event)

    def _flush_other_kind(self, step: int, kind: Kind) -> Iterator[Event]:
        """Yield the text held back from one kind of streaming when another kind begins."""
        before, self._last_kind = self._last_kind, kind
        if before is not None and before != kind and (rest := self._redactors[before].pause()):
            yield MessageDelta(step=step, kind=before, text=rest)
