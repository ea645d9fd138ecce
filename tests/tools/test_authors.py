"""Who made and changed a variable, newest first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ipyagent.kernel.shell import CellNote
from ipyagent.schema import (
    Preview,
    Run,
    Step,
    ToolCall,
    ToolExecution,
    ToolResult,
    VariableChange,
    now,
)
from ipyagent.tools.namespace_tools import code_line, find_authors


def run(minutes: int, code: str, **change: str) -> Run:
    result = ToolResult(variables=(VariableChange.model_validate({"name": "df", **change}),))
    started = now() + timedelta(minutes=minutes)
    execution = ToolExecution(
        call=ToolCall(id=f"call{minutes}", name="run_python", arguments={"code": code}),
        preview=Preview(kind="code", text=code),
        started_at=started,
        result=result,
        status="success",
    )
    return Run(id=f"run{minutes}", steps=(Step(number=1, executions=(execution,)),))


RUNS = [
    run(1, "df = pd.read_csv('a.csv')", change="created", type="DataFrame, 3 rows"),
    run(2, "x = 1\ndf['ratio'] = df.a / df.b", change="changed", summary="+ ratio (float64)"),
    run(3, "df.loc[0, 'a'] = 1", change="changed", summary="a: 1 value changed"),
]


def test_the_newest_change_comes_first_with_its_line_of_code():
    assert list(map(str, find_authors(RUNS, [], "df"))) == [
        "changed: a: 1 value changed · run run3, call call3 · df.loc[0, 'a'] = 1",
        "changed: + ratio (float64) · run run2, call call2 · df['ratio'] = df.a / df.b",
        "created: DataFrame, 3 rows · run run1, call call1 · df = pd.read_csv('a.csv')",
    ]


@pytest.mark.parametrize(("column", "runs"), [("ratio", [2, 1]), ("a", [3, 1]), ("other", [1])])
def test_a_column_has_authors_of_its_own(column: str, runs: list[int]):
    found = find_authors(RUNS, [], "df", column)
    assert [each.who for each in found] == [f"run run{n}, call call{n}" for n in runs]


def test_the_users_own_cells_stand_between_the_runs():
    before = RUNS[1].executions[0].started_at
    assert before is not None
    at = before + timedelta(seconds=30)
    note = CellNote(7, "df = df.dropna()\nother = 1", {"df": "changed"}, at)
    found = find_authors(RUNS, [note], "df")
    assert str(found[1]) == "changed · your cell [7] · df = df.dropna()"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("a = 1\ndf = 2\nprint(df)", "df = 2"),
        ("df.x == 1\ndf.sort()", "df.sort()"),
        ("xdf = 1\nimport numpy as df", "import numpy as df"),
        ("go()", "go()"),
        ("", ""),
    ],
)
def test_the_line_that_sets_a_name_is_the_one_shown(code: str, line: str):
    assert code_line(code, "df") == line
