"""The states of runs and sessions, why a run ended, what repeats it, and a saved run's images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ipyagent.digests import digest_json
from ipyagent.json_types import JsonDict
from ipyagent.schema.messages import Model, Moment, Text


class RunStatus(StrEnum):
    """Lifecycle of a run; MOVES has the legal transitions."""

    DRAFT = "draft"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"


MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.DRAFT: frozenset({RunStatus.QUEUED, RunStatus.CANCELLED}),
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.ERROR}),
    RunStatus.RUNNING: frozenset({RunStatus.DONE, RunStatus.ERROR, RunStatus.CANCELLED}),
    RunStatus.DONE: frozenset(),
    RunStatus.ERROR: frozenset(),
    RunStatus.CANCELLED: frozenset(),
}
"""The statuses that may follow each status; the last three are final."""


PAUSED = "pause_turn"
"""The finish reason of a reply in whose midst the service stopped, to be asked to go on."""
INCOMPLETE = {"length", PAUSED}
"""Finish reasons of replies that the next one continues."""


class SessionState(StrEnum):
    """Lifecycle of a session; STEPS has the legal transitions."""

    INITIALIZING = "initializing"
    ACTIVE = "active"
    TERMINATED = "terminated"


STEPS: dict[SessionState, frozenset[SessionState]] = {
    SessionState.INITIALIZING: frozenset({SessionState.ACTIVE, SessionState.TERMINATED}),
    SessionState.ACTIVE: frozenset({SessionState.TERMINATED}),
    SessionState.TERMINATED: frozenset(),
}


class StopReason(StrEnum):
    """The reason why a run ended."""

    FINISHED = "finished"
    MAX_STEPS = "max_steps"
    MAX_SECONDS = "max_seconds"
    MAX_TOKENS = "max_tokens"  # of the run's budget, or the model's own for one reply
    MAX_USD = "max_usd"
    TIMEOUT = "timeout"  # one step took too long
    CONTEXT_OVERFLOW = "context_overflow"
    CONTENT_FILTER = "content_filter"
    PLANNED = "planned"  # the plan waits for the user
    DENIED = "denied"  # the user did not want the plan
    DIFFERS = "differs"  # a replay came to another result than the run that it replays
    UNATTENDED = "unattended"  # a call had to be approved, and nobody could be asked
    EMPTY = "empty"  # the model ended without saying or calling anything
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Outcome(StrEnum):
    """The outcome of a run, computed from status and stop reason."""

    RUNNING = "running"
    SUCCESS = "success"
    PARTIAL = "partial"
    FAILED = "failed"


class Asked(Model):
    """The request of a cell, as digests: two cells with the same key asked for the same.

    `before` is the key of the cell before it in the session, or "start".
    """

    prompt: str
    options: str
    tools: str
    before: str = "start"

    @property
    def key(self) -> str:
        """The digest of all of it."""
        return digest_json(self.to_dict())

    def describe_difference(self, other: Asked) -> str:
        """Return the parts in which another request differs, in words."""
        words = {
            "prompt": "the prompt",
            "options": "the options that change what is asked",
            "tools": "the user's own tools",
            "before": "the agent cell before it",
        }
        mine, others = self.to_dict(), other.to_dict()
        return " and ".join(text for name, text in words.items() if mine[name] != others[name])


class Expectation(Model):
    """An expression that a cell expects to hold of its run; `found` is why it does not, or ""."""

    text: Text
    found: Text = ""

    def __str__(self) -> str:
        return f"Not as expected: {self.text}: {self.found}" if self.found else self.text


class Replayed(Model):
    """The run that a replay repeats: its id, when it was recorded, and the model that led it."""

    run_id: str
    recorded_at: Moment
    model: Text


@dataclass(frozen=True)
class UndoReport:
    """The report of taking back a run, in lines: what goes back, and what stays with the reason."""

    restored: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """The part of what stays that has changed since, or cannot be reached now."""
    id: str = ""
    """The name under which this undo can be taken back itself; "" if nothing was done."""

    def __str__(self) -> str:
        again = (f"`%agent undo {self.id}` takes this back",) if self.id else ()
        return "\n".join((*self.restored, *self.skipped, *again)) or "nothing to undo"


RUN_MIME: Final = "application/vnd.ipyagent.run+json"
"""The MIME type of a run in a notebook's outputs."""

_SOURCE: Final = re.compile(r'<img src="data:image/\w+;base64,([^"]+)"')
_REFERENCE: Final = re.compile(r"html:(\d{1,9})")
"""Stands for an image of the HTML, from 0 on."""


def refer_to_html(run: JsonDict, html: str) -> None:
    """Replace the images of a run that stand in the HTML by references."""
    places = {image: number for number, image in enumerate(_SOURCE.findall(html))}
    for holder, name in _find_images(run):
        if holder[name] in places:
            holder[name] = f"html:{places[holder[name]]}"


def fill_from_html(run: object, html: str) -> None:
    """Put the images of the HTML back into a run; a reference to none is left."""
    images = _SOURCE.findall(html)
    for holder, name in _find_images(run):
        found = _REFERENCE.fullmatch(holder[name])
        if found and int(found[1]) < len(images):
            holder[name] = images[int(found[1])]


def _find_images(run: object) -> Iterator[tuple[JsonDict, str]]:
    """Yield the objects that hold an image, with the field; arguments of calls hold none."""
    waiting = [run]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            for name, inner in value.items():
                if not isinstance(inner, str):
                    waiting += [inner] if name != "arguments" else []
                elif name == "data" or name.startswith("image/"):
                    yield value, name
