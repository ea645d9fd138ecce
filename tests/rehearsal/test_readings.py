"""Code that only reads is not asked about, whatever library it uses, and for whatever cause."""

from __future__ import annotations

import contextlib
import gc
import linecache
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rehearsal_trial
from ipyagent.rehearsal.in_kernel import load_libraries
from ipyagent.schema import RehearsalOutcome
from rehearsal_trial import in_both_ways, judge, rehearse

EFFECT = Path(__file__).parents[2] / "benchmarks/effect"
SAMPLE = ("pandas and Excel", "Pillow", "sqlite3", "standard library", "joblib", "scikit-learn")
"""The groups of the benchmark that are tried, as far as their libraries are installed."""
CALLS = 8
"""Calls of each group that are tried."""
FREE = (RehearsalOutcome.LOOKED, RehearsalOutcome.ADOPTED)


@in_both_ways
@pytest.mark.filterwarnings("ignore")  # those of libraries: they are part of what the model reads
@pytest.mark.parametrize("name", SAMPLE)
def test_calls_that_only_read_are_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(EFFECT)
    from readings import load_readings

    (group,) = (each for each in load_readings() if each.name == name)
    if not group.is_installed:
        pytest.skip("not installed")
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"__name__": "__main__"}
    exec(group.before, given)
    asked = []
    for code in group.calls[:CALLS]:
        load_libraries(code)
        variables = {name: value for name, value in given.items() if name[:2] != "__"}
        found = judge(code, variables, tmp_path).rehearsal
        if found.outcome not in FREE:
            asked.append((code, found))
    for each in given.values():
        with contextlib.suppress(Exception):  # most have none, or are closed with another
            each.close()
    given.clear()
    gc.collect()  # what a library leaves open is told here, where warnings are ignored
    assert asked == []


@in_both_ways
def test_pools_of_threads_work_on_a_copy(tmp_path: Path) -> None:
    code = "from multiprocessing.pool import ThreadPool\nThreadPool(2).map(abs, [-1, 2])"
    report = rehearse(code, {}, tmp_path)
    assert report["result"]["output"] == "[1, 2]", report


@in_both_ways
def test_pools_of_the_kernels_get_new_threads_on_a_copy(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1] * 9)) == [1] * 9
        report = rehearse("list(pool.map(abs, [-1, 2]))", {"pool": pool}, tmp_path)
    assert report["result"]["output"] == "[1, 2]", report


def test_random_numbers_of_a_library_that_only_the_code_loads_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "numpy.random")
    code = "sys.modules['numpy.random'] = np.random\nprint(1)"
    assert rehearse(code, {"np": np, "sys": sys}, tmp_path)["adoption"] == {}


IN_A_NEW_PROCESS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from rehearsal_trial import judge
for name in ("numpy", "pandas"):
    assert name not in sys.modules
found = judge("x = __import__('numpy').ones(2)", {}, Path.cwd())
print(found.rehearsal.outcome.value, found.adoption.values["x"].tolist())
"""


def test_data_of_a_library_that_only_the_code_loads_is_taken_over(tmp_path: Path) -> None:
    tests = str(Path(rehearsal_trial.__file__).parent)
    code = f"import sys; sys.path.insert(0, {tests!r})\n{IN_A_NEW_PROCESS}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == "adopted [1.0, 1.0]\n", done.stderr


def test_sources_of_loaded_modules_are_looked_at_again_for_a_warning(tmp_path: Path) -> None:
    hidden = rehearsal_trial.__file__
    assert linecache.getline(hidden, 1)
    report = rehearse("import linecache\nlinecache.checkcache()\nprint(1)", {}, tmp_path)
    assert (report["result"]["output"], report["attempts"]) == ("1", []), report
    report = rehearse(f"import os\nos.path.exists({hidden!r})", {}, tmp_path)
    assert report["attempts"], "not noticed"


@pytest.mark.parametrize("isolation_way", ["Landlock"], indirect=True)
def test_a_question_names_the_error_of_code_in_c_that_met_the_isolation(tmp_path: Path) -> None:
    code = "import _multiprocessing\n_multiprocessing.SemLock(0, 1, 1, '/ipyagent-test', True)"
    found = judge(code, {}, tmp_path)
    (text,) = found.rehearsal.texts
    assert text == "fails where it is isolated: PermissionError: [Errno 13] Permission denied"
    assert (found.has_failed, found.rehearsal.result) == (True, None)
