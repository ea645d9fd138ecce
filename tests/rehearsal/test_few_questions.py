"""What changes nothing is not asked about, whatever objects there are and whatever words."""

from __future__ import annotations

import ctypes
import sqlite3
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from ipyagent.rehearsal import in_kernel
from ipyagent.schema.tables import table_in
from ipyagent.values.variables.tables import copies_on_write
from rehearsal_trial import in_both_ways, judge, rehearse


class Obliging:
    """Has every attribute that it is asked for."""

    asked: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> int:
        Obliging.asked.append(name)
        return 1


def test_an_object_that_has_every_attribute_does_not_stop_rehearsals(tmp_path: Path) -> None:
    given: dict[str, Any] = {"obliging": Obliging(), "numbers": [1, 2]}
    report = rehearse("sum(numbers)", given, tmp_path)
    assert report["result"]["output"] == "3", report
    assert Obliging.asked == []


def test_a_class_that_is_in_no_module_does_not_stop_rehearsals(tmp_path: Path) -> None:
    """As those of arrays that ctypes makes."""
    given: dict[str, Any] = {"old": (ctypes.c_int * 4)(1, 2)}
    code = "import ctypes\nkind = ctypes.c_int * 3\nnew = kind(3)\nprint(list(old), list(new))"
    report = rehearse(code, given, tmp_path)
    assert report["result"]["output"].strip() == "[1, 2, 0, 0] [3, 0, 0]", report
    assert table_in(given["old"]) is None


AGAIN = [
    "table = pd.read_csv('t.csv')", "table = table.copy()", "rate = float('0.05')",
    "with open('t.csv') as file: len(file.read())", "day = pd.Timestamp('2020-01-01')",
]  # fmt: skip


@pytest.mark.parametrize("code", AGAIN)
def test_to_make_the_same_data_once_more_is_no_change(tmp_path: Path, code: str) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    given = {"pd": pd, "table": pd.read_csv(tmp_path / "t.csv"), "rate": 0.05}
    given["day"] = pd.Timestamp("2020-01-01")
    code = code.replace("t.csv", str(tmp_path / "t.csv"))
    report = rehearse(code, given, tmp_path)
    assert (report["variables"], report["unclear"], report["attempts"]) == ([], [], []), report


@pytest.mark.parametrize(
    "code", ["table = table.assign(a=[1, 3])", "table = table[::-1]", "rate = -0.0", "items = [1]"]
)
def test_to_make_other_data_is_a_change(tmp_path: Path, code: str) -> None:
    given = {"table": pd.DataFrame({"a": [1, 2]}), "rate": 0.0, "items": [1]}
    assert rehearse(code, given, tmp_path)["variables"], "not noticed"


def test_a_new_name_for_data_that_was_made_once_more_is_that_of_the_old(tmp_path: Path) -> None:
    given = {"table": pd.DataFrame({"a": [1, 2]})}
    report = rehearse("table = table.copy()\nother = table", given, tmp_path)
    assert report["adoption"] == {"other": ["variable", "table"]}


@in_both_ways
def test_a_process_may_read_about_itself(tmp_path: Path) -> None:
    """As libraries do to find out how many threads others have started."""
    report = rehearse("len(open('/proc/self/maps').read()) > 9", {}, tmp_path)
    assert (report["result"]["output"], report["attempts"]) == ("True", []), report
    for name in ("meminfo", "stat"):  # and about the machine
        report = rehearse(f"len(open('/proc/{name}').read()) > 9", {}, tmp_path)
        assert (report["result"]["output"], report["attempts"]) == ("True", []), report
    report = rehearse("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, ())", {}, tmp_path)
    assert report["result"]["output"] == "set()", "signals come as in the kernel"
    report = rehearse("open('/proc/self/environ').read()", {}, tmp_path)
    assert report["attempts"], "not noticed"


def test_the_kinds_of_files_may_be_looked_up(tmp_path: Path) -> None:
    code = "import mimetypes\nmimetypes.read_mime_types('/etc/httpd/mime.types')"
    assert rehearse(code, {}, tmp_path)["attempts"] == []


def test_a_database_that_is_only_read_is_no_change_of_its_file(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table t as select 1 as a")
    database.close()
    path = str(tmp_path / "shop.db")
    code = f"import sqlite3\ndb = sqlite3.connect({path!r})\n{{}}\ndb.close()\ndel db, sqlite3"
    queries = {
        "db.execute('select * from t').fetchall()": [],
        "db.execute('insert into t values (2)'); db.commit()": ["shop.db"],
    }
    for query, files in queries.items():
        judged = judge(code.format(query), {}, tmp_path)
        assert [each.path for each in judged.rehearsal.files] == files


@pytest.mark.parametrize("code", ["import xml as x", "import xml.dom", "from xml.dom import y"])
def test_libraries_of_the_list_are_loaded_before_a_look_and_no_part_that_code_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Not so a file of the user's with such a name."""
    for name in ("xml", "xml.dom", "xml.dom.minidom", "xml.sax"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "own_file.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(in_kernel, "LIBRARIES", frozenset({"xml", "xml.sax", "own_file"}))
    monkeypatch.setattr(in_kernel, "_LATE", {"xml": "xml.sax"})
    in_kernel.load_libraries(code)
    in_kernel.load_libraries("import own_file")
    assert {"xml", "xml.sax"} <= sys.modules.keys()
    assert sys.modules.keys().isdisjoint({"own_file", "xml.dom"})


def test_libraries_ask_whether_others_are_there_while_they_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As xarray and altair do."""
    asks = "found = [util.find_spec('nowhere'), metadata.version('pytest')]"
    asks = f"from importlib import metadata, util\n{asks}"
    (tmp_path / "asking.py").write_text(asks)
    monkeypatch.setattr(in_kernel, "LIBRARIES", frozenset({"asking"}))
    monkeypatch.setattr(in_kernel, "is_of_package", lambda path: True)
    monkeypatch.syspath_prepend(tmp_path)
    before = [*sys.meta_path]
    in_kernel.load_libraries("import asking")
    assert sys.modules.pop("asking").found == [None, pytest.__version__]
    assert sys.meta_path == before


def test_a_point_in_time_does_not_change(tmp_path: Path) -> None:
    given = {
        "day": pd.Timestamp("2020-01-01"),
        "span": pd.Timedelta("1h"),
        "month": pd.Period("2020-01"),
        "bin": pd.Interval(0, 1),
        "kind": np.dtype("f8"),
    }
    report = rehearse("str([day, span, month, bin, kind])", given, tmp_path)
    assert report["unclear"] == [], report


@pytest.mark.parametrize(
    "code", ["x = table['a']", "x = table.copy(); y = x['a']", "x = table.head(2)"]
)
def test_a_table_that_others_would_see_change_is_not_adopted(tmp_path: Path, code: str) -> None:
    """Before pandas 3, a part of a table is written together with the table."""
    given = {"table": pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})}
    report = rehearse(code, given, tmp_path)
    assert bool(report["adoption"]) == copies_on_write(), report
