"""Stories in which everything happens once; `python rich_run.py` writes them for the front end.

`labextension/src/__tests__/fixtures` holds what a page is told of a run and of a plan.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from ipyagent import schema as s
from ipyagent.agent.approvals import Approvals
from ipyagent.json_types import JsonDict
from ipyagent.ui import static_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.live_blocks import LiveBlocks
from ipyagent.ui.transcribe import Live, transcribe
from ipyagent.ui.transcript import Transcript

FIXTURES = Path(__file__).parents[2] / "labextension/src/__tests__/fixtures"
WHEN = datetime(2025, 3, 1, 9, 30, tzinfo=UTC)

CODE = """\
import pandas as pd

# Revenue by region and quarter.
by_region = sales.groupby(["region", "quarter"])["revenue"].sum().unstack()
by_region.plot.bar(title="Revenue by region")
by_region.round(1)
"""

TABLE = """\
<style scoped>.dataframe td { color: red }</style>
<table border="1" class="dataframe"><thead><tr><th></th><th>Q1</th><th>Q2</th><th>Q3</th></tr>
</thead><tbody>
<tr><th>North</th><td>120.4</td><td>131.9</td><td>84.2</td></tr>
<tr><th>South</th><td>98.0</td><td>99.1</td><td>101.7</td></tr>
<tr><th>West</th><td>143.5</td><td>140.2</td><td>139.8</td></tr>
</tbody></table><p>3 rows × 3 columns</p>"""

DIFF = """\
--- a/notes/q3.md
+++ b/notes/q3.md
@@ -1,3 +1,4 @@
 # Q3
-Revenue fell in all regions.
+Revenue fell in the North only, by 36 %.
+South and West held.
 Source: sales.csv
"""

ANSWER = """\
Revenue fell in Q3 because of **one region**: the North lost 36 % against Q2.

| region | Q2 | Q3 | change |
|:--|--:|--:|--:|
| North | 131.9 | 84.2 | −36 % |
| South | 99.1 | 101.7 | +3 % |
| West | 140.2 | 139.8 | 0 % |

1. The drop begins in the week of *18 August*.
2. `unit_price` did not change; `units` did.

```python
sales.query("region == 'North'").groupby("week")["units"].sum().plot()
```

See the [method](https://example.org/method).
"""


@functools.cache
def figure() -> str:
    """A small bar chart as base64 PNG, the same bytes every time."""
    image = Image.new("P", (360, 160), 3)
    image.putpalette([76, 120, 168, 158, 202, 233, 245, 133, 24, 255, 255, 255])
    draw = ImageDraw.Draw(image)
    for i, height in enumerate((84, 92, 59, 69, 69, 71, 100, 98, 97)):
        left = 30 + i * 34 + i // 3 * 8
        draw.rectangle((left, 140 - height, left + 26, 140), i % 3)
    buffer = io.BytesIO()
    # Stored, not compressed: compression differs between versions of zlib.
    image.save(buffer, "PNG", bits=2, compress_level=0)
    return base64.b64encode(buffer.getvalue()).decode()


LOOK = s.ToolDefinition(
    name="inspect_variable",
    description="Look at a variable.",
    input_schema={"type": "object", "properties": {"name": {"type": "string"}}},
)


def call(call_id: str, tool: str, /, **arguments: object) -> s.ToolCall:
    """One call of a tool."""
    return s.ToolCall(id=call_id, name=tool, arguments=arguments)


INSPECT = s.ToolExecution(call=call("c1", "inspect_variable", name="sales"), source="sales.csv")
QUESTION = "Which year counts as the year before?"
ASK = s.ToolExecution(
    call=call("c8", "ask_user", question=QUESTION, choices=["2023", "2024"]),
    question=s.Question(text=QUESTION, choices=("2023", "2024")),
)
TODOS = s.ToolExecution(
    call=call(
        "c9",
        "todo_write",
        todos=[
            {"content": "Look at the data", "status": "completed"},
            {"content": "Plot it", "status": "in_progress", "activeForm": "Plotting it"},
            {"content": "Write it down"},
        ],
    )
)
PLOT = s.ToolExecution(
    call=call("c2", "run_python", code=CODE),
    sensitive=True,
    concern="this conversation has read sales.csv",
    scopes=(s.Scope.SESSION, s.Scope.FOLDER),
    preview=s.Preview(kind="code", text=CODE, language="python"),
)
REHEARSED = s.Rehearsal(
    outcome=s.RehearsalOutcome.CHANGES,
    variables=(
        s.VariableChange(
            name="sales", change="changed", type="DataFrame", summary="+ margin\u202e (float64)"
        ),
    ),
    files=(s.FileEffect(path="q3.png", change="created"),),
    texts=("tried to open a connection: refused",),
    result=s.ToolResult(output="quarter     Q1     Q2     Q3"),
    duration=0.1,
)
EDIT = s.ToolExecution(
    call=call(
        "c3", "edit_file", path="notes/q3.md", old_string="fell", new_string="fell, \u202eoh"
    ),
    sensitive=True,
    preview=s.Preview(kind="diff", text=DIFF, language="diff"),
)
WIDE = s.ToolExecution(call=call("c4", "delete_file", path="*.csv"), sensitive=True)
DELETE = s.ToolExecution(
    call=call("c4", "delete_file", path="old.csv"),
    proposed={"path": "*.csv"},
    sensitive=True,
    preview=s.Preview(kind="arguments", text='{"path": "old.csv"}', language="json"),
)
SEARCH = s.ToolExecution(call=call("c5", "search_files", query="Q3", path="reports"))
SHELL = s.ToolExecution(call=call("c6", "run_shell", command="sleep 60"), dry_run=True)
FETCH = s.ToolExecution(call=call("c7", "api_crm_export", quarter="Q3"))


def message(text: str, *calls: s.ToolCall, thinking: str = "") -> s.Message:
    """A finished reply."""
    thought = (s.ThinkingContent(thinking=thinking, signature="sig"),) if thinking else ()
    said = (s.TextContent(text=text),) if text else ()
    return s.Message(role=s.Role.ASSISTANT, content=(*thought, *said, *calls), timestamp=WHEN)


def finished(execution: s.ToolExecution, result: s.ToolResult, **changes: object) -> s.ToolFinished:
    """The end of a call."""
    status = s.ToolStatus.SUCCESS if result.success else s.ToolStatus.FAILED
    update = {"status": status, "result": result, "started_at": WHEN, "duration": 0.25, **changes}
    return s.ToolFinished(step=1, execution=execution.model_copy(update=update))


def events() -> Iterator[s.Event]:
    """All events of the run, every kind and every way a call can end."""
    yield s.RunStarted(
        run=s.Run(
            id="run-1",
            session_id="session-1",
            trace_id="trace-1",
            prompt="Why did revenue drop in Q3? Plot it by region.",
            context="Variables\n  sales: DataFrame 18,204 × 9\nFiles\n  notes/q3.md",
            model="anthropic/claude-sonnet",
            confirm_mode="confirm-sensitive",
            max_steps=4,
            started_at=WHEN,
        ),
        system_prompt="You are an agent in a notebook.",
        tools=(LOOK,),
    )
    yield s.Notice(text="Using anthropic/claude-sonnet: ANTHROPIC_API_KEY is set.")
    yield from looking()
    yield from plotting()
    yield from writing()
    yield from saying_nothing()
    yield from answering()
    yield s.RunFinished(
        status=s.RunStatus.DONE, stop_reason=s.StopReason.MAX_STEPS, duration=41.7, error=None
    )


def looking() -> Iterator[s.Event]:
    """A retry, thinking, and a call that needs no approval."""
    said = message(
        "I'll look at the data first.",
        *(each.call for each in (INSPECT, ASK, TODOS)),
        thinking="What is in sales?",
    )
    yield s.StepStarted(step=1)
    yield s.MessageStarted(step=1)
    yield s.MessageDelta(step=1, kind="text", text="This is void")
    yield s.RetryScheduled(step=1, attempt=1, of=2, delay=2.25, reason="The service is overloaded.")
    yield s.MessageStarted(step=1)
    yield s.MessageDelta(step=1, kind="thinking", text="What is in sales?")
    yield s.MessageDelta(step=1, kind="text", text="I'll look at ")
    yield s.MessageDelta(step=1, kind="text", text="the data first.")
    yield s.MessageFinished(
        step=1,
        message=said,
        finish_reason="tool_calls",
        usage=s.TokenUsage(prompt_tokens=900, completion_tokens=40, cache_read_tokens=512),
        cost_usd=0.0031,
        thinking_seconds=2.6,
    )
    yield s.ToolStarted(step=1, execution=INSPECT)
    yield s.ApprovalDecided(
        step=1, call_id="c1", decision=s.Decision.AUTO, by=s.DecidedBy.POLICY, reason=None
    )
    yield s.ToolRunning(step=1, call_id="c1")
    output = "18,204 rows × 9 columns\nregion, quarter, week, units, unit_price, revenue, …"
    auto = {"decision": s.Decision.AUTO, "decided_by": s.DecidedBy.POLICY}
    yield finished(INSPECT, s.ToolResult(output=output), duration=0.01, **auto)
    yield from asking()
    yield s.StepFinished(step=1)


def asking() -> Iterator[s.Event]:
    """In the same step, a question that is answered, and a checklist."""
    yield s.ToolStarted(step=1, execution=ASK)
    yield s.ApprovalRequested(step=1, call_id="c8", approval_id="a8")
    approved = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.BUTTON}
    yield s.ApprovalDecided(
        step=1, call_id="c8", decision=s.Decision.APPROVED, by=s.DecidedBy.BUTTON
    )
    yield finished(ASK, s.ToolResult(output="2024"), duration=None, **approved)
    yield s.ToolStarted(step=1, execution=TODOS)
    yield s.ToolRunning(step=1, call_id="c9")
    auto = {"decision": s.Decision.AUTO, "decided_by": s.DecidedBy.POLICY}
    yield finished(TODOS, s.ToolResult(output="Noted: 3 tasks."), duration=None, **auto)
    yield from saying()


SAID = s.UserText(id="u1", text="Leave out the West.\nIt has *no* data for Q3.")


def saying() -> Iterator[s.Event]:
    """Two texts of the user, one of which is taken back."""
    first = s.UserText(id="u0", text="Leave out the East.")
    for texts in ((first,), (first, SAID), (SAID,)):
        yield s.UserTextsChanged(texts=texts)


def plotting() -> Iterator[s.Event]:
    """A call that is approved and returns a figure and a table."""
    yield s.StepStarted(step=2, user_texts=(SAID,))
    yield s.MessageStarted(step=2)
    for begin in range(0, len(CODE), 40):
        written = {"text": CODE[begin : begin + 40], "call": 1, "name": "run_python"}
        yield s.MessageDelta(step=2, kind="call", **written)
    yield s.MessageFinished(
        step=2,
        message=message("", PLOT.call),
        finish_reason="tool_calls",
        usage=s.TokenUsage(prompt_tokens=1100, completion_tokens=90),
        cost_usd=0.0029,
    )
    yield s.ToolStarted(step=2, execution=PLOT)
    yield s.ApprovalRequested(step=2, call_id="c2", approval_id="a2")
    yield s.ToolRehearsed(step=2, call_id="c2", rehearsal=REHEARSED)
    yield s.ApprovalDecided(
        step=2, call_id="c2", decision=s.Decision.APPROVED, by=s.DecidedBy.BUTTON, reason=None
    )
    yield s.ToolRunning(step=2, call_id="c2")
    yield s.ToolOutput(step=2, call_id="c2", text="reading the North\n 40%|████      | 2/5")
    result = s.ToolResult(
        output="quarter     Q1     Q2     Q3\nNorth    120.4  131.9   84.2\n(3 rows)",
        for_model="3 rows × 4 columns\nquarter,Q1,Q2,Q3\nNorth,120.4,131.9,84.2\nchanged: sales",
        images=(s.ImageContent(data=figure(), width=360, height=160),),
        displays=(s.Display(data={"text/html": TABLE, "text/plain": "quarter Q1 Q2 Q3"}),),
        variables=(
            s.VariableChange(name="sales", change="changed", type="DataFrame, 18,204 rows"),
            s.VariableChange(name="by_region", change="created", type="DataFrame, 3 rows"),
        ),
        truncated=s.TruncatedOutput(
            tool_name="read_file",
            original_chars=12345,
            original_lines=400,
            path=".ipyagent/o/1.txt",
            created_at=WHEN,
        ),
    )
    approved = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.BUTTON}
    yield finished(
        PLOT,
        result,
        rehearsal=REHEARSED.model_copy(update={"result": None}),
        duration=1.42,
        **approved,
    )
    yield s.StepFinished(step=2)


def writing() -> Iterator[s.Event]:
    """Calls that are allowed for the session, denied, failing, cancelled and cut off."""
    calls = [execution.call for execution in (EDIT, DELETE, SEARCH, SHELL, FETCH)]
    yield s.StepStarted(step=3)
    yield s.MessageFinished(step=3, message=message("Now the notes.", *calls))
    yield s.ToolStarted(step=3, execution=EDIT)
    yield s.ApprovalRequested(step=3, call_id="c3", approval_id="a3")
    yield s.ApprovalDecided(
        step=3, call_id="c3", decision=s.Decision.APPROVED, by=s.DecidedBy.SESSION
    )
    yield s.ToolRunning(step=3, call_id="c3")
    session = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.SESSION}
    folder = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.FOLDER}
    yield finished(EDIT, s.ToolResult(output="notes/q3.md: 1 replacement"), **session)
    yield s.ToolStarted(step=3, execution=WIDE)
    yield s.ApprovalRequested(step=3, call_id="c4", approval_id="a40")
    yield s.ToolEdited(step=3, execution=DELETE)
    yield s.ApprovalRequested(step=3, call_id="c4", approval_id="a4")
    no = {"decision": s.Decision.DENIED, "decided_by": s.DecidedBy.BUTTON, "reason": "keep it"}
    yield s.ApprovalDecided(
        step=3, call_id="c4", decision=s.Decision.DENIED, by=s.DecidedBy.BUTTON, reason="keep it"
    )
    denied = s.ToolResult.failure("Denied by the person: keep it")
    yield finished(DELETE, denied, status=s.ToolStatus.DENIED, duration=None, **no)
    yield s.ToolStarted(step=3, execution=SEARCH)
    yield s.ToolRunning(step=3, call_id="c5")
    yield finished(SEARCH, s.ToolResult.failure("There is no folder reports."), **folder)
    yield s.ToolStarted(step=3, execution=SHELL)
    yield finished(SHELL, s.ToolResult.failure("Interrupted."), status=s.ToolStatus.CANCELLED)
    yield s.ToolStarted(step=3, execution=FETCH)
    yield s.ToolRunning(step=3, call_id="c7")
    cut_off = s.ToolResult.failure("The connection broke after the request was sent.")
    yield finished(FETCH, cut_off, status=s.ToolStatus.UNKNOWN, duration=None)
    yield s.StepFinished(step=3)


def saying_nothing() -> Iterator[s.Event]:
    """A conversation that had to be summarised, and a reply of no words."""
    summary = s.Message(
        role=s.Role.USER,
        content=(s.TextContent(text="So far: the North lost."),),
        synthetic=True,
        timestamp=WHEN,
    )
    yield s.StepStarted(step=4)
    yield s.Compacted(step=4, summary=summary, before=("n1",), after=("n8", "n9"))
    yield s.MessageStarted(step=4)
    yield s.MessageFinished(step=4, message=None, finish_reason="length")
    yield s.StepFinished(step=4)


def answering() -> Iterator[s.Event]:
    """The reply that ends the run, after its last step."""
    usage = s.TokenUsage(prompt_tokens=1500, completion_tokens=210)
    yield s.StepStarted(step=5, closing=True, nudge="No steps are left: answer now.")
    yield s.MessageStarted(step=5)
    yield s.UserTextsChanged(texts=(s.UserText(id="u2", text="And by week?"),))
    for start in range(0, len(ANSWER), 7):
        yield s.MessageDelta(step=5, kind="text", text=ANSWER[start : start + 7])
    yield s.MessageFinished(
        step=5, message=message(ANSWER), finish_reason="stop", usage=usage, cost_usd=0.0061
    )
    yield s.StepFinished(step=5)


PLAN = (
    s.PlanStep(call=call("p1", "read_file", path="sales.csv"), note="Look at the columns first."),
    s.PlanStep(call=call("p2", "run_python", code=CODE)),
    s.PlanStep(call=call("p3", "write_file", path="q3.md", content="# Q3\n")),
)


def plan_events() -> Iterator[s.Event]:
    """A plan that is edited and approved; its second step goes well at the second try."""
    draft = s.Run(
        id="plan-1",
        parent_id="run-1",
        prompt="Why did revenue drop in Q3?",
        model="anthropic/claude-sonnet",
        confirm_mode="confirm-sensitive",
        max_steps=3,
        plan=PLAN,
        plan_id="0a1b2c3d4e5f",
        status=s.RunStatus.DRAFT,
        started_at=WHEN,
    )
    yield s.PlanProposed(
        run=draft.model_copy(update={"id": "plan-0", "plan": PLAN[:2]}), approval_id="a1"
    )
    yield s.PlanProposed(run=draft, approval_id="a2")
    yield s.PlanWaiting()
    yield s.PlanProposed(run=draft, approval_id="a3")
    yield s.PlanRehearsed(rehearsals=(None, REHEARSED, None))
    yield s.RunStarted(run=draft.model_copy(update={"status": s.RunStatus.RUNNING}))
    first, second, third = (step.call for step in PLAN)
    again = second.model_copy(update={"id": "p2.2"})
    broken = s.ToolResult.failure("KeyError: 'quarter'")
    yield from carried_out(1, first, s.ToolResult(output="region,quarter,revenue"))
    yield from carried_out(2, second, broken)
    yield from carried_out(3, again, s.ToolResult(output="3 rows"))
    yield from carried_out(4, third, s.ToolResult(output="q3.md: 1 line"))
    yield s.StepStarted(step=5, closing=True)
    yield s.MessageFinished(step=5, message=message("3 of 3 steps done."))
    yield s.StepFinished(step=5)
    yield s.RunFinished(
        status=s.RunStatus.DONE, stop_reason=s.StopReason.FINISHED, duration=3.2, error=None
    )
    yield s.TakenBack(calls=())  # taken back, and put back again


def carried_out(step: int, of: s.ToolCall, result: s.ToolResult) -> Iterator[s.Event]:
    """One step of a plan: no model says anything."""
    approved = {"decision": s.Decision.APPROVED, "decided_by": s.DecidedBy.BUTTON}
    execution = s.ToolExecution.model_validate({"call": of, "sensitive": True, **approved})
    yield s.StepStarted(step=step)
    yield s.MessageFinished(step=step, message=message("", of))
    yield s.ToolStarted(step=step, execution=execution)
    yield s.ToolRunning(step=step, call_id=of.id)
    yield finished(execution, result)
    yield s.StepFinished(step=step)


STORIES = {"run.json": events, "plan.json": plan_events}


def fixture(name: str) -> JsonDict:
    """A story as a page is told of it.

    Each moment has the event that led to it, and the messages about it; `snapshot` is the last
    state, `run` and `html` are what a notebook keeps.
    """
    return asyncio.run(_tell(name))


async def _tell(name: str) -> JsonDict:
    sent: list[JsonDict] = []
    moments: list[JsonDict] = []
    feed, state = Feed(Approvals(), lambda: None), None
    feed.followers.append(sent.append)
    for event in STORIES[name]():
        state = s.advance(state, event)
        feed(event, state)
        feed.flush()
        about = {key: getattr(event, key, None) for key in ("type", "call_id", "approval_id")}
        moments.append({**about, "messages": sent[:]})
        sent.clear()
    feed.on_message({"type": "resync"}, sent.append)
    bundle = static_html.saved_bundle(feed.run)
    return {
        "moments": moments,
        "snapshot": sent[0],
        "run": bundle[static_html.RUN_MIME],
        "html": bundle["text/html"],
    }


def transcript(name: str) -> Transcript:
    """The end of a story as it is drawn."""
    state = functools.reduce(s.advance, STORIES[name](), None)
    return transcribe(state.run, Live(totals=state.totals))


def saved_run(name: str = "run.json") -> JsonDict:
    """The finished run of a story as JSON, to be changed and drawn."""
    run = functools.reduce(s.fold, STORIES[name](), None)
    return run.to_dict()


def snapshot(drawn: Transcript) -> JsonDict:
    """What a page is told of a run that is drawn so."""
    blocks = LiveBlocks()
    blocks.update(drawn)
    return blocks.snapshot(0, drawn).to_dict()


def live_run(run: JsonDict, **live: Any) -> Transcript:
    """A run as it is drawn while it goes on; `live` as `Live` has it."""
    return transcribe(s.Run.from_dict(run), Live(**live))


if __name__ == "__main__":
    for name in STORIES:
        text = json.dumps(fixture(name), indent=1, ensure_ascii=False)
        (FIXTURES / name).write_text(text + "\n")
