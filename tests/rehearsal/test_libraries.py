"""Libraries for work with data in a rehearsal: each works, or it is said why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ipyagent.rehearsal.confinement import TEMPORARY
from rehearsal_trial import in_both_ways, rehearse, run_in_fork
from sampling import cases

LOOKS = {
    "pandas": "pandas.DataFrame({'a': [1, 2]}).groupby('a').size().sum()",
    "numpy": "(numpy.ones((200, 200)) @ numpy.ones((200, 200))).sum()",
    "scipy": "from scipy import stats\nround(stats.norm.cdf(0), 1)",
    "matplotlib": (
        "from matplotlib.figure import Figure\nimport io\n"
        "f = Figure(); f.subplots().plot([1, 2]); f.savefig(io.BytesIO(), format='png'); 1"
    ),
    "pyarrow": "import pyarrow.compute as pc\npc.sum(pyarrow.array([1, 2, 3])).as_py()",
    "duckdb": "duckdb.connect().execute('select 1 + 1').fetchall()",
    "sklearn": (
        "from sklearn.linear_model import LinearRegression\n"
        "round(LinearRegression().fit([[0], [1]], [0, 1]).coef_[0], 3)"
    ),
    "torch": "float(torch.ones(3).sum())",
    "statsmodels": "import statsmodels.api as sm\nsm.OLS([1, 2, 3], [1, 2, 3]).fit().params[0]",
    "openpyxl": "openpyxl.Workbook().active.title",
}


@in_both_ways
@pytest.mark.parametrize("library", cases(LOOKS))
def test_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {library: pytest.importorskip(library)}
    exec(LOOKS[library], dict(given))  # used in the kernel before, as its threads may run
    report = rehearse(LOOKS[library], given, tmp_path)
    assert "problem" not in report, report
    assert report["result"]["success"], report["result"]["output"]
    assert report["files"] == []
    assert ["says", "uses the network"] not in report["attempts"]


@pytest.fixture
def database() -> Iterator[Any]:
    """A connection to a PostgreSQL server of its own, which root may not run."""
    psycopg = pytest.importorskip("psycopg")
    if shutil.which("initdb") is None:
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        data, user = f"{folder}/data", 65534 if os.geteuid() == 0 else None
        own: dict[str, Any] = {"user": user, "group": user, "check": True, "cwd": folder}
        own["stdout"] = subprocess.DEVNULL
        subprocess.run(["initdb", "-D", data, "-A", "trust", "-U", "me", "-N"], **own)
        server = ["pg_ctl", "-D", data, "-w", "-o", f"-k {folder} -c listen_addresses=''"]
        subprocess.run([*server, "-l", f"{folder}/log", "start"], **own)
        try:
            with psycopg.connect(f"host={folder} user=me dbname=postgres") as connection:
                yield connection
        finally:
            subprocess.run([*server, "-m", "immediate", "stop"], **own)


@in_both_ways
def test_a_connection_to_postgresql_is_not_reached(tmp_path: Path, database: Any) -> None:
    def tables() -> int:
        found = database.execute("select count(*) from pg_tables where tablename like 't%'")
        return int(found.fetchone()[0])

    code = "database.execute('create table {} (x int)'); database.commit()"
    report = rehearse(code.format("tried"), {"database": database}, tmp_path)
    assert report.get("problem") or not report["result"]["success"], report
    assert tables() == 0
    database.commit()
    run_in_fork(code.format("taken"), {"database": database})
    assert tables() == 1


def test_a_python_among_the_temporary_files_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as prefix:
        library = Path(prefix, "lib")
        library.mkdir()
        Path(prefix, "pyvenv.cfg").touch()
        (library / "module_in_tmp.py").write_text("ANSWER = 42")
        monkeypatch.setattr(sys, "base_prefix", prefix)
        monkeypatch.syspath_prepend(str(library))
        report = rehearse("import module_in_tmp\nprint(module_in_tmp.ANSWER)", {}, tmp_path)
        written = rehearse(f"open('{library}/other.py', 'w')", {}, tmp_path)
    assert report["result"]["output"] == "42", report
    assert (report["attempts"], report["files"]) == ([], [])
    assert "Read-only file system" in written["result"]["output"]


def test_a_library_that_keeps_something_in_its_cache_tries_nothing_else(tmp_path: Path) -> None:
    code = """
import os
folder = os.path.join(os.environ["XDG_CACHE_HOME"], "library")
if not os.path.exists(folder):
    os.makedirs(folder)
print(os.listdir(folder))
"""
    report = rehearse(code, {}, tmp_path)
    assert report["result"]["output"] == "[]", report
    assert (report["attempts"], report["files"]) == ([], [])
