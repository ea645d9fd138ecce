"""A whole run as it is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ipyagent import schema
from ipyagent.plaintext import strip_escapes
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcribe.call import OPEN, CallContext, transcribe_call
from ipyagent.ui.transcribe.call_texts import last_lines, mask_call_arguments, mask_execution
from ipyagent.ui.transcribe.step import (
    CUT_OFF,
    StepContext,
    cost_text,
    count_begun,
    lead_in,
    position_of,
    transcribe_footer,
    transcribe_numbers,
    transcribe_plan,
    transcribe_step,
    transcribe_unsent,
)

WayOn = Literal["continue", "try-again"]

_GO_ON = "`%agent Continue` goes on from here"
_WAYS_ON: Final[dict[WayOn | None, str]] = {
    "continue": f" {_GO_ON}.",
    "try-again": " To try again, run the cell again.",
}
_LIMITS = frozenset(
    {schema.StopReason.MAX_STEPS, schema.StopReason.MAX_SECONDS, schema.StopReason.MAX_TOKENS}
)
_LIMIT = f"Stopped here: the {{}} was reached. {_GO_ON}; {{}} raises it."
_ENDINGS: Final = {
    schema.StopReason.MAX_STEPS: _LIMIT.format("limit of steps", "--max-steps"),
    schema.StopReason.MAX_SECONDS: _LIMIT.format("time limit", "--max-seconds"),
    schema.StopReason.MAX_TOKENS: _LIMIT.format("token limit", "--max-tokens"),
    # To go on would spend more than the user allowed.
    schema.StopReason.MAX_USD: "Stopped here: the cost limit was reached. Raise it with --max-usd.",
    schema.StopReason.TIMEOUT: (
        "Stopped here: one step took too long. Ask for less at once, or raise agent.step_seconds."
    ),
    schema.StopReason.CONTEXT_OVERFLOW: (
        "The conversation no longer fits what this model can read at once. Begin a new one with "
        "`%agent session new`, or ask a model that reads more."
    ),
    schema.StopReason.CONTENT_FILTER: "The model's service withheld the rest of this reply.",
    schema.StopReason.EMPTY: (
        "The model ended without saying anything. Ask again, or ask another model."
    ),
    schema.StopReason.PLANNED: "Planned: nothing was run for it.",
    schema.StopReason.DIFFERS: "The replay came to another result, and stopped.",
    schema.StopReason.UNATTENDED: (
        "A call had to be approved, and nobody could be asked: it was not run."
    ),
    schema.StopReason.DENIED: "You denied this plan: nothing was run.",
    schema.StopReason.INTERRUPTED: "You stopped this run.",
}
"""Why a run did not do all that was asked for, if its error does not say so."""

_TODO_GLYPHS: Final = {
    schema.TodoStatus.PENDING: ("☐", "to do"),
    schema.TodoStatus.IN_PROGRESS: ("▶", "being done"),
    schema.TodoStatus.COMPLETED: ("☑", "done"),
}


@dataclass(frozen=True)
class Live:
    """The current state beside the events: pending and late decisions, the streaming reply."""

    open_message: schema.OpenMessage | None = None
    totals: schema.Totals | None = None
    """The sums of the run's steps, if they are known."""
    approvals: Mapping[str, str] = field(default_factory=dict)
    """The ids of pending approvals, by the ids of their calls."""
    plan_approval: str | None = None
    late: Mapping[str, transcript.Late] = field(default_factory=dict)
    plan_late: transcript.Late | None = None
    retry: transcript.Waiting | None = None
    problem: str = ""
    """Why the user's last text was refused."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """The last lines of running calls, by the ids of the calls."""
    asked_by_children: tuple[transcript.Call, ...] = ()
    """The calls that wait for a decision in the runs that its own calls have begun."""


def transcribe(
    run: schema.Run, live: Live | None = None, *, folds_thoughts: bool = True
) -> transcript.Transcript:
    """Return a run as it is drawn: with `live` while it is on, else as it is saved."""
    return Transcriber(folds_thoughts=folds_thoughts).transcribe(run, live)


class Transcriber:
    """Transcribes a run repeatedly as it continues; unchanged parts are kept.

    `folds_thoughts`: once the run is over, thoughts of less than a second stand in the footer.
    """

    def __init__(self, *, folds_thoughts: bool = True) -> None:
        self._folds_thoughts = folds_thoughts
        self._key: tuple[CallContext, int | None, bool] = (CallContext(), None, False)
        self._earlier: tuple[schema.Step, ...] = ()
        """The steps that later ones follow: they are drawn once."""
        self._drawn: list[transcript.Step] = []
        self._newest: _TranscribedStep | None = None

    def transcribe(self, run: schema.Run, live: Live | None = None) -> transcript.Transcript:
        """Return the run as it is drawn now."""
        is_over = run.is_finished
        answer = _answering(run) if is_over else None
        folds_brief = self._folds_thoughts and is_over and run.verbose < OPEN
        totals = (live and live.totals) or schema.Totals.of(run)
        steps = self._transcribe_steps(run, live, answer, folds_brief)
        is_asked = live and (live.approvals or live.plan_approval or live.asked_by_children)
        state = state_of(run, is_asked=bool(is_asked))
        is_cut_off = live is None and state == "running"  # nobody follows it
        return transcript.Transcript(
            run_id=run.id,
            verbose=run.verbose,
            is_draft=run.status is schema.RunStatus.DRAFT,
            header=_header(run, state, totals, is_cut_off=is_cut_off),
            notes=(*run.notes, *(map(str, run.unmet) if run.expected else ()), *run.stays),
            plan=transcribe_plan(run, *((live.plan_approval, live.plan_late) if live else ()))
            if run.plan
            else None,
            steps=steps,
            todos=transcribe_todos(totals) if totals.todos else (),
            # Before the answer, once it is there; until then at the end.
            todos_at=len(steps) if answer is None else answer,
            ending=_STILL_ON
            if is_cut_off
            else _ending(run, answer)
            if run.error or run.stop_reason
            else None,
            footer=transcribe_footer(run, totals, folds_brief=folds_brief),
            unsent=transcribe_unsent(run) if run.unsent else (),
            say=_say_field(run, live.problem) if live else None,
            replayed=is_over and run.replayed is not None,
        )

    def _transcribe_steps(
        self, run: schema.Run, live: Live | None, answer: int | None, folds_brief: bool
    ) -> tuple[transcript.Step, ...]:
        context = CallContext.of(run, is_live=live is not None)
        earlier, known = run.steps[:-1], len(self._earlier)
        key = context, answer, folds_brief
        if key != self._key or earlier[:known] != self._earlier:
            self._key, self._drawn, self._newest, known = key, [], None, 0
        for index in range(known, len(earlier)):
            self._drawn.append(self._transcribe_step(run, index, None).drawn)
        self._earlier = earlier
        if not run.steps:
            return ()
        self._newest = self._transcribe_step(run, len(earlier), live)
        return (*self._drawn, self._newest.drawn)

    def _transcribe_step(self, run: schema.Run, index: int, live: Live | None) -> _TranscribedStep:
        """Return a step as it is drawn; calls that have not changed since are kept."""
        step, (context, answer, folds_brief), newest = run.steps[index], self._key, self._newest
        message = live.open_message if live else None
        message = message if message and message.step == step.number else None
        around = StepContext(
            context,
            lead_in=lead_in(run, index),
            is_answer=index == answer,
            value_text=run.value_text if index == answer else "",
            numbers=transcribe_numbers(run, index) if index == answer else (),
            folds_brief=folds_brief,
            open_message=message,
            waiting=_waiting(run, step, live, message) if live else None,
        )
        known = newest if newest and newest.index == index else None
        calls = _calls(run, step, context, live, known)
        calls += live.asked_by_children if live else ()
        return _TranscribedStep(index, step, transcribe_step(step, calls, around))


@dataclass(frozen=True)
class _TranscribedStep:
    """A step and its transcript."""

    index: int
    step: schema.Step
    drawn: transcript.Step

    def find(self, index: int, execution: schema.ToolExecution) -> transcript.Call | None:
        """Return the call at that index, if it has not changed."""
        same = index < len(self.step.executions) and self.step.executions[index] is execution
        return self.drawn.calls[index] if same else None


def transcribe_todos(totals: schema.Totals) -> tuple[transcript.Todo, ...]:
    """Return the checklist of a run as it is drawn."""
    return tuple(map(_todo, totals.todos))


def count_tokens_and_cost(totals: schema.Totals) -> list[str]:
    """Return the usage of a run: "5,034 tok", "$0.020"."""
    tokens = totals.usage.total_tokens
    texts = (f"{tokens:,} tok" if tokens else "", cost_text(totals.cost_usd))
    return [*filter(None, texts)]


def state_of(run: schema.Run, *, is_asked: bool = False) -> transcript.State:
    """Return the state of a run; `is_asked` while a call or its plan waits for the user."""
    match run.outcome:
        case schema.Outcome.SUCCESS:
            return "done"
        case schema.Outcome.FAILED:
            return "failed"
        case schema.Outcome.PARTIAL:
            return "cancelled" if run.status is schema.RunStatus.CANCELLED else "partial"
    return "waiting" if is_asked or run.status is schema.RunStatus.DRAFT else "running"


def state_text(run: schema.Run, state: transcript.State) -> str:
    """Return a state in words."""
    if state == "waiting":
        return "waiting for you"
    text = "planned" if state == "done" and run.stop_reason is schema.StopReason.PLANNED else state
    if not run.taken_back:
        return text
    is_whole = not run.stays and {*run.changing_calls} <= {*run.taken_back}
    return f"{text} · {'' if is_whole else 'partly '}taken back"


def model_name(run: schema.Run) -> str:
    """Return the model's id, with a note that the data explorer is not a language model."""
    name = reveal(run.model)
    if run.replayed:
        at = run.replayed.recorded_at.astimezone()
        return f"Replayed · recorded {at.day} {at:%b %Y} with {reveal(run.replayed.model)}"
    return f"{name} (not a language model)" if name.startswith("offline/") else name


def _header(
    run: schema.Run, state: transcript.State, totals: schema.Totals, *, is_cut_off: bool
) -> transcript.Header:
    return transcript.Header(
        model=model_name(run),
        badge="yolo: runs unasked" if run.confirm_mode == "yolo" else "",
        state=state,
        state_text="unfinished" if is_cut_off else state_text(run, state),
        facts=(*_how_far(run), *count_tokens_and_cost(totals))
        if run.status is schema.RunStatus.RUNNING
        else (),
        started_at=run.started_at,
    )


def _how_far(run: schema.Run) -> list[str]:
    if run.plan:
        return [f"step {count_begun(run)}/{len(run.plan)}"]
    if not run.steps:
        return []
    is_closing = run.steps[-1].closing
    requests = len(run.steps) - is_closing
    return [f"step {requests}/{run.max_steps}", *(["closing"] if is_closing else [])]


def _todo(todo: schema.Todo) -> transcript.Todo:
    glyph, text = _TODO_GLYPHS[todo.status]
    doing = todo.status is schema.TodoStatus.IN_PROGRESS and todo.active_form.strip()
    return transcript.Todo(
        status=todo.status.value, glyph=glyph, status_text=text, text=doing or todo.content
    )


_STILL_ON: Final = transcript.Ending(
    title="The run was still on when this was written.", text=CUT_OFF.text
)


def _ending(run: schema.Run, answer: int | None) -> transcript.Ending | None:
    """Return why the run is not all that was asked for; None if it finished or still runs."""
    if run.error:
        title, _, text = strip_escapes(run.error).strip().partition("\n")
        if _lacks_reply(run):
            text += _WAYS_ON[way_on(run)]
        return transcript.Ending(title=title, text=text.strip(), tone="error")
    title = "" if run.stop_reason is None else _ENDINGS.get(run.stop_reason, "")
    if run.stop_reason is schema.StopReason.DENIED and answer is not None:
        title = ""
    finish = run.steps[-1].finish_reason if run.steps else None
    if run.stop_reason is schema.StopReason.MAX_TOKENS and finish == "length":
        title = f"The reply was cut: it reached the model's own limit. {_GO_ON}."
    return transcript.Ending(title=title) if title else None


def way_on(run: schema.Run) -> WayOn | None:
    """Return how to go on after a limit, or a request without a reply; nothing is done twice."""
    if run.stop_reason in _LIMITS:
        return "continue"
    return ("continue" if run.executions else "try-again") if _lacks_reply(run) else None


def _lacks_reply(run: schema.Run) -> bool:
    """Return whether a run failed because its last request got no reply."""
    last = run.steps[-1] if run.steps else None
    has_failed = (run.status, run.stop_reason) == (schema.RunStatus.ERROR, schema.StopReason.ERROR)
    return has_failed and last is not None and not (last.executions or last.finish_reason)


_SAY: Final = transcript.SayField(
    placeholder="Say something to the agent while it works, and press Enter"
)


def _say_field(run: schema.Run, problem: str) -> transcript.SayField | None:
    """Return the field for the user's next text; None for a run without a model to read it."""
    if run.status is not schema.RunStatus.RUNNING or run.plan:
        return None
    return _SAY.model_copy(update={"problem": problem}) if problem else _SAY


def _answering(run: schema.Run) -> int | None:
    """Return the index of the answering step: the last one with text and without calls."""
    for index in reversed(range(len(run.steps))):
        step = run.steps[index]
        message = None if step.executions else step.message
        if message and not message.tool_calls and message.text.strip():
            return index
    return None


def _waiting(
    run: schema.Run, step: schema.Step, live: Live, message: schema.OpenMessage | None
) -> transcript.Waiting | None:
    """Return the wait for the reply, the next try or the first call, while there is only that."""
    begun = step.message is not None or step.finish_reason is not None
    if run.status is not schema.RunStatus.RUNNING or (message and not message.is_empty):
        return None
    if begun:
        is_next = not step.executions and step.message and step.message.tool_calls
        return transcript.Waiting(text="Beginning") if is_next else None
    if live.retry is not None or run.plan:  # a plan asks no model
        return live.retry
    return transcript.Waiting(text="Asking the model")


def list_asked_by(state: schema.RunState) -> Iterator[transcript.Call]:
    """Yield the calls of a delegated task that wait for a decision."""
    run, pending = state.run, state.decisions.pending
    for each in run.steps[-1].executions if run.steps else ():
        if each.call.id in pending:
            context = CallContext.of(run, is_live=True)
            call = transcribe_call(mask_execution(each), context, pending[each.call.id])
            yield call.model_copy(update={"id": f"{run.id}/{call.id}"})


def _calls(
    run: schema.Run,
    step: schema.Step,
    context: CallContext,
    live: Live | None,
    known: _TranscribedStep | None,
) -> tuple[transcript.Call, ...]:
    calls = []
    for index, execution in enumerate(step.executions):
        approval_id = live.approvals.get(execution.call.id) if live else None
        late = live.late.get(execution.call.id) if live else None
        call = known.find(index, execution) if known else None
        kept_approval_id = call.approval.id if call and call.approval else None
        if call is None or (kept_approval_id, call.late) != (approval_id, late):
            masked = mask_execution(execution) if live else mask_call_arguments(execution)
            position = position_of(run, execution)
            call = transcribe_call(masked, context, approval_id, late, position)
        output = live.outputs.get(execution.call.id, "") if live else ""
        if execution.status is schema.ToolStatus.CANCELLED and execution.result:
            output = last_lines(execution.result)
        is_same = call.live == output
        calls.append(call if is_same else call.model_copy(update={"live": output}))
    return tuple(calls)
