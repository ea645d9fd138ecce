"""A step and a plan as they are drawn, and the ending of a run whose kernel is gone.

The journal will give that run the same end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ipyagent import schema
from ipyagent.numbers import TracedNumber
from ipyagent.plaintext import dollars, plural, seconds
from ipyagent.schema.runs import never_ran, plan_index, progress
from ipyagent.ui import transcript
from ipyagent.ui.reveal import reveal, shorten
from ipyagent.ui.transcribe.call import (
    ALL,
    APPROVE,
    COUNTED,
    DENY,
    GLYPHS,
    OPEN,
    CallContext,
    transcribe_rehearsal,
)
from ipyagent.ui.transcribe.call_texts import (
    SUMMARY,
    mask_plan,
    transcribe_image,
    transcribe_planned,
)
from ipyagent.ui.transcribe.gist import title_planned

SENT, WAITS = "You said", "Goes with the next request"
UNSENT: Final = "Not sent: the run ended first"


@dataclass(frozen=True)
class StepContext:
    """The parts of the run and its live state that a step's words depend on."""

    calls: CallContext
    lead_in: str = ""
    is_answer: bool = False
    value_text: str = ""
    """The answer as Python writes it, if it has a type."""
    numbers: tuple[transcript.AnswerNumber, ...] = ()
    folds_brief: bool = False
    """True if a thought of less than a second stands behind the footer."""
    open_message: schema.OpenMessage | None = None
    waiting: transcript.Waiting | None = None


def transcribe_step(
    step: schema.Step, calls: tuple[transcript.Call, ...], context: StepContext
) -> transcript.Step:
    """Return a step as it is drawn, with its `calls`."""
    message, streaming = step.message, context.open_message
    text = streaming.join("text") if streaming else message.text if message else ""
    blocks = message.content if message else ()
    is_folded = context.folds_brief and is_brief(step)
    return transcript.Step(
        number=step.number,
        user_texts=transcribe_user_texts(step.user_texts, SENT) if step.user_texts else (),
        notes=(context.lead_in, *step.notes) if context.lead_in else step.notes,
        waiting=context.waiting,
        thinking=None
        if is_folded
        else transcribe_thinking(step, context.open_message, is_open=context.calls.verbose >= OPEN),
        text=_fence(context.value_text) if context.value_text else text if text.strip() else "",
        is_streaming=streaming is not None,
        is_answer=context.is_answer,
        numbers=context.numbers,
        images=tuple(
            [
                transcribe_image(block, "Figure from the model")
                for block in blocks
                if isinstance(block, schema.ImageContent)
            ]
        ),
        written=tuple(
            [
                transcript.Fold(title=f"Writing {reveal(each.name)}", text=each.text)
                for each in streaming.calls
            ]
        )
        if streaming
        else (),
        calls=calls,
        facts=step_facts(step, context.calls.verbose) if context.calls.verbose >= COUNTED else "",
    )


def transcribe_numbers(run: schema.Run, index: int) -> tuple[transcript.AnswerNumber, ...]:
    """Return the numbers of an answer by their places in its last step, which has that index."""
    message = run.steps[index].message
    begin = len(run.output) - len(message.text if message else "")
    calls = {e.call.id: (step, e) for step in run.steps for e in step.executions}

    def say_source(number: TracedNumber) -> str:
        if number.trace == "not found":
            return "in no result"
        place = say_place(number) if number.source in calls else ""
        if number.formula:
            return f"= {number.formula}{place and f' ({place})'}"
        if not number.source:
            return "in a prompt, or in what was sent with it"
        if not place:
            return f"in an earlier result, line {number.line}"
        _, execution = calls[number.source]
        lines = execution.result.text_for_model.split("\n") if execution.result else []
        text = "".join(lines[max(0, number.line - 1) : number.line])
        return f"{place}: {shorten(text, SUMMARY)}"

    def say_place(number: TracedNumber) -> str:
        """Return the call and the line."""
        step, execution = calls[number.source]
        nth = f", call {find_call(number)[1]}" if len(step.executions) > 1 else ""
        return f"{execution.call.name}, step {step.number}{nth}, line {number.line}"

    def find_call(number: TracedNumber) -> tuple[int, int]:
        """Return the numbers of the step and of the call in it; 0 without one."""
        if number.trace == "not found" or number.source not in calls:
            return 0, 0
        step, execution = calls[number.source]
        return step.number, step.executions.index(execution) + 1

    def transcribe_number(number: TracedNumber) -> transcript.AnswerNumber:
        step, call = find_call(number)
        return transcript.AnswerNumber(
            start=number.start - begin,
            text=number.text,
            trace=number.trace,
            title=say_source(number),
            step=step,
            call=call,
        )

    found = (each for each in run.numbers if each.start >= begin and not run.value_text)
    return tuple(map(transcribe_number, found))


def _fence(code: str) -> str:
    """Return Markdown that shows Python as it is."""
    ticks = "`" * (1 + max([2, *map(len, re.findall("`+", code))]))
    return f"{ticks}python\n{code}\n{ticks}"


def transcribe_user_texts(
    texts: Iterable[schema.UserText], label: str
) -> tuple[transcript.UserText, ...]:
    """Return texts that the user added while the run was on; `label` says what became of them."""
    return tuple([transcript.UserText(id=each.id, label=label, text=each.text) for each in texts])


def transcribe_unsent(run: schema.Run) -> tuple[transcript.UserText, ...]:
    """Return the texts that wait, or that no request took before the run ended."""
    return transcribe_user_texts(
        run.unsent, WAITS if run.status is schema.RunStatus.RUNNING else UNSENT
    )


def lead_in(run: schema.Run, index: int) -> str:
    """Return why the model was asked again without a new message or result, or ""."""
    step, before = run.steps[index], run.steps[index - 1] if index else None
    if run.plan or (step.user_texts and not step.closing):
        return ""
    if step.closing:
        return "The budget is spent: the model was asked to come to an end."
    cut = before and before.finish_reason in schema.INCOMPLETE and not before.executions
    return "The reply was cut: the model was asked to continue." if cut else ""


def thinking_title(value: float | None) -> str:
    """Return the heading of thinking with its duration: "Thinking (3 s)"."""
    if value is None:
        return "Thinking"
    return f"Thinking ({'<1' if value < 1 else round(value)} s)"


def transcribe_thinking(
    step: schema.Step, streaming: schema.OpenMessage | None = None, *, is_open: bool = False
) -> transcript.Fold | None:
    """Return the model's thinking as it is drawn, or None."""
    message = step.message
    text = streaming.join("thinking") if streaming else message.thinking if message else ""
    if not text.strip():
        return None
    title = "Thinking…" if streaming else thinking_title(step.thinking_seconds)
    return transcript.Fold(title=title, text=text, is_open=is_open)


def is_brief(step: schema.Step) -> bool:
    """Return whether the model thought for less than a second."""
    return step.thinking_seconds is not None and step.thinking_seconds < 1


def transcribe_footer(
    run: schema.Run, totals: schema.Totals, *, folds_brief: bool
) -> transcript.Footer:
    """Return how long a run took, and what is folded behind that."""
    facts = (usage_text(totals.usage), _context_share(run), cost_text(totals.cost_usd))
    folds = (_context(run), _brief_thoughts(run) if folds_brief else None)
    return transcript.Footer(
        duration="" if run.duration is None else seconds(run.duration),
        numbers=_count_unfound(run) if run.numbers else "",
        folds=tuple(filter(None, folds)),
        facts=tuple(filter(None, facts)),
        trace_id=reveal(run.trace_id),
    )


def _context_share(run: schema.Run) -> str:
    """Return how much of what the model reads at once the conversation takes; "" if unknown."""
    for step in reversed(run.steps if run.window else ()):
        if used := step.usage.total_tokens:
            return f"context {used / run.window:.0%} full"
    return ""


def _count_unfound(run: schema.Run) -> str:
    count = sum(each.trace == "not found" for each in run.numbers)
    verb = "is" if count == 1 else "are"
    return f"{plural(count, 'number')} {verb} in no result" if count else ""


def _context(run: schema.Run) -> transcript.Fold | None:
    """Return the context added to the prompt; None while a plan has not run."""
    if not run.context or (run.plan and never_ran(run)):
        return None
    title = "Told to the model" if run.plan else "Sent with your prompt"
    return transcript.Fold(title=title, text=run.context, is_open=run.verbose >= COUNTED)


def _brief_thoughts(run: schema.Run) -> transcript.Fold | None:
    """Return the thoughts that took less than a second, by step."""
    brief = ((each.number, transcribe_thinking(each)) for each in run.steps if is_brief(each))
    text = "\n\n".join(f"Step {number}: {fold.text.strip()}" for number, fold in brief if fold)
    return transcript.Fold(title="Thought for less than a second", text=text) if text else None


def cost_text(cost_usd: float | None) -> str:
    """Return a price; "" for none that is known."""
    return "" if cost_usd is None else dollars(cost_usd)


def usage_text(usage: schema.TokenUsage) -> str:
    """Return the tokens in and out, and the share of the provider's cache."""
    if not usage.total_tokens:
        return ""
    read, made = usage.cache_read_tokens, usage.cache_creation_tokens
    parts = [f"{read:,} from cache" if read else "", f"{made:,} to cache" if made else ""]
    cache = ", ".join(part for part in parts if part)
    cache = f" ({cache})" if cache else ""
    return f"{usage.prompt_tokens:,} tokens in{cache}, {usage.completion_tokens:,} out"


def step_facts(step: schema.Step, verbose: int) -> str:
    """Return one step's usage and finish reason."""
    took = sum(e.duration or 0.0 for e in step.executions)
    reason = reveal(step.finish_reason or "") if verbose >= ALL else ""
    parts = [
        f"step {step.number}",
        usage_text(step.usage),
        cost_text(step.cost_usd),
        f"thinking {seconds(step.thinking_seconds)}" if step.thinking_seconds else "",
        f"tools {seconds(took)}" if took else "",
        f"finish reason {reason}" if reason else "",
    ]
    return " · ".join(part for part in parts if part)


CUT_OFF: Final = transcript.Ending(
    title="The kernel was restarted or stopped: this run is unfinished.",
    text="Load ipyagent again (%load_ext ipyagent) to see what was recorded of it.",
    tone="error",
)


def transcribe_plan(
    run: schema.Run,
    approval_id: str | None = None,
    late: transcript.Late | None = None,
    *,
    is_whole: bool = False,
) -> transcript.Plan | None:
    """Return a run's plan as it is drawn: whole with `is_whole`, to decide on, else masked.

    `approval_id` is "" for a plan that can be decided on while no cell asks about it.
    """
    if not run.plan:
        return None
    is_asked = approval_id is not None
    steps = run.plan if is_whole or is_asked else mask_plan(run.plan)
    states = progress(run)
    is_waiting = run.status is schema.RunStatus.DRAFT
    rehearsals = run.rehearsals if is_waiting and run.rehearsals else (None,) * len(steps)
    return transcript.Plan(
        goal=shorten(run.prompt, SUMMARY),
        title=f"Plan · {plural(len(run.plan), 'step')}",
        hash=reveal(run.plan_id or ""),
        steps=tuple(map(partial(_step, run), steps, states, rehearsals)),
        hint=_hint(run),
        approval=None if approval_id is None else _approval(approval_id),
        late=late,
    )


def count_begun(run: schema.Run) -> int:
    """Return the number of steps that have begun."""
    places = {plan_index(run, execution.call.id) for execution in run.executions}
    return len(places - {None})


def position_of(run: schema.Run, execution: schema.ToolExecution) -> str:
    """Return the plan's step that a call carries out, as "step 2/5"; "" for other calls."""
    index = plan_index(run, execution.call.id) if run.plan else None
    return "" if index is None else f"step {index + 1}/{len(run.plan)}"


def _step(
    run: schema.Run,
    step: schema.PlanStep,
    status: schema.ToolStatus,
    rehearsal: schema.Rehearsal | None,
) -> transcript.PlanStep:
    glyph, status_text = GLYPHS[status]
    left_out = run.is_finished and status is schema.ToolStatus.PENDING
    lines = (line.strip() for line in reveal(step.note).split("\n"))
    return transcript.PlanStep(
        id=step.call.id,
        name=step.call.name,
        status=status,
        glyph=glyph,
        status_text=status_text,
        title=title_planned(step.call),
        note=step.note,
        notes=tuple(line for line in lines if line),
        verdict="not run" if left_out else "",
        request=transcribe_planned(step),
        effects=transcribe_rehearsal(rehearsal, step.call.name) if rehearsal else None,
        # A plan to approve is shown in full.
        is_open=run.status is schema.RunStatus.DRAFT,
    )


def _hint(run: schema.Run) -> str:
    """Return how to decide on a waiting plan; "" for others, or if a note says so already."""
    name = run.plan_id or run.id
    is_in_notes = any(f"`%agent approve {name}`" in note for note in run.notes)
    if run.status is not schema.RunStatus.DRAFT or is_in_notes:
        return ""
    return f"This plan waits for `%agent approve {reveal(name)}` or `%agent deny {reveal(name)}`."


def _approval(approval_id: str) -> transcript.Approval:
    choices = (APPROVE, DENY)
    return transcript.Approval(id=approval_id, question="May this plan run?", choices=choices)
