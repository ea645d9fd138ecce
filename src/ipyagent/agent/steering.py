"""Texts that the user adds while a run is on: the model reads them with its next request.

    a page, %agent say ──▶ Steering ──▶ user_texts_changed ──▶ the next step_started

Every change is an event of the run, so nothing that was said is hidden.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.validation import Validator, validate
from ipyagent.errors import SessionError
from ipyagent.schema import Notice, UserText, UserTextsChanged

NO_RUN = (
    "No run is on that could read this. Write it as the next prompt, in a cell that begins with "
    "%%agent."
)

ALREADY_SENT = "That text does not wait any more: it was sent, or taken back before."

HIDDEN_FROM_TEXT = (
    "Your text held what looks like a secret. It is hidden from the model, the record and this "
    "transcript; name the environment variable that holds it instead."
)

PATIENCE = 10.0
"""Seconds in which a run takes a text: its loop is never busy for long."""


@dataclass(frozen=True)
class _Way:
    """The way into one run, whose loop emits all of its events."""

    stream: EventStream
    validators: tuple[Validator, ...]
    loop: asyncio.AbstractEventLoop

    def add(self, text: str) -> None:
        text_id = uuid.uuid4().hex[:8]
        self._change((*self.stream.run.unsent, UserText(id=text_id, text=text)))
        if self.stream.run.unsent[-1].text != text:
            self.stream.emit(Notice(text=HIDDEN_FROM_TEXT))

    def remove(self, text_id: str) -> None:
        left = tuple(each for each in self.stream.run.unsent if each.id != text_id)
        if left == self.stream.run.unsent:
            raise SessionError(ALREADY_SENT)
        self._change(left)

    def _change(self, texts: tuple[UserText, ...]) -> None:
        self.stream.emit(UserTextsChanged(texts=texts))


class Steering:
    """The ways of the user's texts into the runs of a kernel, from any thread."""

    def __init__(self) -> None:
        self._ways: dict[str, _Way] = {}

    @contextmanager
    def accept(self, stream: EventStream, validators: Iterable[Validator]) -> Iterator[None]:
        """Take texts for the stream's run meanwhile; in the loop of the run."""
        run_id = stream.run.id
        self._ways[run_id] = _Way(stream, tuple(validators), asyncio.get_running_loop())
        try:
            yield
        finally:
            del self._ways[run_id]

    def say(self, text: str, run_id: str | None = None) -> None:
        """Queue a text for the next request of a run, by default of the newest one.

        Raises AgentError for a text that is refused, SessionError if the run takes no texts.
        """
        run_id = next(reversed(self._ways), "") if run_id is None else run_id
        way = self._find(run_id)
        validate(text.strip(), way.validators)
        self._do(run_id, lambda: way.add(text.strip()))

    def take_back(self, text_id: str, run_id: str) -> None:
        """Remove a text that waits; raises SessionError if it does not."""
        way = self._find(run_id)
        self._do(run_id, lambda: way.remove(text_id))

    def _find(self, run_id: str) -> _Way:
        if run_id not in self._ways:
            raise SessionError(NO_RUN)
        return self._ways[run_id]

    def _do(self, run_id: str, job: Callable[[], None]) -> None:
        """Do something in the run's loop, if the run still takes texts then."""
        loop, done = self._find(run_id).loop, Future[None]()

        def work() -> None:
            try:
                self._find(run_id)
                job()
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)

        if _is_running(loop):
            work()
        else:
            try:
                loop.call_soon_threadsafe(work)
            except RuntimeError:  # the loop is closed
                raise SessionError(NO_RUN) from None
        try:
            done.result(PATIENCE)
        except TimeoutError:
            raise SessionError("The run did not take the text: its loop is blocked.") from None


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether this thread runs that loop now."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
