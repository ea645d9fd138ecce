"""Changes that leave no trace in the names of variables are noticed; the kernel stays as it is."""

from __future__ import annotations

import ctypes
import enum
import functools
import importlib.util
import io
import os
import pickle
import random
import re
import sqlite3
import sys
import types
import weakref
from array import array
from collections import ChainMap, OrderedDict, UserDict, defaultdict
from contextlib import closing
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path
from queue import Queue
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ipyagent import imports
from ipyagent.kernel.namespace import Namespace
from ipyagent.rehearsal.variable_effects import VariableEffects
from ipyagent.schema import RehearsalOutcome, ToolResult
from ipyagent.tools.rehearsal import machine_facts
from ipyagent.tools.reports import is_bindable
from patience import PATIENCE
from rehearsal_trial import judge, rehearse, run_in_fork
from sampling import cases

PROGRAMS = int(os.environ.get("REHEARSAL_TEST_PROGRAMS", "8"))


class Base:
    """What a class has by default."""


class Own(Base):
    """A class of the user's; `__eq__` and the like must not run in the kernel."""

    shared: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.inner = {"deep": [1, 2]}

    def grow(self) -> None:
        self.inner["deep"].append(3)

    @functools.cached_property
    def cached(self) -> list[int]:
        return [1]


class Table(pd.DataFrame):
    """A table of the user's own."""


def counter() -> Any:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return count

    return step


def put(module: Any) -> None:
    module.extra_name = 1


def variables() -> dict[str, Any]:
    own, marked = Own(), pd.Series([1])
    object.__setattr__(marked, "extra", [1])
    return {
        "numbers": [1, 2, [3]],
        "table": pd.DataFrame({"a": [1, 2, 3], "b": list("xyz")}),
        "column": pd.Series([1.0, 2.0]),
        "marked": marked,
        "array": np.arange(5),
        "big": np.zeros(1_000_000),
        "mine": Table({"a": [1, 2]}),
        "names": {"k": {"deep": [1]}},
        "own": own,
        "Own": Own,
        "step": counter(),
        "pd": pd,
        "np": np,
        "random": random,
        "sys": sys,
        "objects": np.array([[1], [2]], dtype=object)[:, 0],
        "text": bytearray(b"abc"),
        "put": put,
        "ids": defaultdict(counter()),
        "Base": type("Base", (Base,), {}),
        "days": pd.Series([1, 2, 3], index=pd.to_datetime(["2020-1-1", "2020-1-2", "2020-1-3"])),
    }


def effects(report: dict[str, Any]) -> list[str]:
    assert "problem" not in report, report
    return [*(each["name"] for each in report["variables"]), *report["unclear"]]


CHANGES = [
    "numbers.append(1)", "numbers[2].append(1)", "numbers[0] = 9", "numbers[:] = []",
    "numbers.sort(key=str, reverse=True)", "table['c'] = 1", "table.loc[0, 'a'] = 9",
    "table.iloc[0, 0] = 9", "table.pop('a')", "table.columns = ['u', 'v']",
    "table.index.name = 'n'", "table.extra = 1", "marked.extra.append(1)",
    "table.insert(0, 'z', 0)", "table.attrs['x'] = 1", "table.at[1, 'b'] = 'q'",
    "column[0] = 9", "column.name = 'n'", "column += 1", "array[0] = 9", "array += 1",
    "array.sort(); array[:] = array[::-1]", "array.fill(3)", "array.shape = (5, 1)",
    "array.dtype = 'f8'", "array.resize(7, refcheck=False)",
    "np.copyto(array, 7)", "array.setflags(write=False)", "names['k']['deep'].append(2)",
    "names.update(z=1)", "names.popitem()", "own.grow()", "own.new = 1", "del own.inner",
    "Own.shared.append(1)", "Own.other = 1", "Own.grow = None", "step()", "text += b'd'",
    "text[0] = 0", "globals()['numbers'].append(1)", "exec('numbers.append(1)')", "del numbers",
    "numbers = 2", "[x.append(1) for x in [numbers]]", "(lambda: names.clear())()",
    "objects[0] = 5", "getattr(numbers, 'app' + 'end')(1)", "vars(own)['inner'] = 0",
    "own.__dict__.clear()", "ids.default_factory()", "ids.default_factory = None",
    "put.__doc__ = 'z'", "put.__name__ = 'z'", "Own.__name__ = 'Z'", "Own.__bases__ = (Base,)",
    "table.flags.allows_duplicate_labels = False", "days.index.freq = 'D'",
    "v = column.to_numpy(); v.flags.writeable = True; v[0] = 9; del v", "column.array[0] = 9",
    "a, *table.attrs['b'] = 1, 2", "del pd", "_private = 1", "mine['a'] = 9",
    "mine.loc[0, 'a'] = 9", "big[500_000] = 1",
]  # fmt: skip


@pytest.mark.parametrize("code", cases(CHANGES))
def test_a_change_is_noticed(tmp_path: Path, code: str) -> None:
    found = effects(rehearse(code, variables(), tmp_path))
    assert set(found).difference(re.findall(r"import (\w+)", code)), "not noticed"


SUMMARIES = {
    "table['c'] = 1": ("table", "3 × 2 → 3 × 3 · + c (int64)"),
    "table.loc[0, 'a'] = 9": ("table", "a: 1 value changed"),
    "numbers.append(4)": ("numbers", "3 → 4 items"),
    "names['new'] = 1": ("names", "+ 'new'"),
    "array[0] = 9": ("array", "1 value changed"),
}


@pytest.mark.parametrize("code", cases(SUMMARIES))
def test_a_change_is_told_as_after_a_real_run(tmp_path: Path, code: str) -> None:
    report = rehearse(code, variables(), tmp_path)
    told = {each["name"]: each["summary"] for each in report["variables"]}
    real = Namespace(variables()).run(code).variables
    assert told == dict([SUMMARIES[code]]) == {each.name: each.summary for each in real}


class LabelType(pd.api.extensions.ExtensionDtype):
    name, type = "label", str

    @classmethod
    def construct_array_type(cls) -> type:
        return Labels


class Labels(pd.api.extensions.ExtensionArray):
    """A column of a type that pandas does not know, as other libraries have them."""

    dtype, nbytes = LabelType(), 0

    def __init__(self, values: list[str]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        found = np.array(self.values, dtype=object)[place]
        return found if isinstance(found, str) else Labels([*found])

    def __setitem__(self, place: Any, value: Any) -> None:
        self.values[place[0] if isinstance(place, tuple) else place] = value

    def copy(self) -> Labels:
        return Labels([*self.values])


class Callers:
    """Methods of every kind, each with a list that every call changes."""

    def __call__(self, acc: list[int] = []) -> list[int]:  # noqa: B006
        acc.append(1)
        return list(acc)

    @staticmethod
    def free(acc: list[int] = []) -> None:  # noqa: B006
        acc.append(1)

    @classmethod
    def made(cls, acc: list[int] = []) -> None:  # noqa: B006
        acc.append(1)

    @property
    def read(self, acc: list[int] = []) -> list[int]:  # noqa: B006
        acc.append(1)
        return list(acc)


class Callees(Callers):
    """Inherits them all."""


class Choice(enum.Enum):
    LISTED: ClassVar[Any] = [1]


def collect(acc: list[int] = []) -> None:  # noqa: B006
    acc.append(1)


class Raw(bytearray):
    """Bytes of the user's own."""


class Texts(dict[str, int]):
    """A dictionary of the user's own."""


class Ordered(OrderedDict[str, int]):
    """Another one, with an order that can be changed."""


class Kind(type):
    kinds: ClassVar[list[int]] = []


class OfKind(metaclass=Kind):
    """A class whose class holds data."""


def memory_of_c() -> dict[str, Any]:
    """Return memory that Python reads as bytes."""
    return {
        "packed": array("i", [1, 2]),
        "view": memoryview(bytearray(b"ab")),
        "raw": Raw(b"ab"),
        "values": (ctypes.c_int * 2)(1, 2),
        "number": ctypes.c_int(1),
    }


def reaching() -> dict[str, Any]:
    """Objects that never change themselves, but lead to some that do; cells, labels of tables."""
    numbers = [1, 2]
    return {
        "push": numbers.append,
        "length": numbers.__len__,
        "read_only": types.MappingProxyType({"a": [1]}),
        "callers": Callers(),
        "Callers": Callers,
        "Callees": Callees,
        "property_of": Callers.__dict__["read"],
        "static": Callers.__dict__["free"],
        "part": functools.partial(collect),
        "lambda_part": functools.partial(lambda acc: acc.append(1), [1]),
        "Choice": Choice,
        "listed": Choice.LISTED,
        "model": Fraction(1, 2),
        "cells": pd.DataFrame({"a": [[1], [2]]}),
        "index": pd.Index([1, 2]),
        "rows": pd.Series([1], name="r"),
        "labels": pd.DataFrame({"a": Labels(["x", "y"])}),
        **memory_of_c(),
        "chain": ChainMap({"a": 1}, {"b": [1]}),
        "wrapped": UserDict({"a": 1}),
        "texts": Texts(a=1, b=2),
        "ordered": Ordered(a=1, b=2),
        "ofKind": OfKind,
        "groups": (table := pd.DataFrame({"a": [1, 2]})).groupby("a"),
        "table": table,
        "weak": weakref.ref(Own),
        "context": ContextVar("context", default=[1]),  # noqa: B039
    }


REACHING = [
    "push(4)", "[f(5) for f in [push]]", "length.__self__.append(1)",
    "read_only['a'].append(2)", "callers()", "callers.free()", "callers.made()", "callers.read",
    "Callers.free()", "Callees.made()", "Callees()()", "property_of.fget(None)",
    "static.__func__()", "part()", "lambda_part()",
    "listed.value.append(1)", "Choice.LISTED.value.append(1)",
    "cells.a[0].append(3)", "cells.loc[1, 'a'].clear()", "index.name = 'n'",
    "x = packed.pop()", "x = view.__setitem__(0, 9)", "x = raw.pop()", "values[0] = 5",
    "x = setattr(number, 'value', 3)", "x = chain.pop('a')", "chain.maps[1]['b'].append(1)",
    "x = wrapped.pop('a')", "texts['c'] = texts.pop('b')", "ordered.move_to_end('a')",
    "ofKind.kinds.append(1)", "x = groups.obj.pop('a')", "x = weak().shared.append(1)",
    "x = context.get().pop()",
    "rows.name = 'x'", "labels.loc[0, 'a'] = 'z'", "labels['a'].array[0] = 'z'",
]  # fmt: skip


@pytest.mark.parametrize("code", cases(REACHING))
def test_a_change_behind_what_itself_stays_the_same_is_noticed(tmp_path: Path, code: str) -> None:
    assert effects(rehearse(code, reaching(), tmp_path)), "not noticed"


@pytest.mark.parametrize(
    "code",
    [
        *("length()", "read_only['a']", "listed.name", "packed[0]", "bytes(view)", "values[:]"),
        *("chain['b']", "wrapped['a']", "texts.keys()", "groups.a.sum()", "weak()"),
    ],
)
def test_use_of_what_never_changes_itself_is_a_look(tmp_path: Path, code: str) -> None:
    assert not effects(rehearse(code, reaching(), tmp_path))


LEFT = {
    "things[0].write('x')": ["changes to things (list)"],
    "pd.DataFrame({'a': [1]}).to_sql('t', database)": ["changes to database (Connection)"],
    "print(waiting)": [],
    "waiting.put(1)": ["changes to waiting (Queue)"],
}


@pytest.mark.parametrize("code", LEFT)
def test_what_code_does_to_objects_of_libraries_is_named(tmp_path: Path, code: str) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        given = {"things": [io.StringIO()], "database": database, "waiting": Queue(), "pd": pd}
        assert rehearse(f"{code}\n0", given, tmp_path)["touched"] == LEFT[code]


def test_state_of_the_users_own_modules_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").write_text("seen = []\ndef add(x): seen.append(x)\n")
    spec = importlib.util.spec_from_file_location("helper_of_mine", tmp_path / "helper_of_mine.py")
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["helper_of_mine"] = module
    try:
        spec.loader.exec_module(module)
        given = {"helper": module, "add": module.add}
        for code in ("helper.add(1)", "add(1)", "helper.seen.append(1)"):
            assert effects(rehearse(code, dict(given), tmp_path)), code
        assert module.seen == []
    finally:
        del sys.modules["helper_of_mine"]


LOOKS = [
    "numbers", "sorted(numbers[:2])", "table.describe()", "table.groupby('b').a.mean()",
    "table.head()", "table.sort_values('a')", "table.assign(c=1).c.sum()", "table.to_dict()",
    "column.mean()", "array.sum()", "array.reshape(5, 1).T @ array", "names['k']", "own.inner",
    "print(own)", "len(text)", "table.a.value_counts()", "table.merge(table, on='a')",
    "table.query('a > 1')", "table.dtypes", "table.info()", "np.sqrt(array)", "table.isna().sum()",
    "pd.concat([table, table])", "table.pivot_table(index='b', values='a')",
    "sum(x for x in array)",
    "table.a.rolling(2).mean()", "Own", "step", "pd.to_datetime(['2020-01-01'])", "table.copy()",
    "table.corr(numeric_only=True)", "np.linalg.norm(array)", "table.T", "column.plot",
    "dir(own)", "type(own).__mro__", "help", "table.memory_usage(deep=True)", "objects[0]",
    "np.random.default_rng(0).random()", "str(table)", "table.to_csv()", "sys.version",
]  # fmt: skip


def compare(code: str, names: dict[str, Any]) -> list[str]:
    """Return what is different after code."""
    names["__builtins__"] = __builtins__
    found = VariableEffects(code, names)
    exec(code, names)
    found.compare(names, ToolResult(success=True))
    return [*(each.name for each in found.list_shown()), *found.list_unclear()]


def test_each_row_of_the_tables_is_found_or_not_by_comparing() -> None:
    """On a copy, all but some of them are slow."""

    def find_wrong() -> list[str]:
        wrong = [code for code in LOOKS if compare(code, variables())]
        wrong += [code for code in CHANGES if not compare(code, variables())]
        return [*wrong, *(code for code in REACHING if not compare(code, reaching()))]

    code = "print('\\n', find_wrong())"
    assert run_in_fork(code, {"find_wrong": find_wrong}, PATIENCE).splitlines()[-1] == " []"


@pytest.mark.parametrize("code", cases(LOOKS))
def test_a_look_is_a_look(tmp_path: Path, code: str) -> None:
    report = rehearse(code, variables(), tmp_path)
    assert effects(report) == []
    assert report["attempts"] == []
    assert report["files"] == []
    assert report["result"]["success"], report


def test_a_library_may_ask_how_many_processors_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    facts = machine_facts(Path("/proc/self/cgroup").read_text())
    limits = [f"open({path!r}).read()" for path in facts if Path(path).is_file()]
    code = "\n".join(["import os", *limits, "os.cpu_count()", "pd.read_csv('t.csv')"])
    report = rehearse(code, {"pd": pd}, tmp_path)
    assert not any("/sys" in path for _, path in report["attempts"]), report
    assert report["result"]["success"], report
    other = "try: open('/sys/kernel/profiling').read()\nexcept OSError: pass"
    assert rehearse(other, {}, tmp_path)["attempts"]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of `sys.path` beside the workspace, which is the working directory."""
    folder, root = tmp_path / "outside", tmp_path / "workspace"
    folder.mkdir()
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def test_an_import_may_look_into_folders_that_are_hidden(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a module that lies there is asked about: without it, the code would do otherwise."""
    root = Path.cwd()
    (outside / "wave.py").write_text("rate = 1")
    (outside / "mine_alone.py").write_text("")
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    imports.guard()  # it looks at all of the path, too
    attempts = rehearse("import cgitb", {}, root)["attempts"]
    assert not any("outside" in each for _, each in attempts), attempts
    for name in ("wave", "mine_alone"):
        code = f"try: import {name}\nexcept ImportError: pass"
        [attempt] = rehearse(code, {}, root)["attempts"]
        assert attempt == ["says", f"imports {name}, which is hidden from it"]


def test_the_version_of_a_library_may_be_asked_for_beside_folders_that_are_hidden(
    outside: Path,
) -> None:
    """Many libraries do at their import; a distribution that lies there would be missed."""
    root = Path.cwd()
    (outside / "mine.py").write_text("")
    code = "import importlib.metadata as metadata\nmetadata.{}"
    for ask in ("version('pandas')", "entry_points(group='matplotlib.backend')"):
        assert rehearse(code.format(ask), {}, root)["attempts"] == [], ask
    (outside / "pandas-0.1.dist-info").mkdir()
    (outside / "pandas-0.1.dist-info" / "METADATA").write_text("Name: pandas\nVersion: 0.1\n")
    (attempt,) = rehearse(code.format("version('pandas')"), {}, root)["attempts"]
    assert attempt == ["reaches", str(outside)]


def test_where_libraries_look_for_settings_is_no_reach_wherever_the_home_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in containers with a home below /tmp; other files of it are."""
    home, root = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    root.mkdir()
    monkeypatch.setenv("HOME", str(home))
    code = "import os\nfound = os.path.exists(os.path.expanduser('~/{}'))"
    assert rehearse(code.format(".fonts"), {}, root)["attempts"] == []
    (attempt,) = rehearse(code.format("letters"), {}, root)["attempts"]
    assert attempt == ["reaches", str(home / "letters")]


STAYS = {
    "pd.set_option('display.max_rows', 3)": "changes to pd (module)",
    "pd.DataFrame.extra = 1": "changes to pd (module)",
    "np.seterr(all='raise')": "changes to np (module)",
    "sys.path.append('x')": "changes to sys (module)",
    "import os; os.environ['A_NEW_ONE'] = 'x'": "changes to os (module)",
    "import warnings; warnings.simplefilter('error')": "changes to warnings (module)",
    "import logging; logging.root.setLevel(1)": "changes to logging (module)",
    "put(np)": "changes to np (module)",
    "np.one, [np.two, *np.more] = 1, [2, 3]": "changes to np (module)",
    "np.one: int = 1": "changes to np (module)",
    "for np.one in [1]: pass": "changes to np (module)",
    "before = np.seterr(all='raise')": "changes to np (module)",
    "_ = [sys.path.append(each) for each in 'ab']": "changes to sys (module)",
    "model.extra_name = 1": "changes to model (Model)",
    "model.fit()": "changes to model (Model)",
    "print(model.fit())": "changes to model (Model)",
    "next(lines)": "changes to lines (list_iterator)",
    "model = LibraryModel()": "model (Model)",
    "import types; space = types.SimpleNamespace(a=print)": "space (SimpleNamespace)",
    "fresh = LibraryModel()": "fresh (Model)",
    "same = model": "same (Model)",
    "pair = [model, 1]": "pair (list)",
    "class New: pass": "New (type)",
}
"""Code, and what it leaves on the copy: nothing of it is asked about, and the model reads it."""


@pytest.mark.parametrize("code", cases(STAYS))
def test_what_is_no_data_stays_on_the_copy_and_is_named(tmp_path: Path, code: str) -> None:
    spec = importlib.util.spec_from_loader("library_of_others", loader=None)
    assert spec is not None
    library = importlib.util.module_from_spec(spec)
    library.__file__ = f"{os.path.dirname(pd.__file__)}/library_of_others.py"  # noqa: PTH120
    text = "class Model:\n    def fit(self):\n        self.coef_ = [1]\n        return self.coef_"
    exec(text, vars(library))
    sys.modules["library_of_others"] = library
    try:
        more = {"model": library.Model(), "LibraryModel": library.Model, "lines": iter([1, 2])}
        judged = judge(code, {**variables(), **more}, tmp_path)
    finally:
        del sys.modules["library_of_others"]
    assert judged.result is not None, judged.rehearsal
    assert judged.rehearsal.left == (STAYS[code],)


@pytest.mark.parametrize(
    "code",
    [
        "print(table.a.sum())",
        "import math\nmath.pi",
        "own.cached",
        "import time\ntime.sleep(0)",
        "table.plot()",
        "for row in [[1]]: pass",
        "names_of.str.upper()",
        "np.show_config()",
        "sys.getsizeof(1); print(1)",
        "from textwrap import dedent; import shutil; dedent(' a')",
        "graph.adj",
    ],
)
def test_nothing_is_named_that_nobody_misses(tmp_path: Path, code: str) -> None:
    """As what objects find when they are asked for the first time, and keep."""
    library = types.ModuleType("library_of_others")
    library.__file__ = f"{os.path.dirname(pd.__file__)}/library_of_others.py"  # noqa: PTH120
    text = "import functools\nclass Graph:\n    adj = functools.cached_property(lambda self: [1])"
    exec(text, vars(library))
    more: dict[str, Any] = {"graph": vars(library)["Graph"](), "names_of": pd.Series(["x"])}
    judged = judge(code, {**variables(), **more}, tmp_path)
    assert judged.rehearsal.outcome in (RehearsalOutcome.LOOKED, RehearsalOutcome.ADOPTED), judged
    assert judged.rehearsal.left == ()


def test_to_set_what_an_object_has_found_and_keeps_is_a_change(tmp_path: Path) -> None:
    own = Own()
    assert own.cached == [1]
    found = judge("own.cached = 5", {"own": own}, tmp_path).rehearsal
    assert [(each.name, each.change) for each in found.variables] == [("own", "changed")]
    assert judge("own.cached", {"own": own}, tmp_path).rehearsal.variables == ()


def set_cached(thing: Any) -> None:
    thing.cached = 5


@pytest.mark.parametrize(
    "code",
    [
        "own.cached = 5",
        "setattr(own, 'cached', 5)",
        "set_cached(own)",
        "own.cached; own.cached = 5",
    ],
)
def test_to_set_what_an_object_would_find_and_keep_is_a_change(tmp_path: Path, code: str) -> None:
    given = {"own": Own(), "set_cached": set_cached}
    found = judge(code, given, tmp_path).rehearsal
    assert [(each.name, each.change) for each in found.variables] == [("own", "changed")]
    assert judge("own.cached", given, tmp_path).rehearsal.variables == ()


@pytest.mark.parametrize(
    "code",
    [
        "def mean(v): return sum(2 * each for each in v)",
        "def mean(v, n=1): return sum(each for each in v)",
        "def mean(v) -> int: return sum(each for each in v)",
        "mean.name = 1",
    ],
)
def test_another_function_by_the_name_of_the_users_is_a_change(tmp_path: Path, code: str) -> None:
    given: dict[str, Any] = {"__name__": "__main__"}
    same = "def mean(v): return sum(each for each in v)"
    exec(same, given)
    assert judge(f"\n{same}\nmean([1])", given, tmp_path).rehearsal.variables == ()
    (change,) = judge(code, given, tmp_path).rehearsal.variables
    assert (change.name, change.change) == ("mean", "changed")


def test_a_decorated_function_that_code_imports_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = types.ModuleType("library_of_others")
    text = "import functools\n@functools.wraps(print)\ndef tell(): return 1"
    exec(text, vars(library))
    library.__file__ = f"{os.path.dirname(pd.__file__)}/library_of_others.py"  # noqa: PTH120
    monkeypatch.setitem(sys.modules, "library_of_others", library)
    judged = judge("from library_of_others import tell\ntell()", {}, tmp_path)
    assert judged.adoption is not None
    assert judged.adoption.values == {"tell": vars(library)["tell"]}


@pytest.mark.parametrize("way", ["w", "r", "a"])
def test_an_open_file_is_asked_about_only_once_it_is_written(tmp_path: Path, way: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text("a\nb\n")
    with path.open(way) as file:
        if way != "r":
            file.write("half")
        left = ("changes to file (TextIOWrapper)",) if way == "r" else ()
        for code in ("print(file.name)", "next(file)" if way == "r" else "print(1)"):
            rehearsal = judge(code, {"file": file}, tmp_path).rehearsal
            assert rehearsal.texts == (), rehearsal
        assert rehearsal.left == left
        if way != "r":
            texts = judge("file.write('x')\nprint(1)", {"file": file}, tmp_path).rehearsal.texts
            assert texts == ("writes to the open file file",)


def test_names_of_axes_are_bound_anew_as_those_of_other_objects_of_libraries(
    tmp_path: Path,
) -> None:
    axes = np.array([Queue(), Queue()], dtype=object)
    code = "axes = np.array([Queue()], dtype=object)\nprint(len(axes))"
    given = {"axes": axes, "np": np, "Queue": Queue}
    judged = judge(code, given, tmp_path)
    assert (judged.rehearsal.variables, judged.rehearsal.left) == ((), ("axes (ndarray)",))
    code = "axes = np.array([1, None], dtype=object)"
    assert judge(code, given, tmp_path).rehearsal.variables, "not noticed"


def test_our_own_folder_is_listed_without_a_question(tmp_path: Path) -> None:
    (tmp_path / ".ipyagent" / "locks").mkdir(parents=True)
    (tmp_path / ".ipyagent" / "state.db").touch()
    for code in ("print([files for _, _, files in os.walk('.')])", "os.stat('.ipyagent/locks')"):
        report = rehearse(f"import os\nos.chdir({str(tmp_path)!r})\n{code}", {}, tmp_path)
        assert report["attempts"] == [], report
    for code in ("open({!r})", "os.remove({!r})", "open({!r}, 'r+')"):
        code = f"import os\n{code.format(str(tmp_path / '.ipyagent/state.db'))}"
        assert rehearse(code, {}, tmp_path)["attempts"], "not noticed"


statements = st.sampled_from([*CHANGES, *LOOKS])


@given(st.lists(statements, min_size=1, max_size=4))
@settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_kernel_stays_as_it_is(tmp_path: Path, program: list[str]) -> None:
    before, now = variables(), variables()
    path, shared, numbers = list(sys.path), list(Own.shared), random.getstate()
    options = pd.get_option("display.max_rows")
    rehearse("\n".join(program), dict(now), tmp_path)
    for name in ("numbers", "table", "column", "names", "text", "array"):
        assert pickle.dumps(before[name]) == pickle.dumps(now[name]), name
    assert vars(now["own"]) == {"inner": {"deep": [1, 2]}}
    assert now["step"]() == 1
    assert (sys.path, Own.shared, random.getstate()) == (path, shared, numbers)
    assert pd.get_option("display.max_rows") == options
    assert not hasattr(pd.DataFrame, "extra")


WRITES = [
    "os.remove({!r})", "os.rename({!r}, 'here')", "os.chmod({!r}, 0)", "os.truncate({!r}, 0)",
    "os.mkdir({!r} + '2')", "os.symlink('x', {!r} + '2')", "os.utime({!r})",
    "os.remove('/etc/passwd')", "open('/etc/passwd', 'a')", "os.open('/etc/passwd', os.O_RDWR)",
]  # fmt: skip


@pytest.mark.parametrize("code", cases(WRITES))
def test_a_change_outside_is_told_even_if_its_failure_is_passed_over(
    tmp_path: Path, code: str
) -> None:
    root, letter = tmp_path / "workspace", tmp_path / "letter"
    root.mkdir()
    letter.write_text("Dear")
    program = f"import os\ntry: {code.format(str(letter))}\nexcept OSError: pass"
    report = rehearse(program, {}, root)
    assert report["attempts"] or report["files"], "not noticed"


ASKS = {
    "import shutil\nshutil.disk_usage('.').free": "asks how much space there is",
    "try: input('?')\nexcept EOFError: pass": "asks for input",
    "os.environ.get('WORD_OF_MINE')": (
        "reads the environment variable WORD_OF_MINE, which is hidden from it"
    ),
    "[*os.environ]": "lists the environment, a part of which is hidden from it",
}


@pytest.mark.parametrize("code", ASKS)
def test_what_would_be_answered_otherwise_outside_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setenv("WORD_OF_MINE", "x")
    assert rehearse(code, {"os": os}, tmp_path)["attempts"] == [["says", ASKS[code]]]


def test_a_hidden_file_of_a_workspace_among_temporary_files_is_hidden(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    program = f"try: open({str(tmp_path / '.env')!r})\nexcept OSError: pass"
    assert rehearse(program, {}, tmp_path)["attempts"], "not noticed"


def test_a_name_by_which_python_itself_asks_is_not_adopted(tmp_path: Path) -> None:
    """It would run with the next attribute that somebody misses."""
    judged = judge("from os import system as __getattr__", {}, tmp_path)
    assert judged.rehearsal.outcome == RehearsalOutcome.CHANGES
    assert not any(map(is_bindable, ["__getattr__", "\uff4e\uff50", "print", "lambda", "a b"]))
    assert all(map(is_bindable, ["table", "_rest", "größe"]))
