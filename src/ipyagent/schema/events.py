"""The closed union of events: the agent loop's only output.

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
"""

from __future__ import annotations

from operator import not_
from typing import Annotated, Literal

from pydantic import Field

from ipyagent.schema.messages import Amount, Count, Flag, LazyModel, Message, Text, TokenUsage
from ipyagent.schema.results import DecidedBy, Decision, Rehearsal, ToolDefinition, ToolExecution
from ipyagent.schema.runs import Run, RunStatus, StopReason, UserText, UserTexts


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
    """A piece of the reply."""

    type: Literal["message_delta"] = "message_delta"
    step: Count
    kind: Literal["text", "thinking"]
    text: str


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
    """A run ended; `value` is its answer as an instance of the type that was asked for."""

    type: Literal["run_finished"] = "run_finished"
    status: RunStatus
    stop_reason: StopReason
    error: Text | None = None
    duration: Amount
    value: object = Field(default=None, exclude=True, repr=False)
    value_text: Text = Field(default="", exclude_if=not_)


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
