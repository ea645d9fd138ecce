"""The model is told which variables its code made or changed."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from harness import YES, Lab, call
from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import ToolResult
from ipyagent.tools.base import tool
from ipyagent.tools.tracked_namespace import TrackedNamespace


def run(code: str, **variables: object) -> ToolResult:
    result = TrackedNamespace(Namespace(dict(variables))).run(code)
    assert isinstance(result, ToolResult)
    return result


def lines_after(code: str, **variables: object) -> list[str]:
    """The lines below what the code printed."""
    text = run(code, **variables).for_model or ""
    return text.rpartition("\n\n")[2].splitlines()


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("x = df.a.mean()", ["new: x: float64 = 1.5"]),
        ("small = df[['a']]", ["new: small: DataFrame, 2 rows × 1 columns (a: int64)"]),
        ("df['b'] = 1", ["changed: df: 2 × 1 → 2 × 2 · + b (int64)"]),
        ("df = df.a", ["changed: df: Series, 2 rows (int64)"]),
        ("n = 'a'", ["changed: n: str = 'a'"]),
        ("del n", ["deleted: n"]),
        ("n = 2; n", ["2", "", "changed: n: 1 → 2"]),
        ("import math", []),
        ("def f(x):\n    'Do it.'", []),
        ("class A: pass", []),
        ("from pathlib import Path", []),
        ("from math import sqrt as root, pi", ["new: pi: float = 3.141592653589793"]),
        ("for i in range(3): pass", []),
        ("for i, (a, b) in []: pass\nb = 1", ["new: b: int = 1"]),
        ("i = 5\nfor i in range(3): pass", ["new: i: int = 2"]),
        ("with open('/dev/null') as file: pass", []),
        ("print(1)", ["1"]),
    ],
)
def test_each_change_takes_a_line(code: str, lines: list[str]) -> None:
    result = run(code, df=pd.DataFrame({"a": [1, 2]}), n=1)
    text = result.output if result.for_model is None else result.for_model
    assert text.splitlines() == lines
    assert "new:" not in result.output


def test_many_changes_are_counted() -> None:
    text = str(run("; ".join(f"x{number} = 1" for number in range(30))).for_model)
    assert text.splitlines()[-1] == "… and 20 more"


def test_what_was_made_before_an_error_is_told() -> None:
    text = str(run("x = 1\n1 / 0").for_model)
    assert text.endswith("ZeroDivisionError: division by zero\n\nnew: x: int = 1")


WIDE = {f"a_long_name_of_a_column_{number}": [1.0, 2.0] for number in range(4)}


def test_two_new_tables_do_not_refer_to_each_other() -> None:
    first, second = lines_after("t = old.copy()\nu = t * 2\ndel old", old=pd.DataFrame(WIDE))[:2]
    assert "a_long_name_of_a_column_3: float64" in first
    assert second == "new: u: DataFrame, 2 rows × 4 columns (same columns as t)"
    first, second = lines_after("a = b.copy(); b = a * 2", b=pd.DataFrame(WIDE))
    assert "a_long_name_of_a_column_3" in first + second
    assert (first + second).count("same columns") == 1


def test_a_table_the_model_knows_is_referred_to() -> None:
    known = pd.DataFrame(WIDE)
    assert lines_after("t = known * 2", known=known)[0].endswith("(same columns as known)")


def test_what_was_printed_stands_apart_from_our_lines() -> None:
    text = str(run("print('kind,count'); print('a,1'); x = 1").for_model)
    assert text == "kind,count\na,1\n\nnew: x: int = 1"


@pytest.mark.parametrize(
    ("data", "code", "ends"),
    [
        ("place;amount\nOslo;1,5\n", "pd.read_csv('t.csv', sep=';')", "(columns as in t.csv)"),
        (" a,b\n1,2\n", "pd.read_csv('t.csv')", "(columns as in t.csv)"),
        ("a,b,c\n1,2,3\n", "pd.read_csv('t.csv')[['a', 'b']]", "(a: int64, b: int64)"),
        ("a,b\n1,2\n", "pd.read_csv('t.csv').rename(columns=str.upper)", "(A: int64, B: int64)"),
        ("a,b\n1,2\n", "pd.read_csv('t.csv').assign(c=1)", "(a: int64, b: int64, c: int64)"),
        ("a,b\n1,2\n", "pd.read_csv('t.csv').set_index('a')", "(index a: int64, b: int64)"),
    ],
)
def test_columns_of_a_described_file_are_not_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str, code: str, ends: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(data)
    lab = Lab(tmp_path)
    code = f"import pandas as pd\ndf = {code}"
    replies = [{"calls": [call("run_python", code=code)]}, "Done."]
    run = lab.run(replies, "Look at t.csv", answer=YES)
    assert run.output == "Done."
    result = lab.client.requests[-1].messages[-1].tool_results[0].text
    assert result.splitlines()[-1].startswith("new: df: DataFrame, 1 rows × ")
    assert result.endswith(ends)


COUNTER = """
def count():
    counts["calls"] += 1
    table["n"] = counts["calls"]
    raise_if(counts["calls"] > 1)
def raise_if(wrong):
    assert not wrong, "twice"
"""


def test_a_tool_of_the_users_that_runs_among_the_variables_is_watched(tmp_path: Path) -> None:
    variables = {"counts": {"calls": 0}, "table": pd.DataFrame({"a": [1]}), "other": [1]}
    lab = Lab(tmp_path, variables)
    exec(COUNTER, variables)
    run = lab.run(
        [{"calls": [call("count")]}, {"calls": [call("count")]}, "Done."],
        tools=[tool(variables["count"])],
        answer=YES,
    )
    assert [(each.name, each.summary) for each in run.variables] == [
        ("counts", "'calls': 0 → 1"),
        ("table", "1 × 1 → 1 × 2 · + n (int64)"),
        ("counts", "'calls': 1 → 2"),
        ("table", "n: 1 value changed"),
    ]
    first, second = run.results
    assert str(first.for_model).endswith("changed: table: 1 × 1 → 1 × 2 · + n (int64)")
    assert second.error is not None
    assert "changed: table: n: 1 value changed" in str(second.for_model)
