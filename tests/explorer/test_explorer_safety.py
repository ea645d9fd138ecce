"""A prompt, a name or a value becomes a literal, and the user's names stay as they are."""

from __future__ import annotations

import ast
import builtins
import json as json_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as pyplot
import pandas as pd
import polars
import pytest
from explorer_runner import TOOLS, Kernel
from hypothesis import example, given, settings, strategies as st

from ipyagent import explorer
from ipyagent.explorer.lexer import PHRASES
from ipyagent.explorer.steps import with_imports
from ipyagent.explorer.text import literal
from ipyagent.schema import Message, Role
from ipyagent.schema.tables import ColumnFacts, TableFacts, WorkspaceFacts

NAMES = ["species", "body_mass_g", "sex", "order date", "paid", "Adelie", "male", "data/p.csv"]
COLUMNS = (
    ColumnFacts("species", "str", "text", ("Adelie", "Gentoo")),
    ColumnFacts("body_mass_g", "float64", "number"),
    ColumnFacts("sex", "str", "text", ("male", '"; os.system(1)')),
    ColumnFacts("order date", "datetime64[us]", "date"),
    ColumnFacts("paid", "bool", "bool"),
)
CALLED = {"print", "profile", "outliers"}
ATTRIBUTES_REFUSED = {"system", "popen", "eval", "query", "pipe", "to_pickle", "read_pickle"}

words = st.sampled_from(sorted({" ".join(phrase) for phrase in PHRASES} | set(NAMES)))
noise = st.text(max_size=12) | st.sampled_from(['"', "'", "\\", "\n", '"]; x(', "`", "{", "#", "é"])
prompts = st.lists(words | st.integers(0, 3000).map(str) | noise, max_size=9).map(" ".join)
templates = st.sampled_from(
    [
        "mean body mass where species is {}",
        "how many penguins where sex = {}",
        "mean of {}",
        "fill sex with {}",
        "rename sex to {}",
        "save it to {}.csv",
        "load {} as x",
        "load data/p.csv as {}",
        "add a column {} = body_mass_g / body_mass_g",
        "read {}",
        "histogram of {}",
    ]
)


def facts(*more: ColumnFacts, file: str = "data/p.csv") -> WorkspaceFacts:
    tables = (TableFacts("p", columns=(*COLUMNS, *more)), TableFacts(path=file))
    return WorkspaceFacts(tables, {"p": "DataFrame"}, (file,))


def check(code: str) -> None:
    """The code only calls methods of tables, `print`, and helpers that it defines."""
    tree = ast.parse(code)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert ast.unparse(node) == "import pandas as pd", code
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id in CALLED, code
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".apply"):
            assert {ast.unparse(argument) for argument in node.args} <= defined, code
        if isinstance(node, ast.Attribute):
            assert node.attr not in ATTRIBUTES_REFUSED, code
            assert not node.attr.startswith("_"), code
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assert not hasattr(builtins, node.id), code
        assert not isinstance(node, ast.ClassDef | ast.Global), code


def follow(prompt: str, known: WorkspaceFacts) -> list[str]:
    """Check the code of a prompt, and return it."""
    said = explorer.reply([Message.of(Role.USER, prompt or " .")], known, TOOLS)
    made = [arguments["code"] for name, arguments in said.calls if name == "run_python"]
    for code in made:
        check(code)
    return made


def test_the_check_would_find_injected_code() -> None:
    value = "x']; __import__('os').system('id') #"
    naive = f"p[p['species'] == '{value}']"
    for code in (naive, "p[0]; eval('1')", "p.query('a')", "import os", "print = 3"):
        try:
            check(code)
        except (AssertionError, SyntaxError):
            continue
        raise AssertionError(f"not found: {code}")


@settings(max_examples=60, deadline=None)
@given(prompts)
@example("outlier")
def test_no_prompt_crashes_it_or_becomes_code(prompt: str) -> None:
    follow(f"x{prompt}" if not prompt.strip() else prompt, facts())


@settings(max_examples=60, deadline=None)
@given(templates, st.text(max_size=25), st.sampled_from(["{}", '"{}"', "'{}'", "`{}`", "“{}”"]))
def test_no_value_becomes_code(template: str, text: str, quotes: str) -> None:
    follow(template.format(quotes.format(text)), facts())


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=20))
def test_no_name_of_a_column_or_file_becomes_code(name: str) -> None:
    odd = ColumnFacts(name, "float64", "number")
    for prompt in ("profile p", f"mean {name}", f"mean `{name}` by species", "correlation matrix"):
        follow(prompt, facts(odd))
    for prompt in (f"load {name}", f"profile `{name}.csv`", "load f"):
        follow(prompt, facts(file=f"{name}.csv"))


@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_a_literal_is_one_constant_with_the_same_value(value: object) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_texts_that_are_joined_stay_literals() -> None:
    for name in ('a" "b" "c', "it's {x}", "a\\' 'b", 'x"), os.system("y'):
        quoted = name.replace("`", "")
        (code,) = follow(
            f"histogram of `{quoted}` by species", facts(ColumnFacts(name, "float64", "number"))
        )
        texts = {n.value for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant)}
        assert f"Distribution of {name} by species" in texts


SALES = pd.DataFrame(
    {"kind": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 5.0], "y": [2.0, 4.0, 7.0, 9.0]}
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    mpl.use("Agg")
    SALES.to_csv(tmp_path / "sales.csv", index=False)
    return tmp_path


QUESTIONS = [
    "load sales.csv",
    "mean x in sales.csv",
    "profile sales.csv",
    "outliers in sales.csv",
    "Plot x by kind in sales.csv",
    "scatter plot of y and x in sales.csv",
    "correlation of x and y in sales.csv",
    "Which kind has the highest mean x in sales.csv?",
]


def test_no_variable_of_the_user_changes(root: Path) -> None:
    wrong = []
    for question in QUESTIONS:
        mine: dict[str, Any] = {
            "pd": 0.03, "plt": "plate", "pandas": [1], "np": None, "pl": 5, "print": 9,
            "builtins": 4, "profile": 2, "outliers": 1, "list": "l", "len": [1], "sales": 7,
        }  # fmt: skip
        plain, kernel = Kernel(root), Kernel(root, **mine)
        answer, expected = kernel.ask(question).text, plain.ask(question).text
        changed = [name for name in mine if kernel.namespace.get(name) is not mine[name]]
        pyplot.close("all")
        if changed or answer.replace("sales_2", "sales") != expected or not kernel.code:
            wrong.append((question, changed, answer, kernel.code))
    assert wrong == []


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, "import pandas as pd\n"),
        ({"pd": pd}, "import pandas as pd\n"),
        ({"pd": 0.03}, "import pandas\n"),
        ({"pd": polars}, "import pandas\n"),
        ({"pd": 1, "pandas": 2}, "import pandas as pandas_2\n"),
        ({"pd": json_module, "pandas": 1, "pandas_2": 1}, "import pandas as pandas_3\n"),
        ({f"variable_{number}": 1 for number in range(200)} | {"pd": 1}, "import pandas\n"),
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
    assert all(kernel.namespace[name] is value for name, value in variables.items())


def test_imports_give_way_in_code_but_not_in_texts() -> None:
    source = "'é'; pd.x; print('pd')"
    assert with_imports("1", {}) == "1"
    assert with_imports(source, {"pd": "int"}) == "import pandas\n\n'é'; pandas.x; print('pd')"
    assert with_imports("print(1)", {"print": "int"}) == "import builtins\n\nbuiltins.print(1)"
