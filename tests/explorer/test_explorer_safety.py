"""A prompt, a name or a value becomes a literal, and the user's names stay as they are."""

from __future__ import annotations

import ast
import builtins
import json as json_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as pyplot
import pandas as pd
import polars
import pytest
from explorer_runner import TOOLS, Kernel, offered, reply
from hypothesis import example, given, settings, strategies as st

from ipyagent.explorer.frame import literal, with_imports
from ipyagent.explorer.lexer import PHRASES
from ipyagent.explorer.workspace import Workspace, with_variables

NAMES = ["species", "body_mass_g", "sex", "order date", "paid", "Adelie", "male", "data/p.csv"]
TABLE = "species: str, body_mass_g: float64, sex: str, order date: datetime64[us], paid: bool"
CALLED = {"print", "len", "list", "map", "str", "dict", "profile", "outliers", "differences"}
MODULES = {"pandas", "polars", "polars.selectors", "matplotlib.pyplot", "scipy", "json"}
ATTRIBUTES_REFUSED = {
    "system",
    "popen",
    "eval",
    "query",
    "pipe",
    "to_pickle",
    "read_pickle",
}

words = st.sampled_from(sorted({" ".join(phrase) for phrase in PHRASES} | set(NAMES)))
noise = st.text(max_size=12) | st.sampled_from(['"', "'", "\\", "\n", '"]; x(', "`", "{", "#", "é"])
prompts = st.lists(words | st.integers(0, 3000).map(str) | noise, max_size=9).map(" ".join)
templates = st.sampled_from(
    [
        "mean body mass where species is {}",
        "how many penguins where sex = {}",
        "mean of {}",
        "load {} as x",
        "load data/p.csv as {}",
        "add a column {} = body_mass_g / body_mass_g",
        "read {}",
        "histogram of {}",
        "compare body mass between {} and male",
    ]
)


def messages(prompt: str, table: str = TABLE, files: str = "data/p.csv") -> list[dict[str, object]]:
    context = (
        f"<context>\nVariables:\n- p: DataFrame, 3 rows × {table.count(': ')} columns ({table})\n"
        f"Files:\n- {files}\n</context>"
    )
    return [{"role": "user", "content": f"{prompt}\n{context}"}]


def check(code: str) -> None:
    """The code only calls methods of tables and figures, and a few harmless builtins."""
    tree = ast.parse(code)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
            assert set(named) <= MODULES, code
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id in CALLED, code
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".apply"):
            assert {ast.unparse(argument) for argument in node.args} <= defined, code
        if isinstance(node, ast.Attribute):
            assert node.attr not in ATTRIBUTES_REFUSED, code
            assert not node.attr.startswith("_"), code
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assert not hasattr(builtins, node.id), code
        assert not isinstance(node, ast.Lambda | ast.ClassDef | ast.Global), code


def follow(conversation: list[dict[str, object]]) -> None:
    """Check the first call, and the one after a look that brought hostile values."""
    said = reply(conversation, offered(*TOOLS))
    for name, arguments in said.calls:
        if name != "run_python":
            continue
        check(arguments["code"])
        call = {"id": "c", "function": {"name": name, "arguments": arguments}}
        output = 'variable,value\nspecies,Adelie\nsex,male\nsex,"""; os.system(1)"\n'
        then = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": output},
        ]
        for _, second in reply([*conversation, *then], offered(*TOOLS)).calls:
            check(second.get("code", ""))


def test_the_check_would_find_injected_code() -> None:
    value = "x']; __import__('os').system('id') #"
    naive = f"p[p['species'] == '{value}']"
    for code in (naive, "p[0]; eval('1')", "p.query('a')", "import os", "print = 3"):
        try:
            check(code)
        except (AssertionError, SyntaxError):
            continue
        raise AssertionError(f"not found: {code}")


@settings(max_examples=40, deadline=None)
@given(prompts)
@example("outlier")
def test_no_prompt_crashes_it_or_becomes_code(prompt: str) -> None:
    follow(messages(prompt))


@settings(max_examples=40, deadline=None)
@given(templates, st.text(max_size=25), st.sampled_from(["{}", '"{}"', "'{}'", "`{}`", "“{}”"]))
def test_no_value_becomes_code(template: str, text: str, quotes: str) -> None:
    follow(messages(template.format(quotes.format(text))))


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=20))
def test_no_name_of_a_column_or_file_becomes_code(name: str) -> None:
    table = f"species: str, {name!r}: float64, sex: str"
    for prompt in ("profile p", "mean " + name, f"mean `{name}` by species", "correlation matrix"):
        follow(messages(prompt, table=table))
    for prompt in ("load " + name, f"profile `{name}.csv`", "load f"):
        follow(messages(prompt, files=f"{name}.csv"))


@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_a_literal_is_one_constant_with_the_same_value(value: object) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_texts_that_are_joined_stay_literals() -> None:
    for name in ('a" "b" "c', "it's {x}", "a\\' 'b", 'x"), os.system("y'):
        table = f"species: str, {name!r}: float64, sex: str"
        quoted = name.replace("`", "")
        said = reply(messages(f"histogram of `{quoted}` by species", table=table), offered(*TOOLS))
        for _, arguments in said.calls:
            check(arguments["code"])
            texts = {
                n.value
                for n in ast.walk(ast.parse(arguments["code"]))
                if isinstance(n, ast.Constant)
            }
            assert f"Distribution of {name} by species" in texts


SALES = pd.DataFrame(
    {"kind": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 5.0], "y": [2.0, 4.0, 7.0, 9.0]}
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    SALES.to_csv(tmp_path / "sales.csv", index=False)
    return tmp_path


QUESTIONS = {
    "load sales.csv": "pd",
    "mean x in sales.csv": "pd",
    "Plot x by kind in sales.csv": "plt",
    "scatter plot of y and x in sales.csv by kind": "plt",
    "correlation of x and y in sales.csv": "stats",
    "Is x in sales.csv normally distributed? Use Shapiro-Wilk.": "stats",
    "What is the mean of x, the median of y, the standard deviation of x and the maximum of y in "
    "sales.csv?": "json",
}


@pytest.mark.parametrize("context", [True, False])
def test_no_variable_of_the_user_changes(root: Path, context: bool) -> None:
    wrong = []
    for question in QUESTIONS:
        mine: dict[str, Any] = {
            "pd": 0.03, "plt": "plate", "stats": [1], "json": {"j": 1}, "np": None, "pl": 5,
            "results": "mine", "selected": 1, "points": 2, "name": "n", "group": "g", "sales": 7,
            "line": 3, "test": 4, "fit": 6, "keys": 8,
        }  # fmt: skip
        kernel = Kernel(root, **mine)
        answer = kernel.ask(question, context=context)
        changed = [name for name in mine if kernel.namespace.get(name) is not mine[name]]
        if changed or "failed" in answer.text or not kernel.code:
            wrong.append((question, changed, answer.text, kernel.code))
    pyplot.close("all")
    assert wrong == []


def test_a_library_that_has_its_usual_name_is_used_by_it(root: Path) -> None:
    kernel = Kernel(root, pd=pd, plt=pyplot)
    kernel.ask("load sales.csv")
    assert kernel.code[0].startswith("import pandas as pd\n")
    kernel.ask("load sales.csv as more")
    assert "import pandas as pd\n" in kernel.code[-1]


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({"pd": 0.03}, "import pandas\n"),
        ({"pd": polars}, "import pandas\n"),
        ({"pd": lambda: 1}, "import pandas\n"),
        ({"pd": 1, "pandas": 2}, "import pandas as pandas_2\n"),
        ({"pd": 1, "pandas": pd}, "import pandas\n"),
        ({"data": 1}, "import pandas as pd\n"),
        ({f"variable_{number}": 1 for number in range(200)}, "import pandas\n"),
        ({"pd": json_module, "pandas": 1, "pandas_2": 1}, "import pandas as pandas_3\n"),
    ],
)
def test_the_import_takes_a_name_that_is_free(
    root: Path, variables: dict[str, Any], first: str
) -> None:
    kernel = Kernel(root, **variables)
    answer = kernel.ask("load sales.csv")
    assert kernel.code[0].startswith(first)
    assert "4 rows" in answer.text
    assert kernel.namespace["sales"].equals(SALES)
    assert all(
        kernel.namespace[name] is value
        for name, value in variables.items()
        if name != "pandas" or value is not pd
    )


def test_a_name_that_the_user_gives_is_the_name(root: Path) -> None:
    kernel = Kernel(root, mine=1)
    answer = kernel.ask("load sales.csv as mine")
    assert kernel.namespace["mine"].equals(SALES)
    assert "replaces what that variable held" in answer.text
    assert "replaces" not in kernel.ask("load sales.csv as other").text


GIVE_WAY = {
    ("pl: int", "pl.f('pl', pl=pl)"): "import polars\n\npolars.f('pl', pl=polars)",
    ("stats: int", "stats.t"): "import scipy.stats as scipy_stats\n\nscipy_stats.t",
    ("plt: int", "plt.x"): "from matplotlib import pyplot\n\npyplot.x",
    ("pd: int", "'é'; pd.x; 'pd'"): "import pandas\n\n'é'; pandas.x; 'pd'",
    ("helper: int", "helper = 2"): "helper = 2",
    ("modules: pd (pandas), json", "pd.x"): "import pandas as pd\n\npd.x",
    ("modules: json, …", "pd.x"): "import pandas\n\npandas.x",
    ("list: int", "list(pd.x)"): ("import builtins\nimport pandas as pd\n\nbuiltins.list(pd.x)"),
}


def test_imports_give_way() -> None:
    for (variables, code), spared in GIVE_WAY.items():
        assert with_imports(code, with_variables(Workspace(), f"- {variables}")) == spared


@pytest.mark.parametrize("name", ["print", "len", "list", "map", "sum", "max", "builtins"])
def test_functions_of_python_are_called_where_the_user_has_their_names(
    root: Path, name: str
) -> None:
    mine = [1]
    for question in [*QUESTIONS, "Which kind has the highest x in sales.csv?"]:
        plain, kernel = Kernel(root), Kernel(root, **{name: mine, "len": mine})
        answer, expected = kernel.ask(question).text, plain.ask(question).text
        assert kernel.namespace[name] is kernel.namespace["len"] is mine
        assert "failed" not in answer, answer
        assert answer.splitlines()[0] == expected.splitlines()[0]
    pyplot.close("all")
