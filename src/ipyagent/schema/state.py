"""The state of a current run, folded once for each event, and saved runs, folded from events again.

Folding events is the one way a run changes. Deltas are ignored, since `message_finished` brings the
whole message. All listeners get the state.

In a notebook the images of a saved run stand once, in the HTML beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, Literal

from ipyagent.json_types import JsonDict
from ipyagent.schema import events
from ipyagent.schema.events import Event
from ipyagent.schema.messages import TokenUsage
from ipyagent.schema.results import Todo, ToolStatus
from ipyagent.schema.runs import Run, RunStatus, Step, StopReason, find_todos


def fold(run: Run | None, event: Event) -> Run:
    """Return the run after `event`; only `plan_proposed` and `run_started` may come first."""
    if isinstance(event, events.RunStarted | events.PlanProposed):
        return event.run
    if run is None:
        raise ValueError(f"{event.type} before run_started")
    match event:
        case events.PlanRehearsed(rehearsals=rehearsals):
            return run.model_copy(update={"rehearsals": rehearsals})
        case events.StepStarted(step=number, closing=closing, user_texts=texts):
            step = Step(number=number, closing=closing, user_texts=texts)
            return run.model_copy(update={"steps": (*run.steps, step), "unsent": ()})
        case events.Compacted():
            note = "The older part of the conversation was summarised to make room."
            return _with_step(run, notes=(*run.steps[-1].notes, note))
        case events.RetryScheduled():
            note = f"{event.reason} Retry {event.attempt}/{event.of} in {event.delay:.1f} s."
            return _with_step(run, notes=(*run.steps[-1].notes, note))
        case events.MessageFinished():
            reply = event.model_dump(exclude={"type", "step", "message", "usage"})
            return _with_step(run, message=event.message, usage=event.usage, **reply)
        case events.ToolStarted(execution=execution):
            return _with_step(run, executions=(*run.steps[-1].executions, execution))
        case events.Notice(text=text):
            return run.model_copy(update={"notes": (*run.notes, text)})
        case events.UserTextsChanged(texts=texts):
            return run.model_copy(update={"unsent": texts})
        case events.RunFinished():
            end = event.model_dump(exclude={"type"})
            return run.model_copy(update=end | {"value": event.value})
        case events.TakenBack(calls=calls, stays=stays):
            return run.model_copy(update={"taken_back": calls, "stays": stays})
    return _fold_call(run, event)


def _fold_call(run: Run, event: Event) -> Run:
    """Return the run after an event of one of its calls."""
    match event:
        case events.ApprovalRequested():
            return _with_call(run, event.call_id, status=ToolStatus.AWAITING_APPROVAL)
        case events.ApprovalDecided():
            decided = {"decision": event.decision, "decided_by": event.by, "reason": event.reason}
            return _with_call(run, event.call_id, status=ToolStatus.PENDING, **decided)
        case events.ToolRehearsed(rehearsal=rehearsal):
            return _with_call(run, event.call_id, rehearsal=rehearsal)
        case events.ToolRunning():
            return _with_call(run, event.call_id, status=ToolStatus.RUNNING)
        case events.ToolEdited(execution=execution) | events.ToolFinished(execution=execution):
            return _with_call(run, execution.call.id, **dict(execution))
    return run


def _with_step(run: Run, **changes: object) -> Run:
    """Return the run with its newest step changed: older steps are final."""
    *earlier, newest = run.steps
    return run.model_copy(update={"steps": (*earlier, newest.model_copy(update=changes))})


def _with_call(run: Run, call_id: str, **changes: object) -> Run:
    executions = tuple(
        e.model_copy(update=changes) if e.call.id == call_id else e
        for e in run.steps[-1].executions
    )
    return _with_step(run, executions=executions)


Kind = Literal["text", "thinking"]


class OpenMessage:
    """A reply that is streaming in, as far as it has come; it does not change.

    All states of one reply share a list of pieces: joining them at each piece would be quadratic.
    """

    __slots__ = ("_count", "_pieces", "step", "text_length")

    def __init__(
        self,
        step: int,
        pieces: list[tuple[Kind, str]] | None = None,
        count: int = 0,
        text_length: int = 0,
    ) -> None:
        self.step = step
        self.text_length = text_length
        """Characters of its text."""
        self._pieces = [] if pieces is None else pieces
        self._count = count

    def add(self, delta: events.MessageDelta) -> OpenMessage:
        """Return the reply with one piece more."""
        pieces = self._pieces
        if len(pieces) != self._count:  # another state has continued from here
            pieces = pieces[: self._count]
        pieces.append((delta.kind, delta.text))
        length = self.text_length + (len(delta.text) if delta.kind == "text" else 0)
        return OpenMessage(self.step, pieces, self._count + 1, length)

    @property
    def is_empty(self) -> bool:
        """True if nothing of it has arrived yet."""
        return self._count == 0

    def join(self, kind: Kind) -> str:
        """Return all its text, or all its thinking."""
        pieces = self._pieces[: self._count]
        return "".join(text for each, text in pieces if each == kind)


@dataclass(frozen=True)
class Totals:
    """The sums of a run's steps: adding up a long run anew at each event would be quadratic."""

    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = None
    todos: tuple[Todo, ...] = ()

    @classmethod
    def of(cls, run: Run) -> Totals:
        """Return the sums of all steps."""
        return cls(run.usage, run.cost_usd, run.todos)

    def plus(self, steps: tuple[Step, ...]) -> Totals:
        """Return the sums with more steps."""
        usage = TokenUsage.sum((self.usage, *map(attrgetter("usage"), steps)))
        cost, todos = self.cost_usd, self.todos
        for step in steps:
            cost = cost if step.cost_usd is None else (cost or 0.0) + step.cost_usd
            newer = find_todos(step)
            todos = todos if newer is None else newer
        return Totals(usage, cost, todos)


@dataclass(frozen=True)
class Decisions:
    """The decisions that a run waits for, and those of its newest step and its plan so far."""

    asked: Mapping[str, str] = field(default_factory=dict)
    """The ids of the approvals of the step's calls, by the ids of the calls."""
    settled: Mapping[str, bool] = field(default_factory=dict)
    """The calls that wait no more: True if they were decided on, False if they ended otherwise."""
    plans: tuple[str, ...] = ()
    """The ids of the approvals of the plans that were proposed, the newest last."""
    plan: str | None = None
    """The id of the plan's approval while it is pending."""

    @property
    def pending(self) -> dict[str, str]:
        """The ids of pending approvals, by the ids of their calls."""
        return {call: each for call, each in self.asked.items() if call not in self.settled}

    def after(self, event: Event) -> Decisions:
        """Return the decisions after `event`."""
        match event:
            case events.StepStarted():  # some services number the calls of every reply anew
                return replace(self, asked={}, settled={})
            case events.ApprovalRequested(call_id=call_id, approval_id=approval_id):
                settled = {call: each for call, each in self.settled.items() if call != call_id}
                return replace(self, asked={**self.asked, call_id: approval_id}, settled=settled)
            case events.ApprovalDecided(call_id=call_id):
                return replace(self, settled={**self.settled, call_id: True})
            case events.ToolFinished(execution=execution):
                return replace(self, settled={execution.call.id: False, **self.settled})
            case events.PlanProposed(approval_id=str(approval_id)):
                return replace(self, plans=(*self.plans, approval_id), plan=approval_id)
            case (
                events.PlanProposed()
                | events.PlanWaiting()
                | events.RunStarted()
                | events.RunFinished()
            ):
                return replace(self, plan=None)
        return self


@dataclass(frozen=True)
class RunState:
    """A run as far as it has come, and the reply that is streaming in.

    `earlier` are the sums of all its steps but the newest.
    """

    run: Run
    open_message: OpenMessage | None = None
    earlier: Totals | None = None
    decisions: Decisions = field(default_factory=Decisions)
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The last lines of running calls, by the ids of the calls."""

    @property
    def totals(self) -> Totals:
        """The sums of all steps."""
        if self.earlier is None:
            return Totals.of(self.run)
        return self.earlier.plus(self.run.steps[-1:])


Listener = Callable[[Event, RunState], object]
"""Gets each event with the state of the run after it."""


def advance(state: RunState | None, event: Event) -> RunState:
    """Return the state after `event`; raises ValueError if no run has begun."""
    if state is None:
        decisions = Decisions().after(event)
        return RunState(fold(None, event), advance_message(None, event), decisions=decisions)
    run, decisions = fold(state.run, event), state.decisions.after(event)
    earlier = state.totals if isinstance(event, events.StepStarted) else state.earlier
    if isinstance(event, events.RunStarted | events.PlanProposed):
        earlier = None
    message, outputs = state.open_message, state.outputs
    return RunState(
        run, advance_message(message, event), earlier, decisions, advance_outputs(outputs, event)
    )


def advance_message(message: OpenMessage | None, event: Event) -> OpenMessage | None:
    """Return the open message after `event`; None if none is streaming in."""
    match event:
        case events.MessageStarted(step=step):
            return OpenMessage(step)
        case events.MessageDelta(step=step):
            return (message or OpenMessage(step)).add(event)
        case events.MessageFinished() | events.RunFinished():
            return None
    return message


def advance_outputs(outputs: Mapping[str, str], event: Event) -> Mapping[str, str]:
    """Return the last lines of running calls after `event`."""
    match event:
        case events.ToolOutput(call_id=call_id, text=text):
            return {**outputs, call_id: text}
        case events.ToolFinished(execution=execution):
            return {call: text for call, text in outputs.items() if call != execution.call.id}
        case events.StepStarted() | events.RunFinished():
            return {}
    return outputs


def never_ran(run: Run) -> bool:
    """Return whether it is a plan that waits, or was denied as a whole."""
    waits = run.status is RunStatus.DRAFT or run.stop_reason is StopReason.DENIED
    return bool(run.plan) and not run.executions and waits


def plan_index(run: Run, call_id: str) -> int | None:
    """Return the step of the plan that a call carries out, from 0; None for any other call."""
    ids = [step.call.id for step in run.plan]
    base, _, attempt = call_id.rpartition(".")
    known = call_id if call_id in ids else base if attempt.isdecimal() else None
    return ids.index(known) if known in ids else None


def progress(run: Run) -> list[ToolStatus]:
    """Return the status of each step: that of its newest call, or pending."""
    states = [ToolStatus.PENDING] * len(run.plan)
    for execution in run.executions:
        if (index := plan_index(run, execution.call.id)) is not None:
            states[index] = execution.status
    return states


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
    yield events.PlanProposed(run=run) if is_plan else events.RunStarted(run=run)
    for step in run.steps:
        yield from _events_of_step(step, UNWANTED if is_plan else None)
    if run.is_finished:
        otherwise = StopReason.FINISHED if run.status is RunStatus.DONE else StopReason.ERROR
        yield events.RunFinished(
            status=run.status,
            stop_reason=run.stop_reason or otherwise,
            error=run.error,
            duration=run.duration or 0.0,
        )


def _events_of_step(step: Step, nudge: str | None) -> Iterator[Event]:
    yield events.StepStarted(
        step=step.number, closing=step.closing, nudge=nudge, user_texts=step.user_texts
    )
    yield events.MessageFinished(
        step=step.number,
        message=step.message,
        finish_reason=step.finish_reason,
        usage=step.usage,
    )
    ended = [each for each in step.executions if each.status not in _OPEN]
    for execution in ended:
        yield events.ToolFinished(step=step.number, execution=execution)
    if len(ended) == len(step.executions):
        yield events.StepFinished(step=step.number)


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
