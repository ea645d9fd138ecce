"""A run, everything that one prompt led to; and a session of them, across cells and kernels."""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from operator import not_
from typing import Annotated, Any, NoReturn, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    TypeAdapter,
    model_validator,
)

from ipyagent import compat
from ipyagent.errors import RunFailedError
from ipyagent.json_types import JsonDict
from ipyagent.numbers import TracedNumber
from ipyagent.schema.messages import (
    Amount,
    Count,
    Flag,
    ForeignModel,
    ImageContent,
    JsonObject,
    LLMResponse,
    Message,
    Model,
    Moment,
    OrEmpty,
    Role,
    Text,
    TokenUsage,
    ToolCall,
    now,
)
from ipyagent.schema.results import (
    TODOS,
    ChildRun,
    Rehearsal,
    Todo,
    ToolExecution,
    ToolResult,
    ToolStatus,
    VariableChange,
    todos_in,
)
from ipyagent.schema.run_states import (
    INCOMPLETE as INCOMPLETE,
    MOVES as MOVES,
    PAUSED as PAUSED,
    STEPS as STEPS,
    Asked as Asked,
    Expectation as Expectation,
    Outcome as Outcome,
    Replayed as Replayed,
    RunStatus as RunStatus,
    SessionState as SessionState,
    StopReason as StopReason,
    UndoReport as UndoReport,
)
from ipyagent.schema.tables import distinct

TABLES_GONE = (
    "{} of this run's tables {} gone: tables are kept as objects only while the kernel lives, and "
    "for its newest runs. What they looked like is still in the results' `displays` and `output`; "
    "for the objects run the code again."
)


def _refuse(_: Run) -> NoReturn:
    raise RunFailedError("no agent has run in this process")


undo_run: Callable[..., UndoReport] | None = None
"""Takes back a run, or with `dry_run` only says what that would do; set by `wiring`."""
replay_run: Callable[[Run], Run] = _refuse
"""Runs the calls of a run again; set by `wiring`."""
freeze_run: Callable[[Run], list[JsonDict]] = _refuse
"""Returns a run as plain cells; set by `wiring`."""


MAX_ARGUMENT = 200
"""Characters of one argument in the summary for scripts."""


class PlanStep(ForeignModel):
    """One call of a plan that the user approves as a whole.

    `code` is what it would run, where its arguments only name that.
    """

    call: ToolCall
    note: Text = ""
    code: Text = Field(default="", exclude_if=not_)

    _convert = compat.convert_plan_step


class UserText(Model):
    """A text that the user added while the run was on."""

    id: str
    text: Text


UserTexts = Annotated[tuple[UserText, ...], Field(exclude_if=not_)]


def _with_reply(*, llm_response: object, timestamp: object = None, **data: object) -> JsonDict:
    """Return a step with the content of its model's reply, which was given at `timestamp`."""
    reply = LLMResponse.model_validate(llm_response)
    message = reply.message
    if message and timestamp is not None:
        message = Message.model_validate(dict(message) | {"timestamp": timestamp})
    fields = ("finish_reason", "usage", "cost_usd")
    return data | {key: getattr(reply, key) for key in fields} | {"message": message}


def _step_data(data: JsonDict) -> object:
    return compat.convert_step(_with_reply(**data) if "llm_response" in data else data)


class Step(ForeignModel):
    """One request to the model and the calls in its reply.

    A `closing` step is the graceful end of a run whose budget is spent: an answer without tools.
    `user_texts` went to the model with this request.
    """

    number: Count = Field(validation_alias=AliasChoices("number", "step_number"))
    closing: Flag = False
    message: Message | None = None
    finish_reason: Text | None = None
    usage: TokenUsage = TokenUsage()
    cost_usd: Amount | None = None
    thinking_seconds: Amount | None = None
    executions: tuple[ToolExecution, ...] = ()
    notes: tuple[Text, ...] = ()
    user_texts: UserTexts = ()

    _convert = _step_data

    @property
    def spending(self) -> tuple[Step | ChildRun, ...]:
        """Everything that spent tokens: the reply, and the runs that its calls began."""
        begun = [each.result.child for each in self.executions if each.result]
        return (self, *filter(None, begun))


def find_todos(step: Step) -> tuple[Todo, ...] | None:
    """Return the newest checklist of a step; None if it has none."""
    for execution in reversed(step.executions):
        if execution.call.name == TODOS and execution.status is ToolStatus.SUCCESS:
            return todos_in(execution.call.arguments)
    return None


def _with_answer(*, final_output: object, steps: object = (), **data: object) -> JsonDict:
    """Return a run with a separate answer: if no step gave it, a closing step does."""
    done = [Step.model_validate(each) for each in compat.require_list(steps, "steps")]
    texts = [step.message.text for step in done if step.message]
    if final_output and final_output not in texts:
        message = {"role": Role.ASSISTANT, "content": final_output}
        done.append(
            Step.model_validate({"number": len(done) + 1, "closing": True, "message": message})
        )
    if "run_id" not in data:
        data.setdefault("id", uuid.uuid4().hex)
    if data.get("status") != RunStatus.RUNNING and "start_time" in data:
        data.setdefault("duration", _seconds(data["start_time"], done))
    return data | {"steps": tuple(done)}


_MOMENT = TypeAdapter[datetime](Moment)


def _seconds(start: object, steps: Iterable[Step]) -> float | None:
    """Return the seconds from the start to the last moment that the steps know of."""
    known = [e.started_at for step in steps for e in step.executions if e.started_at]
    known += [step.message.timestamp for step in steps if step.message and not step.closing]
    if not known:
        return None
    return max(0.0, (max(known) - _MOMENT.validate_python(start)).total_seconds())


def _run_data(data: JsonDict) -> object:
    data.pop("offers", None)  # of a page, which draws it: `ipyagent.ui.static_html`
    data = compat.convert_run(data)
    return _with_answer(**data) if "final_output" in data else data


class Run(ForeignModel):
    """Everything that one prompt led to: every step, every call, and the outcome.

    `agent` is the profile that answered, `parent_id` the run within which this one was begun,
    `verbose` how much of it is expanded (0 to 3), `window` how many tokens its model reads at once,
    or 0.
    """

    id: str = Field(validation_alias=AliasChoices("id", "run_id"))
    session_id: str = Field(default="", validation_alias=AliasChoices("session_id", "chat_id"))
    trace_id: str = ""
    parent_id: str | None = None
    cell_id: str | None = None
    """The notebook's cell that asked, if known."""
    agent: str | None = None
    prompt: Text = Field(default="", validation_alias=AliasChoices("prompt", "goal"))
    context: Text = ""
    read: tuple[Text, ...] = Field(default=(), exclude_if=not_)
    """The files whose contents stand in the context."""
    model: OrEmpty = ""
    asked: Asked | None = Field(default=None, exclude_if=not_)
    """The cell's request, under which a replay finds the run; None for runs of no cell."""
    replayed: Replayed | None = Field(default=None, exclude_if=not_)
    """The run of which this one is a replay."""
    confirm_mode: str = ""
    max_steps: Count = 0
    window: Count = Field(default=0, exclude_if=not_)
    verbose: Count = 0
    plan_id: str | None = None
    plan: tuple[PlanStep, ...] = ()
    rehearsals: tuple[Rehearsal | None, ...] = Field(default=(), exclude_if=not_)
    """The effects of the plan's steps on a copy of the kernel; None for those that are no code."""
    current_step_path: str | None = None
    last_event: str | None = None
    status: RunStatus = RunStatus.RUNNING
    stop_reason: StopReason | None = None
    error: Text | None = None
    value: Any = Field(default=None, exclude=True, repr=False)
    """The answer as an instance of the type that was asked for; not in a run that was loaded."""
    value_text: Text = Field(default="", exclude_if=not_)
    """The same as Python writes it."""
    numbers: tuple[TracedNumber, ...] = Field(default=(), exclude_if=not_)
    """The numbers of the answer, each looked up in what the model had read."""
    steps: tuple[Step, ...] = ()
    notes: tuple[Text, ...] = ()
    expected: tuple[Expectation, ...] = Field(default=(), exclude_if=not_)
    """The cell's expectations, once the run has ended."""
    unsent: UserTexts = ()
    """Texts that wait for the next request, or that no request took before the run ended."""
    taken_back: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The ids of the calls that the user has taken back."""
    stays: tuple[Text, ...] = Field(default=(), exclude_if=not_)
    """The part of them that could not be taken back."""
    children: tuple[Run, ...] = Field(default=(), exclude_if=not_, repr=False)
    """The runs that its calls began, of a run that was saved for replays elsewhere."""
    started_at: Moment = Field(
        default_factory=now, validation_alias=AliasChoices("started_at", "start_time")
    )
    duration: Amount | None = None

    _convert = _run_data

    def move(self, status: RunStatus) -> Self:
        """Return the run in its next status; raises ValueError for an illegal transition."""
        if status not in MOVES[self.status]:
            raise ValueError(f"a run that is {self.status} cannot become {status}")
        return self.model_copy(update={"status": status})

    @property
    def is_finished(self) -> bool:
        """True if the status is final."""
        return not MOVES[self.status]

    @property
    def current_step(self) -> int:
        """The number of requests to the model."""
        return len(self.steps)

    @property
    def total_tool_calls(self) -> int:
        """The number of calls in all steps."""
        return len(self.executions)

    @property
    def outcome(self) -> Outcome:
        """`success`, `partial` or `failed`; `running` until the run has ended."""
        if self.status is RunStatus.ERROR:
            return Outcome.FAILED
        if self.status is RunStatus.CANCELLED:
            return Outcome.PARTIAL
        if self.status is not RunStatus.DONE:
            return Outcome.RUNNING
        done = self.stop_reason in (StopReason.FINISHED, StopReason.PLANNED)
        return Outcome.SUCCESS if done else Outcome.PARTIAL

    @property
    def output(self) -> str:
        """The answer: the text of the last reply that had any, after what it continues, or ""."""
        answer, is_new_turn = "", False
        for step in reversed(self.steps):
            is_continued = step.finish_reason in INCOMPLETE and not step.executions
            if answer and (is_new_turn or not is_continued):
                break
            text = step.message.text if step.message else ""
            answer = text + answer if text.strip() else answer
            is_new_turn = bool(step.user_texts)
        return answer

    @property
    def executions(self) -> tuple[ToolExecution, ...]:
        """All calls of all steps, in order."""
        return tuple([e for step in self.steps for e in step.executions])

    def undo(self, *, dry_run: bool = False) -> UndoReport:
        """Take back what it changed in variables, files and cells; `dry_run`: only say what.

        Printing the result tells what went back and what did not. Raises AgentError if agents are
        running.
        """
        return undo_run(self, dry_run=dry_run) if undo_run else UndoReport()

    def replay(self) -> Run:
        """Run its calls again, without a model; return the new run. Raises AgentError."""
        return replay_run(self)

    def to_cells(self) -> list[JsonDict]:
        """Return it as cells of a notebook (`nbformat`) that need no ipyagent. Raises AgentError.

        They hold the code that led to its variables, figures, files and the numbers of its answer.
        """
        return freeze_run(self)

    @property
    def changing_calls(self) -> tuple[str, ...]:
        """The ids of the calls that changed variables, files or cells."""
        return tuple(each.call.id for each in self.executions if each.has_changes)

    @property
    def variables(self) -> tuple[VariableChange, ...]:
        """The changes of variables, in the order of the calls that made them."""
        return tuple(change for result in self.results for change in result.variables)

    @property
    def texts_read(self) -> list[tuple[str, str]]:
        """The texts that the model read: results after the ids of their calls, others after ""."""
        said = (each.text for step in self.steps for each in step.user_texts)
        results = ((e.call.id, e.result.text_for_model) for e in self.executions if e.result)
        return [("", "\n".join((self.prompt, self.context, *said))), *results]

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The newest checklist."""
        found = (find_todos(step) for step in reversed(self.steps))
        return next((todos for todos in found if todos is not None), ())

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of all calls, in order."""
        return tuple(e.result for e in self.executions if e.result is not None)

    @property
    def images(self) -> tuple[ImageContent, ...]:
        """All images of tools, in order."""
        return tuple(image for result in self.results for image in result.images)

    @property
    def figures(self) -> tuple[ImageContent, ...]:
        """The images again, each of which shows itself in a notebook."""
        return self.images

    @property
    def frames(self) -> tuple[object, ...]:
        """The tables that results displayed or returned, as live objects, in order, each once.

        Warns of those that are gone: a run that was loaded has none.
        """
        if gone := sum(result.tables - len(result.frames) for result in self.results):
            verb = "is" if gone == 1 else "are"
            warnings.warn(TABLES_GONE.format(gone, verb), stacklevel=2)
        return distinct(each for result in self.results for each in result.frames)

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all steps together."""
        return TokenUsage.sum(each.usage for step in self.steps for each in step.spending)

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all steps together; None if no price is known."""
        costs = (each.cost_usd for step in self.steps for each in step.spending)
        known = [each for each in costs if each is not None]
        return sum(known) if known else None

    cost = cost_usd

    @property
    def unmet(self) -> tuple[Expectation, ...]:
        """The expectations of its cell that do not hold."""
        return tuple([each for each in self.expected if each.found])

    def raise_for_outcome(self) -> None:
        """Raise RunFailedError unless the run was a success, and as its cell expects."""
        if self.outcome is not Outcome.SUCCESS:
            ended = f"the run ended as {self.outcome}: {self.stop_reason}"
            raise RunFailedError(self.error or ended)
        if self.unmet:
            raise RunFailedError("\n".join(map(str, self.unmet)))

    def to_output_dict(self) -> JsonDict:
        """Return a JSON-ready summary for scripts: status, output, tools used, duration, model.

        For a call that was only checked, in a dry run or for a plan, `success` is None, or False if
        it was refused.
        """
        return {
            "status": str(self.outcome),
            "plan_id": self.plan_id,
            "notes": list(self.notes),
            "stop_reason": str(self.stop_reason) if self.stop_reason else None,
            "dry_run": any(e.dry_run for e in self.executions),
            "output": self.output,
            "numbers": [asdict(each) for each in self.numbers],
            "error": self.error,
            "expected": [each.to_dict() for each in self.expected],
            "steps": len(self.steps),
            "tools_used": [
                {
                    "name": e.call.name,
                    "args": {key: _in_part(value) for key, value in e.call.arguments.items()},
                    "success": _success(e),
                    "error": e.result.error if e.result else None,
                    **({"dry_run": True} if e.dry_run else {}),
                }
                for e in self.executions
            ],
            "usage": self.usage.to_dict(),
            "cost_usd": self.cost_usd,
            "duration_seconds": self.duration,
            "model": self.model,
            "trace_id": self.trace_id,
        }


def _success(execution: ToolExecution) -> bool | None:
    succeeded = bool(execution.result and execution.result.success)
    return None if succeeded and execution.dry_run else succeeded


def _in_part(value: object) -> object:
    """Return an argument, long text or data cut to the beginning."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= MAX_ARGUMENT else text[:MAX_ARGUMENT] + "…"


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


CLOCK_SKEW = timedelta(seconds=5)


def _uuid(value: object) -> str:
    if not isinstance(value, (str, uuid.UUID)):
        raise ValueError("the id of a session is a UUID")
    return str(uuid.UUID(str(value)))


def _past(moment: datetime) -> datetime:
    if moment > now() + CLOCK_SKEW:
        raise ValueError("started_at is in the future")
    return moment


class Session(Model):
    """A session's record. `messages` is filled for export; the journal has the events.

    `origin` names the session, and its node, from which this one was branched.
    """

    id: Annotated[str, BeforeValidator(_uuid)] = Field(
        default_factory=lambda: str(uuid.uuid4()),
        validation_alias=AliasChoices("id", "session_id"),
    )
    name: Text = ""
    state: SessionState = SessionState.INITIALIZING
    started_at: Annotated[Moment, AfterValidator(_past)] = Field(default_factory=now)
    messages: tuple[Message, ...] = Field(
        default=(), validation_alias=AliasChoices("messages", "history")
    )
    metadata: JsonObject = Field(default_factory=dict)
    origin: tuple[str, str] | None = None
    pending_run_id: str | None = None
    active_run_id: str | None = None
    last_run_id: str | None = None
    last_run_status: RunStatus | None = None
    last_run_at: Moment | None = Field(
        default=None, validation_alias=AliasChoices("last_run_at", "last_run_ts")
    )

    @model_validator(mode="wrap")
    @classmethod
    def _accept(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        data = compat.convert_session(dict(data)) if isinstance(data, Mapping) else data
        if not isinstance(data, Mapping) or "message_count" not in data:
            return handler(data)
        count = TypeAdapter(Count).validate_python(data["message_count"])
        session = handler({key: data[key] for key in data if key != "message_count"})
        if {"messages", "history"} & data.keys() and count != session.message_count:
            raise ValueError(
                f"message_count is {count}, but there are {session.message_count} messages"
            )
        return session

    @property
    def message_count(self) -> int:
        """The number of prompts and answers, without context, summaries and reminders."""
        return sum(not message.synthetic for message in self.messages)

    def move(self, state: SessionState) -> Self:
        """Return the session in its next state; raises ValueError for an illegal transition."""
        if state not in STEPS[self.state]:
            raise ValueError(f"a session that is {self.state} cannot become {state}")
        return self.model_copy(update={"state": state})
