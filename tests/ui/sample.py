"""A rich run, as an analyst's may be; `python tests/ui/sample.py FILE` writes its HTML."""

from __future__ import annotations

import base64
import io
from datetime import UTC, datetime

from ipyagent import schema as s
from ipyagent.ui import plain_text, static_html
from ipyagent.ui.transcribe import transcribe

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CODE = """\
by_region = sales.groupby(["quarter", "region"])["revenue"].sum().unstack()
by_region.plot.bar(title="Revenue by region")
by_region"""
TABLE_TEXT = """\
region    North  South
quarter
Q2         1204    980
Q3          611    975"""
TABLE_HTML = """<div><style scoped>td { color: red }</style>
<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th>region</th>
<th>North</th><th>South</th></tr></thead><tbody>
<tr><th>Q2</th><td>1204</td><td>980</td></tr><tr><th>Q3</th><td>611</td><td>975</td></tr>
</tbody></table></div>"""
DIFF = """\
--- report.md
+++ report.md
@@ -1,2 +1,2 @@
 # Sales
-Revenue is stable.
+Revenue fell by 49 % in the North."""
ANSWER = """\
Revenue fell in **Q3 because of the North**: from $1,204 to $611, while the South was stable.

| region | Q2 | Q3 | change |
|:-------|---:|---:|-------:|
| North  | 1,204 | 611 | −49 % |
| South  | 980 | 975 | −1 % |

1. The drop begins in *week 31*, with the end of `campaign_b`.
2. Orders are fewer, not smaller:

```python
orders.query("region == 'North' and week < 31").revenue.median()
```

See the [pandas documentation](https://pandas.pydata.org/docs/)."""


def sample_run() -> s.Run:
    """A finished run with everything in it."""
    look = call("c1", "inspect_variable", {"name": "sales"})
    plot = call("c2", "run_python", {"code": CODE})
    edit = call("c3", "edit_file", {"path": "report.md", "old_string": "stable", "new_string": ""})
    fetch = call("c4", "get_report", {"url": "https://intra.example/r", "api_key": "sk-secret-1"})
    read = call("c5", "read_file", {"path": "log.txt", "limit": 2000})
    plan = "The prompt asks **why** revenue dropped.\n\n- look at the columns\n- group by region"
    steps = (
        s.Step(
            number=1,
            message=said(s.ThinkingContent(thinking=plan), text("I look at the data first."), look),
            usage=s.TokenUsage(prompt_tokens=900, completion_tokens=104),
            cost_usd=0.004,
            thinking_seconds=3.2,
            executions=(done(look, "18,204 rows × 9 columns", duration=0.0123),),
            notes=("The model is overloaded. Retry 1/2 in 1.0 s.",),
        ),
        s.Step(
            number=2,
            message=said(plot, edit, fetch, read),
            usage=s.TokenUsage(prompt_tokens=1400, completion_tokens=180),
            cost_usd=0.006,
            executions=(_plotted(plot), _denied(edit), _failed(fetch), _cut(read)),
        ),
        s.Step(
            number=3,
            message=said(text(ANSWER)),
            usage=s.TokenUsage(prompt_tokens=2100, completion_tokens=350),
            cost_usd=0.01,
        ),
    )
    return run(steps, context="sales: DataFrame, 18,204 × 9\nreport.md, log.txt", notes=("Hi.",))


def run(steps: tuple[s.Step, ...] = (), **changes: object) -> s.Run:
    """A finished run of these steps."""
    fields = {
        "id": "r1",
        "session_id": "s1",
        "trace_id": "t1",
        "prompt": "Why did revenue drop in Q3?",
        "model": "anthropic/claude-sonnet",
        "confirm_mode": "confirm-sensitive",
        "max_steps": 20,
        "status": s.RunStatus.DONE,
        "stop_reason": s.StopReason.FINISHED,
        "started_at": NOON,
        "duration": 12.34,
        "steps": steps,
    }
    return s.Run.model_validate(fields | changes)


def one_call(*executions: s.ToolExecution, **changes: object) -> s.Run:
    """A run of one step with these calls."""
    return run((s.Step(number=1, executions=executions),), **changes)


def said(*blocks: object) -> s.Message:
    return s.Message.model_validate(
        {"role": s.Role.ASSISTANT, "content": blocks, "timestamp": NOON}
    )


def text(words: str) -> s.TextContent:
    return s.TextContent(text=words)


def call(id_: str, name: str, arguments: dict[str, object]) -> s.ToolCall:
    return s.ToolCall(id=id_, name=name, arguments=arguments)


def done(of: s.ToolCall, output: str, **changes: object) -> s.ToolExecution:
    """A call that went well."""
    fields = {
        "call": of,
        "status": s.ToolStatus.SUCCESS,
        "decision": s.Decision.AUTO,
        "decided_by": s.DecidedBy.POLICY,
        "result": s.ToolResult(output=output),
        "duration": 0.5,
    }
    return s.ToolExecution.model_validate(fields | changes)


BEGUN = s.RunStarted(run=run(status=s.RunStatus.RUNNING, stop_reason=None, duration=None))


def figure() -> s.ImageContent:
    """A small picture of bars."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (480, 200), "white")
    draw = ImageDraw.Draw(image)
    for position, height in enumerate((160, 130, 81, 129)):
        left = 60 + position * 100
        draw.rectangle([left, 180 - height, left + 60, 180], fill="#3b6ea5")
    data = io.BytesIO()
    image.save(data, "PNG")
    return s.ImageContent(data=base64.b64encode(data.getvalue()).decode(), width=480, height=200)


def _plotted(plot: s.ToolCall) -> s.ToolExecution:
    result = s.ToolResult(
        output=f"grouping…\n{TABLE_TEXT}",
        images=(figure(),),
        displays=(s.Display(data={"text/html": TABLE_HTML, "text/plain": TABLE_TEXT}),),
    )
    return done(
        plot,
        "",
        sensitive=True,
        decision=s.Decision.APPROVED,
        decided_by=s.DecidedBy.BUTTON,
        preview=s.Preview(kind="code", text=CODE, language="python"),
        result=result,
        duration=0.42,
    )


def _denied(edit: s.ToolCall) -> s.ToolExecution:
    return done(
        edit,
        "",
        sensitive=True,
        status=s.ToolStatus.DENIED,
        decision=s.Decision.DENIED,
        decided_by=s.DecidedBy.BUTTON,
        reason="not the report",
        preview=s.Preview(kind="diff", text=DIFF, language="diff"),
        result=s.ToolResult.failure("denied by the person: not the report"),
        duration=None,
    )


def _failed(fetch: s.ToolCall) -> s.ToolExecution:
    error = "ConnectionError: intra.example does not answer\nTry again later."
    return done(
        fetch, "", status=s.ToolStatus.FAILED, result=s.ToolResult.failure(error), duration=3.1
    )


def _cut(read: s.ToolCall) -> s.ToolExecution:
    lines = "\n".join(f"2026-02-{day % 28 + 1:02} ok line {day}" for day in range(100))
    cut = s.TruncatedOutput(
        tool_name="read_file",
        original_chars=90_000,
        original_lines=4_000,
        path=".ipyagent/outputs/1.txt",
        created_at=NOON,
    )
    return done(read, "", result=s.ToolResult(output=lines, truncated=cut))


def run_html(run: s.Run) -> str:
    return static_html.run_html(transcribe(run))


def render(run: s.Run) -> str:
    return plain_text.render(transcribe(run, folds_thoughts=False))


if __name__ == "__main__":
    import sys
    from pathlib import Path

    Path(sys.argv[1]).write_text(str(static_html.saved_bundle(sample_run())["text/html"]))
