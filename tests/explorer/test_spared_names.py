"""The user's names stay as they are, whatever the explorer computes."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as pyplot
import pandas as pd
import polars
import pytest
from explorer_runner import Kernel

from ipyagent.explorer.frame import with_imports
from ipyagent.explorer.workspace import Workspace, with_variables

TABLE = pd.DataFrame(
    {"kind": ["a", "b", "a", "b"], "x": [1.0, 2.0, 3.0, 5.0], "y": [2.0, 4.0, 7.0, 9.0]}
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    TABLE.to_csv(tmp_path / "sales.csv", index=False)
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
    assert kernel.namespace["sales"].equals(TABLE)
    assert all(
        kernel.namespace[name] is value
        for name, value in variables.items()
        if name != "pandas" or value is not pd
    )


def test_a_name_that_the_user_gives_is_the_name(root: Path) -> None:
    kernel = Kernel(root, mine=1)
    answer = kernel.ask("load sales.csv as mine")
    assert kernel.namespace["mine"].equals(TABLE)
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
