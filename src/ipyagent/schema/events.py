"""The closed union of events, the agent loop's only output, and the state of a run after each.

Events nest in pairs, run ⊃ step ⊃ message / tool:

    plan_proposed?                   a run that the user decides on before it starts
    plan_waiting?                    its cell has stopped asking; nothing more comes here
    run_started
    ├─ step_started
    │  ├─ compacted?                the older part of the conversation became a summary
    │  ├─ retry_scheduled*
    │  ├─ message_started
    │  │  └─ message_delta*          text or thinking, as it streams
    │  ├─ message_finished           the whole message: deltas may be forgotten now
    │  ├─ tool_started
    │  │  ├─ tool_rehearsed?         also while the approval is open
    │  │  ├─ approval_requested?
    │  │  ├─ tool_edited?            by the user; it is rehearsed and asked about again
    │  │  ├─ approval_decided?
    │  │  ├─ tool_running?
    │  │  └─ tool_output*            its last lines, as they come; kept nowhere
    │  ├─ tool_finished              always, also after denial, error and interrupt
    │  └─ (more tools)
    ├─ step_finished
    └─ (more steps)
    run_finished                     always
    taken_back*                      by an undo, later; no listener gets it

A `notice` and a `user_texts_changed` may stand anywhere. Every listener gets the same stream in the
same order.

Folding events is the one way a run changes. Deltas are ignored, since `message_finished` brings the
whole message. All listeners get the state. A saved run is folded from events again; in a notebook
its images stand once, in the HTML beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter, not_
from typing import Annotated, Literal

from pydantic import Field

from ipyagent.numbers import TracedNumber
from ipyagent.schema.messages import (
    NO_TOKENS,
    Amount,
    Count,
    Flag,
    LazyModel,
    Message,
    Text,
    TokenUsage,
)
from ipyagent.schema.results import (
    DecidedBy,
    Decision,
    Rehearsal,
    Todo,
    ToolDefinition,
    ToolExecution,
    ToolStatus,
)
from ipyagent.schema.runs import (
    UNWANTED,
    Expectation,
    Run,
    RunStatus,
    Step,
    StopReason,
    UserText,
    UserTexts,
    find_todos,
    never_ran,
)


class RunStarted(LazyModel):
    """A run begins; `run` has no steps yet.

    `system_prompt` and `tools` are given if they differ from those of the session so far.
    """

    type: Literal["run_started"] = "run_started"
    run: Run
    system_prompt: Text | None = None
    tools: tuple[ToolDefinition, ...] | None = None


class PlanProposed(LazyModel):
    """The user is asked about a whole plan: `run` is a draft, stored before it is shown.

    `approval_id` is valid for one decision; None if nobody can be asked now.
    """

    type: Literal["plan_proposed"] = "plan_proposed"
    run: Run
    approval_id: str | None = None


class PlanRehearsed(LazyModel):
    """The steps of a plan were tried on a copy of the kernel; None where one is no code."""

    type: Literal["plan_rehearsed"] = "plan_rehearsed"
    rehearsals: tuple[Rehearsal | None, ...]


class PlanWaiting(LazyModel):
    """The cell has stopped asking about its plan, which waits unless decided on elsewhere.

    The last event of that cell.
    """

    type: Literal["plan_waiting"] = "plan_waiting"


class StepStarted(LazyModel):
    """The model is about to be asked for the `step`-th time (from 1).

    `nudge` is a text of ours before it: to continue a reply that was cut, or to finish because the
    budget is spent (then the step is `closing`). `user_texts` had waited for this request, and go
    with it.
    """

    type: Literal["step_started"] = "step_started"
    step: Count
    closing: Flag = False
    nudge: Text | None = None
    user_texts: UserTexts = ()


class Compacted(LazyModel):
    """The older part of the conversation became `summary`.

    `before` and `after` are the ids of the nodes that stay verbatim on either side of it.
    """

    type: Literal["compacted"] = "compacted"
    step: Count
    summary: Message
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class RetryScheduled(LazyModel):
    """A request failed in a transient way; it is retried after `delay` seconds."""

    type: Literal["retry_scheduled"] = "retry_scheduled"
    step: Count
    attempt: Count
    of: Count
    delay: Amount
    reason: Text


class MessageStarted(LazyModel):
    """A reply begins to stream. After a retry it begins again, and earlier pieces are void."""

    type: Literal["message_started"] = "message_started"
    step: Count


class MessageDelta(LazyModel):
    """A piece of the reply.

    Of a call that is being written the `text` goes on with the values of its arguments, in plain
    text; `call` is its place in the reply, `name` its tool.
    """

    type: Literal["message_delta"] = "message_delta"
    step: Count
    kind: Literal["text", "thinking", "call"]
    text: str
    call: Count = 0
    name: Text = ""


class MessageFinished(LazyModel):
    """The whole reply, also if it was cut short; None if the model said nothing."""

    type: Literal["message_finished"] = "message_finished"
    step: Count
    message: Message | None
    finish_reason: Text | None = None
    usage: TokenUsage = TokenUsage()
    cost_usd: Amount | None = None
    thinking_seconds: Amount | None = None


class ToolStarted(LazyModel):
    """A call was checked and is about to be decided on."""

    type: Literal["tool_started"] = "tool_started"
    step: Count
    execution: ToolExecution


class ToolEdited(LazyModel):
    """The user changed a call that waited; it was checked again, and is decided on anew."""

    type: Literal["tool_edited"] = "tool_edited"
    step: Count
    execution: ToolExecution


class ApprovalRequested(LazyModel):
    """The user is asked about exactly this call; `approval_id` is valid for one decision."""

    type: Literal["approval_requested"] = "approval_requested"
    step: Count
    call_id: str
    approval_id: str


class ApprovalDecided(LazyModel):
    """A call was decided on."""

    type: Literal["approval_decided"] = "approval_decided"
    step: Count
    call_id: str
    decision: Decision
    by: DecidedBy
    reason: Text | None = None


class ToolRehearsed(LazyModel):
    """A call's code was tried on a copy of the kernel, or could not be."""

    type: Literal["tool_rehearsed"] = "tool_rehearsed"
    step: Count
    call_id: str
    rehearsal: Rehearsal


class ToolRunning(LazyModel):
    """A call's tool has begun to run."""

    type: Literal["tool_running"] = "tool_running"
    step: Count
    call_id: str


class ToolOutput(LazyModel):
    """The last lines that a running call has put out, as a terminal would show them.

    Views show them until the call's result; nothing keeps them.
    """

    type: Literal["tool_output"] = "tool_output"
    step: Count
    call_id: str
    text: Text


class ToolFinished(LazyModel):
    """A call has its one result."""

    type: Literal["tool_finished"] = "tool_finished"
    step: Count
    execution: ToolExecution


class StepFinished(LazyModel):
    """A step's calls all have results."""

    type: Literal["step_finished"] = "step_finished"
    step: Count


class Notice(LazyModel):
    """Something the user should know."""

    type: Literal["notice"] = "notice"
    text: Text


class UserTextsChanged(LazyModel):
    """The user added or took back a text: these wait for the next request now."""

    type: Literal["user_texts_changed"] = "user_texts_changed"
    texts: tuple[UserText, ...]


class TakenBack(LazyModel):
    """The user took calls of a run that has ended back, or put them back again.

    `calls` are those that are taken back now; `stays` says what could not be.
    """

    type: Literal["taken_back"] = "taken_back"
    calls: tuple[str, ...]
    stays: tuple[Text, ...] = ()


class RunFinished(LazyModel):
    """A run ended; `value` is its answer as an instance of the type that was asked for.

    `expected` are the expectations of its cell.
    """

    type: Literal["run_finished"] = "run_finished"
    status: RunStatus
    stop_reason: StopReason
    error: Text | None = None
    duration: Amount
    value: object = Field(default=None, exclude=True, repr=False)
    value_text: Text = Field(default="", exclude_if=not_)
    expected: tuple[Expectation, ...] = Field(default=(), exclude_if=not_)
    numbers: tuple[TracedNumber, ...] = Field(default=(), exclude_if=not_)


Event = Annotated[
    PlanProposed
    | PlanRehearsed
    | PlanWaiting
    | RunStarted
    | StepStarted
    | Compacted
    | RetryScheduled
    | MessageStarted
    | MessageDelta
    | MessageFinished
    | ToolStarted
    | ToolEdited
    | ApprovalRequested
    | ApprovalDecided
    | ToolRehearsed
    | ToolRunning
    | ToolOutput
    | ToolFinished
    | StepFinished
    | Notice
    | UserTextsChanged
    | RunFinished
    | TakenBack,
    Field(discriminator="type"),
]


def fold(run: Run | None, event: Event) -> Run:
    """Return the run after `event`; only `plan_proposed` and `run_started` may come first."""
    if isinstance(event, RunStarted | PlanProposed):
        return event.run
    if run is None:
        raise ValueError(f"{event.type} before run_started")
    match event:
        case PlanRehearsed(rehearsals=rehearsals):
            return run.model_copy(update={"rehearsals": rehearsals})
        case StepStarted(step=number, closing=closing, user_texts=texts):
            step = Step(number=number, closing=closing, user_texts=texts)
            return run.model_copy(update={"steps": (*run.steps, step), "unsent": ()})
        case Compacted():
            note = "The older part of the conversation was summarised to make room."
            return _with_step(run, notes=(*run.steps[-1].notes, note))
        case RetryScheduled():
            note = f"{event.reason} Retry {event.attempt}/{event.of} in {event.delay:.1f} s."
            return _with_step(run, notes=(*run.steps[-1].notes, note))
        case MessageFinished():
            reply = event.model_dump(exclude={"type", "step", "message", "usage"})
            return _with_step(run, message=event.message, usage=event.usage, **reply)
        case ToolStarted(execution=execution):
            return _with_step(run, executions=(*run.steps[-1].executions, execution))
        case Notice(text=text):
            return run.model_copy(update={"notes": (*run.notes, text)})
        case UserTextsChanged(texts=texts):
            return run.model_copy(update={"unsent": texts})
        case RunFinished():
            end = event.model_dump(exclude={"type"})
            own = {"value": event.value, "expected": event.expected, "numbers": event.numbers}
            return run.model_copy(update=end | own)
        case TakenBack(calls=calls, stays=stays):
            return run.model_copy(update={"taken_back": calls, "stays": stays})
    return _fold_call(run, event)


def _fold_call(run: Run, event: Event) -> Run:
    """Return the run after an event of one of its calls."""
    match event:
        case ApprovalRequested():
            return _with_call(run, event.call_id, status=ToolStatus.AWAITING_APPROVAL)
        case ApprovalDecided():
            decided = {"decision": event.decision, "decided_by": event.by, "reason": event.reason}
            return _with_call(run, event.call_id, status=ToolStatus.PENDING, **decided)
        case ToolRehearsed(rehearsal=rehearsal):
            return _with_call(run, event.call_id, rehearsal=rehearsal)
        case ToolRunning():
            return _with_call(run, event.call_id, status=ToolStatus.RUNNING)
        case ToolEdited(execution=execution) | ToolFinished(execution=execution):
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


Kind = Literal["text", "thinking", "call"]


class OpenMessage:
    """A reply that is streaming in, as far as it has come; it does not change.

    All states of one reply share a list of pieces: joining them at each piece would be quadratic.
    """

    __slots__ = ("_count", "_pieces", "calls", "step", "text_length")

    def __init__(
        self,
        step: int,
        pieces: list[tuple[Kind, str]] | None = None,
        count: int = 0,
        text_length: int = 0,
        calls: tuple[MessageDelta, ...] = (),
    ) -> None:
        self.step = step
        self.text_length = text_length
        """Characters of its text."""
        self._pieces = [] if pieces is None else pieces
        self._count = count
        self.calls = calls
        """The calls that are being written, each as one piece."""

    def add(self, delta: MessageDelta) -> OpenMessage:
        """Return the reply with one piece more."""
        pieces, count, length, calls = self._pieces, self._count, self.text_length, self.calls
        if delta.kind == "call":
            if calls and calls[-1].call == delta.call and calls[-1].name == delta.name:
                delta = delta.model_copy(update={"text": calls[-1].text + delta.text})
                calls = calls[:-1]
            return OpenMessage(self.step, pieces, count, length, (*calls, delta))
        if len(pieces) != count:  # another state has continued from here
            pieces = pieces[:count]
        pieces.append((delta.kind, delta.text))
        length += len(delta.text) if delta.kind == "text" else 0
        return OpenMessage(self.step, pieces, count + 1, length, calls)

    @property
    def is_empty(self) -> bool:
        """True if nothing of it has arrived yet."""
        return self._count == 0 and not self.calls

    def join(self, kind: Literal["text", "thinking"]) -> str:
        """Return all its text, or all its thinking."""
        pieces = self._pieces[: self._count]
        return "".join([text for each, text in pieces if each == kind])


@dataclass(frozen=True)
class Totals:
    """The sums of a run's steps: adding up a long run anew at each event would be quadratic."""

    usage: TokenUsage = NO_TOKENS
    cost_usd: float | None = None
    todos: tuple[Todo, ...] = ()

    @classmethod
    def of(cls, run: Run) -> Totals:
        """Return the sums of all steps."""
        return cls().plus(run.steps)

    def plus(self, steps: tuple[Step, ...]) -> Totals:
        """Return the sums with more steps."""
        spending = [each for step in steps for each in step.spending]
        usage = TokenUsage.sum((self.usage, *map(attrgetter("usage"), spending)))
        cost, todos = self.cost_usd, self.todos
        for each in spending:
            cost = cost if each.cost_usd is None else (cost or 0.0) + each.cost_usd
        for step in steps:
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
            case StepStarted():  # some services number the calls of every reply anew
                return replace(self, asked={}, settled={})
            case ApprovalRequested(call_id=call_id, approval_id=approval_id):
                settled = {call: each for call, each in self.settled.items() if call != call_id}
                return replace(self, asked={**self.asked, call_id: approval_id}, settled=settled)
            case ApprovalDecided(call_id=call_id):
                return replace(self, settled={**self.settled, call_id: True})
            case ToolFinished(execution=execution):
                return replace(self, settled={execution.call.id: False, **self.settled})
            case PlanProposed(approval_id=str(approval_id)):
                return replace(self, plans=(*self.plans, approval_id), plan=approval_id)
            case PlanProposed() | PlanWaiting() | RunStarted() | RunFinished():
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
    earlier = state.totals if isinstance(event, StepStarted) else state.earlier
    if isinstance(event, RunStarted | PlanProposed):
        earlier = None
    outputs, message = state.outputs, advance_message(state.open_message, event)
    if outputs or isinstance(event, ToolOutput):
        outputs = advance_outputs(outputs, event)
    return RunState(run, message, earlier, decisions, outputs)


def advance_message(message: OpenMessage | None, event: Event) -> OpenMessage | None:
    """Return the open message after `event`; None if none is streaming in."""
    match event:
        case MessageStarted(step=step):
            return OpenMessage(step)
        case MessageDelta(step=step):
            return (message or OpenMessage(step)).add(event)
        case MessageFinished() | RunFinished():
            return None
    return message


def advance_outputs(outputs: Mapping[str, str], event: Event) -> Mapping[str, str]:
    """Return the last lines of running calls after `event`."""
    match event:
        case ToolOutput(call_id=call_id, text=text):
            return {**outputs, call_id: text}
        case ToolFinished(execution=execution):
            return {call: text for call, text in outputs.items() if call != execution.call.id}
        case StepStarted() | RunFinished():
            return {}
    return outputs


_OPEN = {ToolStatus.PENDING, ToolStatus.AWAITING_APPROVAL, ToolStatus.RUNNING}


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
