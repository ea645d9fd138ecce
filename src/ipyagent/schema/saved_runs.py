"""Saved runs: the events by which a conversation is built again, and beginnings of runs; images.

In a notebook the images of a run stand once, in the HTML beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ipyagent.json_types import JsonDict
from ipyagent.schema.events import (
    Event,
    MessageFinished,
    PlanProposed,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
)
from ipyagent.schema.results import ToolStatus
from ipyagent.schema.runs import Run, RunStatus, Step, StopReason
from ipyagent.schema.state import never_ran

_OPEN = {ToolStatus.PENDING, ToolStatus.AWAITING_APPROVAL, ToolStatus.RUNNING}

AS_DRAFT = {
    "status": RunStatus.DRAFT,
    "stop_reason": None,
    "error": None,
    "steps": (),
    "notes": (),
    "unsent": (),
    "duration": None,
}
"""Changes to a run that is to begin as a plan."""
UNWANTED = "I do not want this plan; nothing of it was run."
"""The message to the model about a plan that was denied."""


def conversation_events(run: Run) -> Iterator[Event]:
    """Yield the events of a run that change its conversation."""
    is_plan = never_ran(run)
    yield PlanProposed(run=run) if is_plan else RunStarted(run=run)
    for step in run.steps:
        yield from _events_of_step(step, UNWANTED if is_plan else None)
    if run.is_finished:
        otherwise = StopReason.FINISHED if run.status is RunStatus.DONE else StopReason.ERROR
        yield RunFinished(
            status=run.status,
            stop_reason=run.stop_reason or otherwise,
            error=run.error,
            duration=run.duration or 0.0,
        )


def _events_of_step(step: Step, nudge: str | None) -> Iterator[Event]:
    yield StepStarted(
        step=step.number, closing=step.closing, nudge=nudge, user_texts=step.user_texts
    )
    yield MessageFinished(
        step=step.number,
        message=step.message,
        finish_reason=step.finish_reason,
        usage=step.usage,
    )
    ended = [each for each in step.executions if each.status not in _OPEN]
    for execution in ended:
        yield ToolFinished(step=step.number, execution=execution)
    if len(ended) == len(step.executions):
        yield StepFinished(step=step.number)


RUN_MIME: Final = "application/vnd.ipyagent.run+json"
"""The MIME type of a run in a notebook's outputs."""

_SOURCE: Final = re.compile(r'<img src="data:image/\w+;base64,([^"]+)"')
_REFERENCE: Final = re.compile(r"html:(\d{1,9})")
"""Stands for an image of the HTML, from 0 on; `labextension/src/saved.ts` reads it."""


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
