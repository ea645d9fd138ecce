"""Runs frozen as plain cells: they give the same variables, outputs, figures and files again."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from harness import YES, Lab, call
from ipyagent.agent.freezing import Frozen, FrozenCell, freeze
from ipyagent.digests import digest_content
from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import (
    DecidedBy,
    Display,
    Run,
    Step,
    ToolCall,
    ToolExecution,
    ToolResult,
    ToolStatus,
)
from ipyagent.tools.fresh_kernel import pack_result
from ipyagent.tools.sandbox import bubblewrap
from ipyagent.wiring import freezing
from ipyagent.wiring.freezing import compare, freeze_runs, make_script, verify, write_file

SALES = "region,year,revenue\nnorth,2024,5076\nsouth,2024,3701\nnorth,2025,6120\nsouth,2025,\n"
REGIONS = "region,manager\nnorth,Ada\nsouth,Grace\n"
FILES = {"sales.csv": SALES, "regions.csv": REGIONS, "notes.txt": "one\ntwo\n"}

PANDAS = "import pandas as pd"
LOAD = f"{PANDAS}\nsales = pd.read_csv('sales.csv')"
PLOT = "import matplotlib.pyplot as plt"


@dataclass
class Case:
    """Prompts of calls, each of which ends with an answer, after cells of the user's own."""

    id: str
    calls: Sequence[Any]
    outcome: str
    """Everything after `verified in a fresh kernel: `, or all of it."""
    own: Sequence[str] = ()
    answer: str = "Done."
    gone: Sequence[str] = ()
    kept: Sequence[str] = ()


CASES = [
    Case("a number", ["x = 40 + 2"], "1 variable equal"),
    Case(
        "a table that was looked at",
        [LOAD, "sales.head()", "print(sales.describe())", "total = sales.revenue.sum()"],
        "2 variables equal",
        gone=["head", "describe"],
    ),
    Case(
        "a failure that was repaired",
        [LOAD, "total = sales.revnue.sum()", "total = sales.revenue.sum()"],
        "2 variables equal",
        gone=["revnue"],
    ),
    Case(
        "failures that had begun",
        [
            "acc = []\nfor each in ['1', '2', 'x']:\n    acc.append(int(each))",
            "items = [1, 2]\nitems.append(4)\nitems.remove(9)",
            "total = sum(acc) + sum(items)",
        ],
        "3 variables equal",
        gone=["remove"],
    ),
    Case(
        "a result that was replaced",
        [LOAD, "clean = sales.dropna()", "clean = sales.fillna(0)\nprint(len(clean))"],
        "2 variables equal",
        gone=["dropna", "print"],
    ),
    Case(
        "changes of what was replaced",
        [LOAD, "t = sales.copy()\nt['x'] = 1", "t = sales.copy()\nt['y'] = 2"],
        "2 variables equal",
        gone=["'x'"],
    ),
    Case(
        "a figure",
        [LOAD, f"{PLOT}\nsales.plot(x='year', y='revenue')\nplt.title('Revenue')\nplt.show()"],
        "1 figure and 1 variable equal",
        gone=["head"],
    ),
    Case(
        "two figures in a call",
        [f"{PLOT}\nplt.plot([1, 2])\nplt.figure()\nplt.plot([2, 1])\nprint('drawn')"],
        "2 figures equal",
    ),
    Case(
        "a figure drawn on by a later call",
        [f"{PLOT}\nfig, ax = plt.subplots()\na = ax\n", "a.plot([1, 2])\nax.set_title('x')\nfig"],
        "1 figure equal",
        kept=["a = ax"],
    ),
    Case(
        "a join",
        [
            LOAD,
            "regions = pd.read_csv('regions.csv')\nregions.head()",
            "joined = sales.merge(regions, on='region')\njoined.shape",
        ],
        "3 variables equal",
        gone=["shape", "head"],
    ),
    Case(
        "a table grouped and pivoted",
        [
            LOAD,
            "by = sales.groupby('region').revenue.mean()\nwide = sales.pivot_table("
            "index='region', columns='year', values='revenue')\nwide",
        ],
        "3 variables equal",
    ),
    Case(
        "a series of days",
        [
            f"{PANDAS}\ndays = pd.Series(range(60), pd.date_range('2026-01-01', periods=60))",
            "months = days.resample('MS').sum()",
        ],
        "2 variables equal",
    ),
    Case(
        "a model that is fitted",
        [
            "import numpy as np\nfrom scipy import stats\nx = np.arange(10.0)\ny = 3 * x + 1",
            "fit = stats.linregress(x, y)\nslope = float(fit.slope)\nprint(f'{slope:.3f}')",
        ],
        "1 output and 3 variables equal",
        answer="The slope is 3.000.",
    ),
    Case(
        "an object with a state",
        [
            "class Model:\n    def fit(self, x):\n        self.mean = sum(x) / len(x)",
            "model = Model()\ndata = [1, 2, 6]",
            "model.fit(data)",
            "mean = model.mean",
        ],
        "2 variables equal",
        kept=["model.fit"],
    ),
    Case(
        "a polynomial",
        [
            "import numpy as np\nx = np.linspace(0, 1, 20)\ncoefficients = np.polyfit(x, x**2, 2)",
            "np.polyval(coefficients, 0.5)",
        ],
        "2 variables equal",
        gone=["polyval"],
    ),
    Case(
        "random numbers with a seed",
        [
            "import numpy as np\nnp.random.seed(7)",
            "a = np.random.rand(3)\nb = np.random.rand(3)",
            "b = np.random.rand(2)",
        ],
        "2 variables equal",
        kept=["seed"],
    ),
    Case(
        "a generator of random numbers",
        [
            "import numpy as np\nrng = np.random.default_rng(1)\nskipped = rng.normal(size=2)",
            "sample = rng.normal(size=3)",
        ],
        "2 variables equal",
    ),
    Case(
        "a file that is written",
        [
            call("write_file", path="out/a.txt", content="1\n2\n"),
            "with open('out/a.txt') as lines:\n    numbers = [int(line) for line in lines]",
        ],
        "1 variable and 1 file equal",
        kept=["mkdir"],
    ),
    Case(
        "a file that is edited",
        [
            call("read_file", path="sales.csv"),
            call("edit_file", path="sales.csv", old_string="5076", new_string="5077"),
            f"{PANDAS}\ntotal = pd.read_csv('sales.csv').revenue.sum()",
        ],
        "1 variable and 1 file equal",
        gone=["read_file"],
        kept=["replace('5076', '5077', 1)"],
    ),
    Case(
        "a file that is appended to, and one that is edited everywhere",
        [
            call("write_file", path="notes.txt", content="three\n", mode="append"),
            call("edit_file", path="regions.csv", old_string="r", new_string="R", replace_all=True),
        ],
        "2 files equal",
    ),
    Case(
        "a file that is deleted",
        [call("delete_file", path="notes.txt")],
        "1 file equal",
        kept=["unlink"],
    ),
    Case(
        "a file that code writes and reads",
        [
            f"{LOAD}\nsales.dropna().to_csv('clean.csv', index=False)",
            "with open('clean.csv') as file:\n    lines = file.readlines()",
        ],
        "2 variables equal",
        kept=["to_csv"],
    ),
    Case(
        "JSON",
        [
            "import json\nfrom pathlib import Path\ndata = {'a': [1, 2]}",
            "Path('d.json').write_text(json.dumps(data))",
            "again = json.loads(Path('d.json').read_text())",
        ],
        "1 output and 2 variables equal",
    ),
    Case(
        "an array in a file",
        ["import numpy as np\nnp.save('a.npy', np.arange(4))", "a = np.load('a.npy')"],
        "1 variable equal",
    ),
    Case(
        "a number of the answer that was looked at",
        [LOAD, "print(sales.revenue.sum())", "print(sales.year.nunique())\nsales.columns"],
        "1 output and 1 variable equal",
        answer="Revenue is 14,897.",
        gone=["nunique", "columns"],
        kept=["revenue.sum()"],
    ),
    Case(
        "a number that is derived",
        [LOAD, "print(sales.revenue.max())", "print(sales.revenue.min())", "sales.year"],
        "2 outputs and 1 variable equal",
        answer="The range is from 3,701 to 6,120, a difference of 2,419.",
        gone=["sales.year"],
    ),
    Case(
        "an answer of what was only looked at",
        ["1 + 1", "import math\nmath.floor(7.5)"],
        "1 output equal",
        answer="It was rounded.",
    ),
    Case(
        "changes inside",
        ["items = []", "items.append(1)\nitems.extend([2, 3])", "len(items)"],
        "1 variable equal",
        gone=["len"],
    ),
    Case(
        "another name for the same object",
        ["one = [1]\nother = one", "other.append(2)", "other = None"],
        "2 variables equal",
        kept=["append"],
    ),
    Case(
        "a part of an object",
        ["data = {'a': []}\npart = data['a']", "part.append(1)\npart = 0\nlen(data)"],
        "2 variables equal",
        kept=["append"],
    ),
    Case(
        "an iterator",
        ["it = iter([1, 2, 3])\nfirst = next(it)", "first = next(it)"],
        "1 variable equal",
    ),
    Case(
        "a function that reads what is defined later",
        ["def scale(x):\n    return x * factor", "factor = 3", "scaled = scale(2)\nfactor = 5"],
        "2 variables equal",
        kept=["factor = 3"],
    ),
    Case(
        "a function that changes what it is given",
        ["def mark(d):\n    d['seen'] = True", "state = {}\nmark(state)", "print(state)"],
        "1 variable equal",
        kept=["mark(state)"],
        gone=["print"],
    ),
    Case(
        "a function that changes a global name",
        ["count = 0\ndef step():\n    global count\n    count += 1", "step()\nstep()"],
        "1 variable equal",
    ),
    Case(
        "names in texts",
        [LOAD, "limit = 5000\nlarge = sales.query('revenue > @limit')", "limit = 0"],
        "3 variables equal",
        kept=["limit = 5000"],
    ),
    Case(
        "columns that a loop adds",
        [LOAD, "for name in ['year', 'revenue']:\n    sales[name + '_z'] = sales[name] - 1"],
        "1 variable equal",
    ),
    Case(
        "imports of several calls",
        [
            f"{PANDAS}\nimport math\nfrom math import sqrt, floor",
            f"{PANDAS}\nroot = sqrt(16)",
            "import math\nfloored = math.floor(2.5)",
        ],
        "2 variables equal",
        gone=["pandas"],
    ),
    Case(
        "a failure that had made something",
        ["a = 1\nprint(a)\nb = a + 1\nc = missing", "c = a + b"],
        "3 variables equal",
        gone=["missing"],
    ),
    Case("what is deleted", ["tmp = [1, 2]\ntotal = sum(tmp)\ndel tmp"], "1 variable equal"),
    Case(
        "an optional import",
        [
            "try:\n    import numpy as xp\nexcept ImportError:\n    xp = None",
            "n = int(xp.sum([1, 2]))",
        ],
        "1 variable equal",
    ),
    Case(
        "polars",
        [
            "import polars as pl\nt = pl.read_csv('sales.csv')",
            "t.head()",
            "s = t.filter(pl.col('revenue') > 4000).sort('revenue')",
        ],
        "2 variables equal",
        gone=["head"],
    ),
    Case(
        "statements on one line",
        ["a = 1; b = 2; print(a)", "c = [n for n in range(b)]"],
        "1 output and 3 variables equal",
    ),
    Case("sums in place", ["n = 1\nn += 2", "n *= 2", "s = 'x'\ns += 'y'"], "2 variables equal"),
    Case(
        "names in expressions",
        ["if (n := len('abc')) > 2:\n    size = f'{n} long'"],
        "2 variables equal",
    ),
    Case(
        "text",
        [
            "import re\ntext = 'one\\ntwo'\nwords = re.findall(r'\\w+', text)",
            "words.sort(reverse=True)\nwords",
        ],
        "2 variables equal",
    ),
    Case(
        "code in a text", ["x = 3", "y = eval('x * 2')", "exec('z = y + 1')"], "3 variables equal"
    ),
    Case(
        "an assertion",
        [LOAD, "assert len(sales) == 4", "n = len(sales)"],
        "2 variables equal",
        kept=["assert"],
    ),
    Case(
        "cells of the user's that it needs",
        ["share = part / whole"],
        "1 variable equal",
        own=["import os\nwhole = 10\nprint(whole)", "other = 5", "part = 4\npart += 1"],
        gone=["other", "import os"],
        kept=["print(whole)"],
    ),
    Case(
        "libraries that the user's cells import",
        ["import numpy as np\nn = np.mean(df['a'])"],
        "1 variable equal",
        own=[PANDAS, "df = pd.DataFrame({'a': [1, 3]})"],
    ),
    Case("the time", ["import time\nmoment = time.time_ns()"], "moment has another content"),
    Case(
        "random numbers without a seed",
        ["import random\nlot = random.random()"],
        "lot has another content",
    ),
    Case(
        "settings of a library",
        [
            f"{PANDAS}\npd.set_option('display.precision', 1)\nt = pd.DataFrame({{'a': [1.25]}})",
            "print(t)\npd.reset_option('display.precision')",
        ],
        "1 output and 1 variable equal",
        answer="It is 1.2.",
    ),
    Case(
        "comments",
        ["# how many\nn = 3  # three\n\n# and a look\nprint(n)"],
        "1 variable equal",
        kept=["# how many", "# three"],
        gone=["a look"],
    ),
    Case("a set", ["seen = set()", "seen.add(1)", "seen.add(2)"], "1 variable equal"),
    Case(
        "methods of own classes, with names that libraries have",
        [
            "class Box:\n    items = ()\n    def filter(self, x):\n        self.items += (x,)",
            "box = Box()\nbox.filter(3)",
            "n = len(box.items)",
        ],
        "1 variable equal",
    ),
    Case(
        "methods of own classes that change something and then fail",
        [
            "class Box:\n    items = ()\n    def put(self, n):\n        self.items += (n,)\n"
            "        assert n > 0",
            "box = Box()\nbox.put(1)",
            "box.put(-1)",
            "box.missing",
            "n = len(box.items)",
        ],
        "1 variable equal",
        kept=["box.put(-1)"],
    ),
    Case(
        "functions of libraries that change what they are given",
        [
            "import numpy as np\nimport operator\na = np.zeros(3)\nd = {}",
            "np.add.at(a, [0, 0, 1], 1)\noperator.setitem(d, 'a', 1)\nnp.putmask(a, a > 1, 9)",
        ],
        "2 variables equal",
    ),
    Case(
        "print to a file",
        ["import io\nbuffer = io.StringIO()\nprint('hi', file=buffer)", "t = buffer.getvalue()"],
        "1 variable equal",
    ),
    Case(
        "a decorator that keeps what it is given",
        [
            "names = []\ndef register(f):\n    names.append(f.__name__)\n    return f",
            "@register\ndef a(): ...\n@register\ndef b(): ...",
            "a = len(names)",
        ],
        "2 variables equal",
    ),
    Case(
        "a lambda that changes something",
        [LOAD, "seen = []\nnote = lambda x: seen.append(x)\nr = sales.year.map(note)\nr = 0"],
        "3 variables equal",
    ),
    Case(
        "a function that is defined under a condition",
        ["if True:\n    def f(x):\n        return x * k", "k = 3\nr = f(2)\nk = 5"],
        "2 variables equal",
    ),
    Case(
        "a seed that is imported by its name",
        ["from numpy.random import rand, seed\nseed(3)", "rand(2)\nv = rand(2)"],
        "1 variable equal",
    ),
    Case("all names of a module", ["from shlex import *", "r = split('a b')"], "1 variable equal"),
    Case(
        "a name that is imported twice",
        ["from math import floor as f\na = f(2.5)", "from math import ceil as f\nb = f(2.5)"],
        "2 variables equal",
    ),
    Case(
        "an import that needs what ran before it",
        ["import os\nos.environ['MODE'] = 'x'", "import wave, xdist\nn = len(xdist.__name__)"],
        "1 variable equal",
        kept=["os.environ['MODE'] = 'x'\nimport wave, xdist"],
    ),
    *(
        Case(
            f"an iterator that was advanced: {code!r}",
            [code, "rest = list(numbers)"],
            "1 variable equal",
            kept=[code.splitlines()[-2]],
        )
        for code in (
            "numbers = iter([1, 2, 3])\nfor each in numbers:\n    break",
            "numbers = (n for n in range(9))\nfor each in enumerate(numbers):\n    break",
            "import csv\nnumbers = csv.reader(['a,b', '1,2'])\nfor header in numbers:\n    break",
            "import io\nnumbers = io.StringIO('a\\nb')\nfor each in numbers:\n    break",
            "from itertools import islice\nnumbers = map(abs, [1, 2, 3])\n"
            "print(sum(islice(numbers, 2)))\nprint()",
            "def count():\n    yield from range(5)\nnumbers = count()\n"
            "print(max(numbers))\nprint()",
            "a = iter([1, 2, 3])\nnumbers = a\nif 1 in a:\n    pass",
            "numbers = iter([1, 2, 3])\nprint([*zip(numbers, [0])])\nprint()",
        )
    ),
    Case(
        "a property that changes its object",
        [
            "class Counter:\n    n = 0\n    @property\n    def following(self):\n"
            "        self.n += 1\n        return self.n",
            "counter = Counter()\nprint(counter.following)",
            "second = counter.following",
        ],
        "1 output and 1 variable equal",
        kept=["print(counter.following)"],
    ),
    Case(
        "looks by loops",
        [
            LOAD,
            "for name in sales.columns:\n    print(name)\nfor n, row in sales.iterrows():\n"
            "    print(row)\n    break\nfor year, part in sales.groupby('year'):\n    print(year)",
            "wide = sales.copy()\nyears = [2024, 2025]",
            "for n, year in enumerate(years):\n    print(n, year, max(years), 2024 in years)",
            "print([*zip(years, wide.year)], sum(len(str(each)) for each in years))",
        ],
        "3 variables equal",
        gone=["print"],
    ),
    Case(
        "what is not plain Python",
        [
            call("todo_write", todos=[{"content": "a"}]),
            "x = 1",
            call("record_note", content="x is 1"),
        ],
        "1 variable equal",
        gone=["todo_write"],
        kept=["# record_note"],
    ),
]


def fill(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)


def record(folder: Path, case: Case) -> tuple[list[str], Run]:
    """Return the user's cells and the run of a case."""
    lab = Lab(folder)
    for each in case.own:
        exec(each, lab.variables)
    calls = [
        call("run_python", code=each) if isinstance(each, str) else each for each in case.calls
    ]
    replies = [*({"calls": [each]} for each in calls), case.answer]
    settings = {"workspace": {"allow_delete": True}}
    return [*case.own], lab.run(replies, "Do it.", answer=YES, settings=settings)


def execute(folder: Path, frozen: Frozen) -> str:
    """Execute the cells in a fresh namespace; return what is equal, or what differs."""
    variables: dict[str, Any] = {}
    namespace, results = Namespace(variables), list[ToolResult]()
    for each in frozen.cells:
        if each.kind == "code":
            result = pack_result(namespace.run(each.source), namespace.variables())
            results.append(result)
    files = {path: read_digest(folder / path) for path in frozen.files}
    return compare(frozen, results, files)


def read_digest(path: Path) -> str | None:
    return digest_content(path.read_bytes() if path.exists() else None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_frozen_cells_give_the_same_again(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("before", "after")]
    for each in folders:
        each.mkdir()
        fill(each)
    monkeypatch.chdir(folders[0])
    own, run = record(folders[0], case)
    frozen = freeze([*own, run], {run.id}, {})
    text = "\n".join(each.source for each in frozen.cells if each.kind == "code")
    monkeypatch.chdir(folders[1])
    outcome = execute(folders[1], frozen)
    verb = "verified" if case.outcome.endswith("equal") else "different"
    assert outcome == f"{verb} in a fresh kernel: {case.outcome}", text
    for each in case.kept:
        assert each in text, text
    for each in case.gone:
        assert each not in text, text
    assert "ipyagent" not in text
    lines = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert len(lines) == len(set(lines)), text
    assert isinstance(ast.parse(text), ast.Module)


def test_a_run_is_frozen_with_what_it_needs_of_earlier_runs(tmp_path: Path) -> None:
    lab = Lab(tmp_path)

    def ask(*codes: str, answer: str = "Done.") -> Run:
        calls = [{"calls": [call("run_python", code=each)]} for each in codes]
        return lab.run([*calls, answer], f"Do {codes[0]}.", answer=YES)

    ask("import math\na = [3]\nunused = 1")
    ask("a.append(4)", "print(a)")
    ask("b = sum(a)", "c = 0")
    last = ask("root = math.sqrt(b)\nprint(root)", answer="It is 2.6458.")
    frozen = freeze_runs(lab.environment, [last])
    code = [each for each in frozen.cells if each.kind == "code"]
    before = "\n".join(each.source for each in code if each.is_own)
    assert before == "a = [3]\na.append(4)\nb = sum(a)"
    assert execute(tmp_path, frozen).endswith("1 output and 1 variable equal")
    assert [each["source"] for each in last.to_cells()] == [
        "import math",
        "# Prompt: Do root = math.sqrt(b)\n# print(root).\nroot = math.sqrt(b)\nprint(root)",
        "It is 2.6458.",
    ]


def test_imports_that_only_cells_of_the_user_need_are_not_of_the_run(tmp_path: Path) -> None:
    fill(tmp_path)
    own = f"import json, re\n{PANDAS}\na = json.loads('[1, 2]')"
    case = Case("", ["import math\nb = [math.sqrt(each) for each in a]"], "", own=[own])
    cells, run = record(tmp_path, case)
    frozen = freeze([*cells, run], {run.id}, {})
    code = [(each.is_own, each.source) for each in frozen.cells if each.kind == "code"]
    assert code[:2] == [(False, "import math"), (True, "import json, re")]
    assert execute(tmp_path, frozen).endswith("1 variable equal")


OWN = "%matplotlib inline\nimport pandas as pd\nsales = pd.read_csv('sales.csv')"


@pytest.mark.parametrize(
    ("between", "times"),
    [
        (["total = sales.revenue.sum()"], 1),
        (["late = sales[sales.year > 2024]", "other = late.copy()"], 1),
        (["sales['x'] = 1\na = sales.copy()"], 2),
        (["late = sales\nlate['x'] = 1\na = late.copy()"], 2),
        (["from pathlib import Path\nPath('sales.csv').write_text('a\\n')\na = sales.copy()"], 2),
    ],
)
def test_a_cell_of_the_user_that_ran_again_is_there_again_only_if_it_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: list[str], times: int
) -> None:
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path)
    python = OWN.partition("\n")[2]

    def ask(*codes: str) -> Run:
        exec(python, lab.variables)
        calls = [{"calls": [call("run_python", code=each)]} for each in codes]
        return lab.run([*calls, "Done."], answer=YES)

    first, last = ask(*between), ask("columns = [*sales.columns]")
    frozen = freeze([OWN, first, OWN, last], {first.id, last.id}, lab.variables)
    assert [each.source for each in frozen.cells].count(OWN) == times


def test_a_cell_of_the_user_that_adds_up_is_there_as_often_as_it_ran(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"n": 2})
    own = ["n = 0", "n += 1", "n += 1"]
    run = lab.run([{"calls": [call("run_python", code="m = n")]}, "Done."], answer=YES)
    frozen = freeze([*own, run], {run.id}, {})
    assert [each.source for each in frozen.cells if each.is_own] == own


def test_what_a_magic_names_is_kept(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"slow": str, "a": ""})
    run = lab.run([{"calls": [call("run_python", code="b = a + '!'")]}, "Done."], answer=YES)
    own = ["n = 1", "%time a = slow(n)", "m = 2"]
    frozen = freeze([*own, run], {run.id}, {})
    assert [each.source for each in frozen.cells if each.is_own] == own[:2]


def test_a_run_that_only_showed_things_shows_them_all_again() -> None:
    shown = {"df.head()": "text/html", "df.sum()": "", "display(Markdown('# A'))": "text/markdown"}
    executions = [
        ToolExecution(
            call=ToolCall(id=code, name="run_python", arguments={"code": code}),
            status=ToolStatus.SUCCESS,
            decided_by=DecidedBy.REHEARSAL,
            result=ToolResult(output="…", displays=(Display(data={mime: "…"}),) if mime else ()),
        )
        for code, mime in shown.items()
    ]
    run = Run(id="shown", prompt="Show it.", steps=(Step(number=1, executions=tuple(executions)),))
    frozen = freeze([run], {run.id}, {})
    kept = "\n".join(each.source for each in frozen.cells)
    assert [code in kept for code in shown] == [True, False, True]


def test_a_call_that_was_taken_back_is_left_out(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    replies = [{"calls": [call("run_python", code=each)]} for each in ("a = 1", "b = 2")]
    run = lab.run([*replies, "Done."], answer=YES)
    run = run.model_copy(update={"taken_back": (run.executions[0].call.id,)})
    assert [each.name for each in freeze([run], {run.id}, {}).variables] == ["b"]


def test_a_script_says_what_it_is_and_replaces_only_what_was_frozen(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    code = call("run_python", code="a = 1\nprint(a)")
    run = lab.run([{"calls": [code]}, "It is **1**.\n\nDone."], answer=YES)
    frozen, path = freeze_runs(lab.environment, [run]), tmp_path / "sub" / "a.py"
    write_file(frozen, path)
    write_file(frozen, path)
    text = path.read_text()
    assert f"# Frozen by ipyagent: {run.id} (" in text
    assert "# Unverified: " in text
    assert text.endswith("# %% [markdown]\n# It is **1**.\n#\n# Done.\n")
    variables: dict[str, Any] = {}
    exec(text, variables)
    assert variables["a"] == 1
    path.write_text("print('mine')\n")
    with pytest.raises(ConfigError, match="exists and was not frozen"):
        write_file(frozen, path)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A place where a run has made a variable."""
    lab = Lab(tmp_path)
    lab.run([{"calls": [call("run_python", code="a = 1\nprint(a)")]}, "Done."], answer=YES)
    return lab


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    support = bubblewrap.SandboxSupport(problem="a test")
    monkeypatch.setattr(bubblewrap, "detect_sandbox", lambda: support)


@pytest.mark.usefixtures("no_sandbox")
def test_without_a_sandbox_no_code_of_others_is_tried(lab: Lab) -> None:
    lab.session.conversation.add_origins(["their.ipynb"])
    frozen = freeze_runs(lab.environment, [*lab.session.runs])
    with pytest.raises(AgentError, match="what others may have recorded"):
        verify(lab.environment, frozen)


@pytest.mark.slow
@pytest.mark.usefixtures("no_sandbox")
def test_without_a_sandbox_the_outcome_says_so(lab: Lab) -> None:
    frozen = verify(lab.environment, freeze_runs(lab.environment, [*lab.session.runs]))
    equal = "verified in a fresh kernel: 1 variable equal"
    assert frozen.outcome == f"{equal} (no sandbox: a test)"


def test_a_large_workspace_is_not_copied(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.environment.workspace.root / "data.bin").write_bytes(bytes(2_000))
    monkeypatch.setattr(freezing, "_MOST_BYTES", 1_000)
    with pytest.raises(AgentError, match=r"the workspace has more than 1.0 kB"):
        verify(lab.environment, freeze_runs(lab.environment, [*lab.session.runs]))


@pytest.mark.usefixtures("no_sandbox")
def test_what_the_fresh_kernel_says_last_is_why_it_could_not_be_tried(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freezing.fresh_kernel, "__name__", "this")
    with pytest.raises(AgentError, match="in a fresh kernel: Namespaces are one"):
        verify(lab.environment, freeze_runs(lab.environment, [*lab.session.runs]))


@pytest.mark.slow
def test_a_cell_that_ends_its_kernel_is_named(lab: Lab) -> None:
    frozen = freeze_runs(lab.environment, [*lab.session.runs])
    ended = replace(frozen, cells=(FrozenCell("import os\nos._exit(1)"), *frozen.cells))
    outcome = verify(lab.environment, ended).outcome
    assert "code cell 1 ended the kernel" in outcome


def test_cells_of_the_user_are_read_from_the_notebook_of_an_earlier_kernel(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"numbers": [1, 2], "spare": 0})
    code = call("run_python", code="total = sum(numbers)")
    run = lab.run([{"calls": [code]}, "Done."], "Add them up.", answer=YES)
    sources = ["%load_ext ipyagent", "numbers = [1, 2]\nprint(numbers)", "spare = 0"]
    sources += ["%%agent -m x\nAdd them up.", "numbers = []"]
    cells = [nbformat.v4.new_code_cell(each) for each in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    frozen = freeze_runs(lab.environment, [run], tmp_path / "a.ipynb")
    own = [each.source for each in frozen.cells if each.is_own]
    assert own == ["numbers = [1, 2]\nprint(numbers)"]
    assert execute(tmp_path, frozen).endswith("1 variable equal")


def test_magics_are_comments_in_a_script_and_come_first_in_their_cell(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    run = lab.run([{"calls": [call("run_python", code="a = 1")]}, "Done."], answer=YES)
    codes = "%matplotlib inline\nprint(b)", "%%bash\nls\ndate"
    calls = [run.executions[0].call.model_copy(update={"arguments": {"code": c}}) for c in codes]
    done = [run.executions[0].model_copy(update={"call": c, "preview": None}) for c in calls]
    steps = tuple(run.steps[0].model_copy(update={"executions": (each,)}) for each in done[::-1])
    run = run.model_copy(update={"steps": (*steps, *run.steps[1:])})
    frozen = freeze_runs(lab.environment, [run])
    sources = [each.source for each in frozen.cells]
    assert sources == ["# Prompt: Go on.", codes[1], "%matplotlib inline", "Done."]
    text = "# %%\n# %%bash\n# ls\n# date\n\n# %%\n# %matplotlib inline\n"
    assert text in make_script(frozen)
