"""The line of a call: the gist of its code or change, and the size of its result."""

from __future__ import annotations

import pandas as pd
import pytest
from sample import call, done, figure

from ipyagent.schema import Display, Preview, ToolExecution, ToolResult
from ipyagent.tools.result_conversion import truncate_result
from ipyagent.ui.static_html import tool_result_bundle
from ipyagent.ui.transcribe.call import CallContext, transcribe_call
from ipyagent.ui.transcribe.call_texts import summarize_call, summarize_result
from ipyagent.values.describe import describe

DIFF = """--- a/pipeline.py
+++ b/pipeline.py
@@ -1,3 +1,5 @@
 import pandas as pd
-df = df.dropna()
+df = df.dropna(subset=["a"])
+-- no option
+x = 1
"""
POLARS = Display(data={"text/html": "<small>shape: (1_200, 2)</small>"})
LONG = truncate_result(ToolResult(output="row\n" * 3_000), tool="run_python", save=None)
SMALL = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})


def drawn(table: object) -> Display:
    return Display(data={"text/html": table._repr_html_(), "text/plain": repr(table)})


def execution(name: str, result: ToolResult | None = None, **arguments: object) -> ToolExecution:
    return done(call("c1", name, arguments), "", result=result)


@pytest.mark.parametrize(
    ("code", "gist"),
    [
        ("# Compute the mean.\nx = df.a.mean()\nprint(x)", "# Compute the mean."),
        ("import pandas as pd\nx = df.a.mean()\nprint('mean', x)", "x = df.a.mean()"),
        ("by = df.groupby('b').a.sum()\nby.plot()\nplt.tight_layout()\nplt.show()", "by.plot()"),
        ("by = df.groupby('b').a.sum()\nby", "by = df.groupby('b').a.sum()"),
        ("df.groupby(\n    'b'\n).a.sum()", "df.groupby( 'b' ).a.sum()"),
        ("print(1)", "print(1)"),
        ("x", "x"),
        ("", ""),
        ("%time df.a.sum()", "%time df.a.sum()"),
        ("x = '\\d'\ny = 2", "x = '\\d' y = 2"),
        ("(" * 30_000, "(" * 199 + "…"),
    ],
)
def test_code_is_told_by_its_gist(code: str, gist: str) -> None:
    assert summarize_call(execution("run_python", code=code)) == gist


def test_a_line_for_the_user_alone_is_a_remark_below_what_the_model_read() -> None:
    read, author = "total: int64 = 66", "created · your cell [3] · total = 66"
    result = ToolResult(output=f"{read}\n{author}", for_model=read)
    inspected = done(call("c1", "inspect_variable", {"name": "total"}), "", result=result)
    drawn = transcribe_call(inspected, CallContext())
    assert (drawn.outcome, drawn.facts) == (read, (author,))
    assert (drawn.result.output, drawn.result.for_model) == (read, None)
    assert author in tool_result_bundle(result)["text/plain"]


def test_a_change_is_told_by_its_lines() -> None:
    preview = Preview(kind="diff", text=DIFF)
    edit = execution("edit_file", path="pipeline.py", old_string="df", new_string="x")
    assert summarize_call(edit.model_copy(update={"preview": preview})) == "pipeline.py +3 −1"
    script = execution("python_script", path="a.py", content="x = 1")
    assert summarize_call(script) == "a.py, content=x = 1"


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (ToolResult(output=repr(SMALL), displays=(drawn(SMALL),)), "3 rows × 2"),
        (ToolResult(displays=(drawn(SMALL), drawn(SMALL[:1]))), "1 row × 2"),
        (ToolResult(output=repr(SMALL.style), displays=(drawn(SMALL.style),)), "3 rows × 2"),
        (ToolResult(displays=(drawn(pd.concat([SMALL] * 900)),)), "2,700 rows × 2"),
        (
            ToolResult(displays=(Display(data={"text/html": "shape: (1_200, 2)"}),)),
            "1,200 rows × 2",
        ),
        (ToolResult(output=repr(SMALL.groupby("b").a.sum())), "3 values"),
        (ToolResult(output=repr(SMALL.a), displays=(drawn(SMALL[["a"]]),)), "3 values"),
        (ToolResult(output=repr(pd.Series(range(400)))), "400 values"),
        (ToolResult(output="[image, 5×5 pixels]", images=(figure(),)), ""),
        (ToolResult(output="42"), "42"),
        (ToolResult(output="a.csv\nb.csv"), "a.csv · b.csv"),
        (ToolResult(output=describe("sales", SMALL, detail=True)), "3 rows × 2"),
        (ToolResult(output="a: DataFrame, 3 rows × 2 columns\n" * 40), "40 lines"),
        (ToolResult(output="line\n" * 40), "40 lines"),
        (LONG, "3,000 lines"),
        (ToolResult.failure("KeyError: 'a'\nmore"), "KeyError: 'a'"),
        (ToolResult(output=""), ""),
    ],
)
def test_a_result_is_told_by_its_size(result: ToolResult, line: str) -> None:
    assert summarize_result(result) == line


def test_both_stand_in_the_line_of_a_call() -> None:
    ran = execution("run_python", ToolResult(displays=(drawn(SMALL),)), code="df.head(3)")
    shown = transcribe_call(ran, CallContext())
    assert (shown.summary, shown.outcome) == ("df.head(3)", "3 rows × 2")
