"""Tools for the user's own variables, and who made or changed a variable."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
import pytest

from ipyagent.errors import InvalidArgumentsError
from ipyagent.kernel.namespace import Namespace
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
from ipyagent.tools.base import Toolbox, Where
from ipyagent.tools.namespace_tools import code_line, find_authors, namespace_tools
from ipyagent.tools.result_conversion import error_result


@pytest.fixture
def variables() -> dict[str, object]:
    return {"penguins": pd.DataFrame({"species": ["Adelie"]}), "df_2": 1, "x": 3, "_x": 4}


@pytest.fixture
def tools(variables: dict[str, object]) -> Toolbox:
    return Toolbox(namespace_tools(Namespace(variables)))


def call(tools: Toolbox, tool_name: str, /, **arguments: object) -> ToolResult:
    tool = tools.get(tool_name)
    result = tool(**tool.check_arguments(arguments))
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.spec("A55", "N23")
def test_all_run_one_at_a_time_on_the_main_thread_and_only_code_is_sensitive(tools: Toolbox):
    assert {tool.name: (tool.where, tool.sensitive, tool.parallel) for tool in tools} == {
        "list_variables": (Where.MAIN, False, False),
        "inspect_variable": (Where.MAIN, False, False),
        "run_python": (Where.MAIN, True, False),
    }


def test_the_model_is_told_of_them_in_few_words(tools: Toolbox):
    for definition in tools.definitions():
        assert len(definition.description) < 300
    assert tools.get("run_python").definition().input_schema["required"] == ["code"]
    assert "required" not in tools.get("list_variables").definition().input_schema


def test_variables_are_listed(tools: Toolbox):
    assert call(tools, "list_variables").output.splitlines() == [
        "- penguins: DataFrame, 1 rows × 1 columns (species: str)",
        "- x: int = 3",
        "- df_2: int = 1",
    ]
    assert call(tools, "list_variables", pattern="df*").output == "- df_2: int = 1"
    nothing = call(tools, "list_variables", pattern="z*").output
    assert nothing == "There are no variables matching 'z*'."
    empty = Toolbox(namespace_tools(Namespace({})))
    assert call(empty, "list_variables").output == "There are no variables yet."


def test_inspecting_gives_the_live_object(tools: Toolbox, variables: dict[str, object]):
    result = call(tools, "inspect_variable", name="penguins")
    assert result.value is variables["penguins"]
    assert result.output.startswith("penguins: DataFrame, 1 rows × 1 columns\n")


@pytest.mark.spec("A36")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("pengiuns", "there is no variable 'pengiuns'; did you mean penguins?"),
        ("nothing", "there is no variable 'nothing'; list_variables names the ones that exist"),
        ("penguins['a']", "did you mean penguins?"),
        ("f(1)", "'f(1)' is not a variable's name; use run_python to evaluate an expression"),
        ("_x", "there is no variable '_x'"),
    ],
)
def test_an_unknown_variable_is_a_failed_result_with_a_way_out(
    tools: Toolbox, name: str, error: str
):
    with pytest.raises(InvalidArgumentsError) as refused:
        call(tools, "inspect_variable", name=name)
    result = error_result(refused.value)
    assert error in str(result.error)
    assert result.source == "", "nothing was read"


@pytest.mark.spec("N23")
def test_code_runs_among_the_live_variables(tools: Toolbox, variables: dict[str, object]):
    result = call(tools, "run_python", code="y = x + 1\nprint('hi')\ny")
    assert (result.success, result.output, result.value) == (True, "hi\n4", 4)
    assert variables["y"] == 4


@pytest.mark.spec("D10")
def test_missing_code_never_runs(tools: Toolbox):
    with pytest.raises(InvalidArgumentsError, match="code"):
        call(tools, "run_python", source="1")


def test_looking_and_running_code_can_be_had_one_without_the_other():
    def names(**flags: bool) -> list[str]:
        return [tool.name for tool in namespace_tools(Namespace({}), **flags)]

    assert names(python=False) == ["list_variables", "inspect_variable"]
    assert names(variables=False) == ["run_python"]
    assert names(python=False, variables=False) == []


@pytest.mark.spec("A12")
def test_the_card_shows_all_of_the_code(tools: Toolbox):
    code = "x = 1\n" * 1000
    preview = tools.get("run_python").preview
    shown = preview(code=code)
    assert (shown.kind, shown.language, shown.text) == ("code", "python", code)


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


def test_a_change_that_was_taken_back_is_named_so():
    undone = RUNS[1].model_copy(update={"taken_back": ("call2",)})
    (author,) = find_authors([undone], [], "df")
    assert author.who == "run run2, call call2, taken back"


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
        ("df = read('a')\nprint(df.to_json(orient='values'))", "df = read('a')"),
        ("df['a'] = 1\ndf.b += 1\nother = df", "df.b += 1"),
        ("df.drop(columns='a', inplace=True)\ndf.head()", "df.drop(columns='a', inplace=True)"),
        ("df.append(1)\nlen(df)", "df.append(1)"),
        ("for df in (1, 2):\n    go(df == 1)", "for df in (1, 2):"),
        ("%time df = 1", "%time df = 1"),
        ("go()", "go()"),
        ("", ""),
    ],
)
def test_the_line_that_sets_a_name_is_the_one_shown(code: str, line: str):
    assert code_line(code, "df") == line


def test_the_line_of_a_column_is_shown_if_one_names_it():
    code = "df['a'] = 1\ndf['b'] = 2\ndf['c'] = 3"
    assert code_line(code, "df", "b") == "df['b'] = 2"
    assert code_line(code, "df", "z") == "df['c'] = 3"
