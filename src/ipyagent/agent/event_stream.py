"""The one event stream: everything that happens in a run, in order, for all listeners."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from itertools import groupby

from ipyagent import schema
from ipyagent.agent.session.session import Session
from ipyagent.redaction import Redactor, StreamRedactor
from ipyagent.schema.events import Kind, Listener

log = logging.getLogger("ipyagent")

INTERVAL = 0.04
"""Seconds in which pieces of a reply are collected, once one was passed on."""

MOST = 16_384
"""Characters that are collected: redacting more at once would hold up the loop."""

SLOW_SECONDS = 2.0
"""Seconds that a journal may take before the user hears of it."""

SLOW_JOURNAL = "The journal {} cannot be written at the moment; the run waits for it."

_Stream = tuple[Kind, int, str]
"""The kind of pieces that belong together; and of a call its place and its name."""

RecordedEvents = list[tuple[schema.Event, schema.RunState]]
"""Events that the session has applied, each with the state after it."""


class EventStream:
    """Passes events to the session first, then to the listeners, and keeps the run's state.

    A listener that fails is logged and dropped: a view never breaks a run. A failure of the session
    is raised, because an event that it cannot record must not be shown. Events pass the redactor
    before anyone sees them. A reply's first piece is passed on at once, as is the first after a
    pause; those within an interval become one.
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
        self._redactors: dict[_Stream, StreamRedactor] = {}
        self._last: _Stream | None = None
        self._state: schema.RunState | None = None
        self._pieces: list[schema.MessageDelta] = []
        self._collected = 0
        self._step = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._has_waited = False

    @property
    def run(self) -> schema.Run:
        """The run so far; it exists from `run_started` on."""
        if self._state is None:
            raise RuntimeError("no run has started")
        return self._state.run

    def emit(self, event: schema.Event) -> None:
        """Pass an event to the session and the listeners."""
        if not isinstance(event, schema.MessageDelta):
            self.notify(self._apply(self._redact(event)))
            return
        self._pieces.append(event)
        self._collected += len(event.text)
        if self._collected >= MOST or self._is_due():
            self._pass_on()

    def end_reply(self) -> None:
        """Pass on what is left of a reply's pieces: no more will come."""
        self.notify(self._apply(self._redact_rest()))

    async def wait_until_recorded(self) -> None:
        """Wait for the journal, and say so, once, if that takes long; raises JournalError."""
        slow = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._report_wait)
        try:
            await self.session.wait_until_recorded()
        finally:
            slow.cancel()

    def _report_wait(self) -> None:
        if not self._has_waited:
            self._has_waited = True
            self.emit(schema.Notice(text=SLOW_JOURNAL.format(self.session.journal.place)))

    def record(self, event: schema.Event) -> RecordedEvents:
        """Apply an event to the session; return what `notify` passes to the listeners."""
        return self._apply(self._redact(event))

    def notify(self, events: RecordedEvents) -> None:
        """Pass recorded events to the listeners."""
        for each, state in events:
            for listener in tuple(self.listeners):
                try:
                    listener(each, state)
                except Exception:
                    log.exception("a listener failed on %s and is left out", each.type)
                    self.listeners.remove(listener)

    def _apply(self, events: Iterable[schema.Event]) -> RecordedEvents:
        applied: RecordedEvents = []
        for each in events:
            self._state = self.session.apply_event(each, self._state)
            applied.append((each, self._state))
        return applied

    def _is_due(self) -> bool:
        """Return whether pieces are passed on now; else they will be when the interval is over."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return True
        if loop.time() >= self._due:
            return True
        if self._timer is None:
            self._timer = loop.call_at(self._due, self._pass_on)
        return False

    def _pass_on(self) -> None:
        self.notify(self._apply(self._redact_pieces()))
        with contextlib.suppress(RuntimeError):  # no interval without a loop
            self._due = asyncio.get_running_loop().time() + INTERVAL

    def _redact(self, event: schema.Event) -> list[schema.Event]:
        """Return the event redacted, after what came before it."""
        if isinstance(event, schema.MessageDelta):
            self._pieces.append(event)
            return self._redact_pieces()
        is_end = isinstance(event, schema.MessageFinished)
        before = self._redact_rest() if is_end else self._redact_pieces() if self._pieces else []
        if isinstance(event, schema.MessageStarted):
            self._redactors.clear()
            self._last = None
        return [*before, self.redactor.record(event)]

    def _redact_pieces(self) -> list[schema.Event]:
        """Return the pieces, without what may be half of a secret."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pieces, self._pieces, self._collected = self._pieces, [], 0
        texts: list[tuple[_Stream, str]] = []
        for stream, each in groupby(pieces, key=lambda piece: (piece.kind, piece.call, piece.name)):
            together = [*each]
            before, self._last, self._step = self._last, stream, together[0].step
            if before is not None and before != stream:
                texts.append((before, self._redactors[before].pause()))
            if stream not in self._redactors:
                self._redactors[stream] = self.redactor.stream()
            text = "".join([piece.text for piece in together])
            texts.append((stream, self._redactors[stream].add(text)))
        return self._deltas(texts) if texts else []

    def _redact_rest(self) -> list[schema.Event]:
        before = self._redact_pieces()
        # The kind that streamed last is ended first: its words stand on an open line.
        streams = sorted(self._redactors, key=lambda stream: stream != self._last)
        rest = self._deltas([(each, self._redactors[each].end()) for each in streams])
        self._redactors.clear()
        return before + rest

    def _deltas(self, texts: list[tuple[_Stream, str]]) -> list[schema.Event]:
        return [
            schema.MessageDelta(step=self._step, kind=kind, text=text, call=call, name=name)
            for (kind, call, name), text in texts
            if text
        ]
