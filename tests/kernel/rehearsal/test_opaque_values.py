"""Values that are no plain Python: to read them is no change, and each change is noticed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ipyagent.kernel.rehearsal.watched_values import WatchedValues

VALUES: dict[str, tuple[str, str]] = {
    # how it is made: code that only reads it, code that changes it
    "import collections; x = collections.namedtuple('P', 'a b')(1, [2])": ("x.a", "x.b.append(3)"),
    "import re; x = re.match('a(b)', 'ab')": ("x.group(1)", ""),
    "import threading; x = threading.Lock()": ("x.locked()", "x.acquire()"),
    "import threading; x = threading.RLock()": ("repr(x)", "x.acquire()"),
    "import contextvars; x = contextvars.ContextVar('x')": ("x.get(1)", "x.set(2)"),
    "import weakref; t = {1}; x = weakref.ref(t)": ("x()", "x().add(2)"),
    "import array; x = array.array('d', [1, 2])": ("x[0]", "x[0] = 3"),
    "x = memoryview(bytearray(b'abc'))": ("x[0]", "x[0] = 1"),
    "import io; x = io.StringIO('a')": ("x.getvalue()", "x.read()"),
    "import io; x = io.BytesIO(b'a')": ("x.getvalue()", "x.seek(1)"),
    "import random; x = random.Random(0)": ("x.getstate()", "x.random()"),
    "import itertools; x = itertools.count()": ("repr(x)", "next(x)"),
    "from xml.etree import ElementTree; x = ElementTree.fromstring('<a><b c=\"1\"/></a>')": (
        "[each.attrib for each in x.iter()]",
        "x[0].set('c', '2')",
    ),
    "import numpy; x = numpy.random.default_rng(0)": ("x.bit_generator.state", "x.random()"),
    "import numpy; x = numpy.random.RandomState(0)": ("x.get_state()", "x.rand()"),
    "import numpy; x = numpy.ma.masked_array([1, 2], [0, 1])": ("x.sum()", "x[0] = 3"),
    "import numpy; x = numpy.ma.array([1, 2], mask=[0, 1])": ("x.mean()", "x.mask = False"),
    "import pandas; x = pandas.Categorical(['a', 'b'])": ("x.categories", "x[0] = 'b'"),
    "import pandas; x = pandas.DataFrame({'a': [1, 1], 'b': [2, 3]}).groupby('a')": (
        "x.b.mean(), x.size(), x.ngroups",
        "x.obj.iloc[0, 0] = 9",
    ),
    "from scipy import spatial; x = spatial.cKDTree([[0.0], [1.0]])": (
        "x.query([0.4])",
        "x.data[0] = 5",
    ),
    "import threading; x = threading.local(); x.a = [1]": ("x.a", "x.a.append(2)"),
    "import struct; x = struct.Struct('<i')": ("x.size", ""),
    "x = iter([1, 2])": ("x.__length_hint__()", "next(x)"),
    "import scipy.sparse; x = scipy.sparse.csr_matrix([[1, 0], [0, 2]])": (
        "x.sum(), x.T @ x, x.has_canonical_format",
        "x.data[0] = 9",
    ),
    "from scipy import stats; x = stats.norm(0, 1)": ("x.cdf(1.0)", "x.kwds['a'] = 1"),
    "from scipy import optimize; x = optimize.OptimizeResult(a=[1])": ("x.a", "x.a.append(2)"),
    "from functools import cached_property\nclass C:\n    @cached_property\n    def a(self):\n"
    "        return [1]\nx = C()\nx.a": ("x.a", "x.a.append(2)"),
    "from functools import lru_cache\nx = lru_cache(lambda n: [n])": ("x(1)", "x.a = 1"),
    "x = open(__file__); x.close()": ("x.name", ""),
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    x = e": ("repr(x)", "x.add_note('a')"),
    "import pydantic\nclass M(pydantic.BaseModel):\n    a: list[int] = [1]\nx = M()": (
        "x.model_dump(), M(a=['2'])",
        "x.a.append(2)",
    ),
    "from bs4 import BeautifulSoup; x = BeautifulSoup('<p>a</p>', 'html.parser')": (
        "x.p.text",
        "x.p.string = 'b'",
    ),
}


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.parametrize("made", VALUES)
def test_reading_changes_nothing_and_each_change_is_noticed(made: str) -> None:
    reads, changes = VALUES[made]
    scope: dict[str, object] = {"__name__": "__main__", "__file__": __file__}
    exec(made, scope)
    watched = WatchedValues(scope, ["x"])
    assert watched.unseen == {}
    exec(reads, scope)
    assert watched.list_changed() == []
    if changes:
        exec(changes, scope)
        assert watched.list_changed() == ["x"]


def test_what_a_cache_already_holds_cannot_be_seen() -> None:
    scope: dict[str, object] = {"__name__": "__main__"}
    exec("from functools import lru_cache\nx = lru_cache(lambda n: [n])\nx(1)", scope)
    assert WatchedValues(scope, ["x"]).unseen == {"x": "_lru_cache_wrapper"}


def test_code_of_the_users_own_does_not_tell_what_is_in_c() -> None:
    scope: dict[str, object] = {"__name__": "__main__", "__file__": __file__, "calls": []}
    exec(
        "import array\nclass C(array.array):\n    def __reduce_ex__(self, _):\n"
        "        calls.append(1); return C, ('i',)\nx = C('i')",
        scope,
    )
    assert WatchedValues(scope, ["x"]).unseen == {"x": "C"}
    assert scope["calls"] == []
