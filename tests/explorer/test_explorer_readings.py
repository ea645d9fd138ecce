"""The explorer loads a file as its description says, and names no number where that is in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest
from explorer_runner import Kernel, offered, reply

from harness import YES, Lab
from ipyagent.explorer.client import ExplorerClient
from ipyagent.explorer.workspace import of_context

NO_BREAK, NARROW = "\u00a0", "\u202f"


class Undescribed(Kernel):
    """A kernel whose contexts describe no file, as where nothing may be read unasked."""

    def tables(self) -> list[str]:
        return []


def answer(root: Path, data: str | bytes, prompt: str, kernel: type[Kernel] = Kernel) -> str:
    (root / "t.csv").write_bytes(data.encode() if isinstance(data, str) else data)
    return kernel(root).ask(prompt).text


DESCRIBED: list[tuple[str | bytes, str | None]] = [
    ("city,sales,costs\nOslo,100,10,\nRome,103,13,\n", "101.5"),
    ("city,sales,costs\nOslo,100,10,,\nRome,103,13\n", "101.5"),
    ("city,sales,costs,\nOslo,100,10,\nRome,103,13,\n", "101.5"),
    ("city;sales;costs\nOslo;1,50;3\nRome;2,5;4\n", "**2**"),
    ("city|sales|costs\nOslo|1|3\nRome|2|4\n", "1.5"),
    ("city;sales\nK\u00f6ln;1\nOslo;2\n".encode("latin-1"), "1.5"),
    ("city;sales\nK\u00f6ln;1\nOslo;2\n".encode("utf-16"), "1.5"),
    ("Sales report 2024\nPrinted 3 January\n\ncity,sales\nOslo,1\nRome,2\n", "1.5"),
    ("Sales, 2024\nPrinted 3 January, 2024\n\ncity,sales\nOslo,1\nRome,2\n", "1.5"),
    ("# by hand\ncity,sales\nOslo,1\n# later\nRome,2\n", "1.5"),
    (f"city;sales\nOslo;1{NO_BREAK}234,5\nRome;5,5\n", "**620**"),
    (f"city;sales\nOslo;1{NARROW}234,5\nRome;5,5\n", "**620**"),
    ("city;sales\nOslo;1\N{RIGHT SINGLE QUOTATION MARK}234.5\nRome;5.5\n", "**620**"),
    ("day;sales\n01.02.2024;1.234,5\n02.02.2024;5,5\n", "**620**"),
    ("city,sales\nOslo,-\nRome,2\nBonn,5\n", "3.5"),
    ("Oslo,1\nRome,2\n", None),
    ('city,sales\nOslo,"1,234"\nRome,"2,236"\n', "1735"),
]
"""Files, and the mean of their sales; None: 1.5 is that of the column `1`."""


def test_a_file_is_loaded_as_it_is_described(tmp_path: Path) -> None:
    found = {}
    for data, mean in DESCRIBED:
        text = answer(tmp_path, data, "mean of sales" if mean else "mean of `1`")
        if (mean or "1.5") not in text:
            found[data] = text
    assert found == {}


MANY = "".join(f"c{n},{n}\n" for n in range(40_000))


@pytest.mark.parametrize(
    ("name", "data", "reading"),
    [
        ("t.csv", f"city,sales\n{MANY}Köln,5\n{MANY}".encode("cp1252"), "encoding='cp1252'"),
    ],
)
def test_what_the_description_found_far_below_or_inside_is_loaded(
    tmp_path: Path, name: str, data: bytes, reading: str
) -> None:
    (tmp_path / name).write_bytes(data)
    kernel = Kernel(tmp_path)
    assert f"{name}: " in kernel.context()
    assert reading in kernel.context()
    assert "The mean of `sales` is" in kernel.ask("mean of sales").text


@pytest.mark.parametrize(
    ("doubt", "columns"),
    [
        ("day or month may come first in 'a', \"b'c\"", {"a", "b'c"}),
        ("1 may mean missing in 'a'; the last row may be a total", set()),
        ("1 may mean missing in 'a'; 'NA' may be a code, not missing, in 'b'", {"a", "b"}),
        ("1 may mean missing in 2024", set()),
        ("1 may mean missing in 'a; b'", set()),
        ("the decimal sign may be ',' or '.' in 'a: b'", {"a: b"}),
    ],
)
def test_the_columns_in_doubt_are_read_from_the_line(doubt: str, columns: set[str]) -> None:
    ways = "pd.read_csv('t.csv') or pd.read_csv('t.csv', sep=';')"
    context = f"Files:\n- t.csv (1 kB)\nTables:\nt.csv: CSV file\nin doubt: {doubt}: {ways}\n"
    reading = of_context(context).readings["t.csv"]
    assert (reading.columns, reading.doubt) == (columns, doubt)
    unsafe = context.replace("pd.read_csv('t.csv') or", "pd.read_csv('t.csv', a=run()) or")
    assert not of_context(unsafe).readings["t.csv"].columns


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (["01/02/2024", "31/02/2023", "30/02/2024"], "failed"),
        (["2024-02-01", "2024-02-03"], "| 2024-02 | 3 |"),
    ],
)
def test_days_are_read_in_the_order_of_their_parts(
    tmp_path: Path, days: list[str], said: str
) -> None:
    rows = "".join(f"{day},{n}\n" for n, day in enumerate(days, 1))
    assert said in answer(tmp_path, f"day,sales\n{rows}", "sales by month")


@pytest.mark.parametrize(
    "data",
    [
        "city,sales,costs\nOslo,100,10,\nRome,103,13,\n",
        "ort;preis;menge\nUlm;1,50;3\nBonn;2,50;4\n",
        "city\tsales\nOslo\t1\n",
        "city,sales\n0,1,\n1,2,\n",
    ],
)
def test_a_file_that_nobody_described_gives_no_wrong_number(tmp_path: Path, data: str) -> None:
    for prompt in ("Load t.csv", "mean of sales"):
        assert "no conclusion" in answer(tmp_path, data, prompt, Undescribed)
    assert "1.5" in answer(tmp_path, "city,sales\nOslo,1\nRome,2\n", "mean of sales", Undescribed)


def test_a_description_counts_for_later_prompts_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n1,5;2\n")
    kernel = Kernel(tmp_path)
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"hello\n{kernel.context()}"}]
    messages.append({"role": "assistant", "content": "Hello."})
    plain = Undescribed(tmp_path).context()
    messages.append({"role": "user", "content": f"Load t.csv\n{plain}"})
    ((_, arguments),) = reply(messages, offered("run_python")).calls
    assert "pd.read_csv('t.csv', sep=';', decimal=',')" in arguments["code"]


NO_READINGS = """
pd.read_csv('t.csv', sep=__import__('os').getcwd())
pd.read_csv('t.csv'); import os
pd.read_pickle('t.csv')
pd.read_csv('other.csv')
pd.read_csv('t.csv', 'a.csv')
pd.read_csv('t.csv', sep=name)
pd.read_csv(*['t.csv'])
pd.read_csv('t.csv', converters={'a': eval})
pd.read_csv('t.csv', sep=(lambda: 1)())
os.read_csv('t.csv')
pd.DataFrame(pd.read_json('other.json', typ='series')['data'])
pd.DataFrame(pd.read_json('t.csv', typ=run())['data'])
pd.DataFrame(pd.read_json('t.csv')[run()])
pd.DataFrame(pd.read_pickle('t.csv')['data'])
pd.DataFrame(pd.read_json('t.csv')['data'], run())
pd.DataFrame()
pd.DataFrame(run)
""".strip().splitlines()
READINGS = ("pd.read_csv('t.csv')", "pd.DataFrame(pd.read_json('t.csv', typ='series')['data'])")


def test_a_line_that_does_more_than_read_the_file_is_not_run() -> None:
    context = "Files:\n- t.csv (1.0 kB)\nTables:\nt.csv: CSV file\nread with: "
    ways = [*READINGS, *NO_READINGS]
    taken = {each: of_context(context + each).readings["t.csv"].code for each in ways}
    assert taken == {each: each if each in READINGS else "" for each in ways}


def test_a_real_run_counts_no_line_of_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("ort;preis;menge\nUlm;1,50;3\nBonn;2,50;4\nK;5;5\n")
    lab = Lab(tmp_path)
    run = lab.run([], "Load t.csv", model=ExplorerClient(), answer=YES)
    assert "3 rows, 3 columns" in str(run.output)
    assert "new:" not in str(run.output)
    run = lab.run([], "mean of preis", model=ExplorerClient(), answer=YES)
    assert "**3**" in str(run.output)


def test_a_line_of_our_own_is_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("kind\na\nb\na\n")
    run = Lab(tmp_path).run([], "Load t.csv", model=ExplorerClient(), answer=YES)
    assert "3 rows, 1 columns" in str(run.output)
    assert "new:" not in str(run.output)


def test_a_workbook_is_loaded_from_its_visible_sheet_and_its_header(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.title = "Old"
    book.active.append(["amount"])
    book.active.append([999])
    book.active.sheet_state = "hidden"
    sheet = book.create_sheet("Sales")
    for row in (["Quarterly sales"], [], ["city", "amount"], ["Oslo", 1], ["Rome", 2]):
        sheet.append(row)
    sheet.merge_cells("A1:B1")
    book.save(tmp_path / "t.xlsx")
    assert "1.5" in Kernel(tmp_path).ask("mean of amount").text


DATA = [["city", "amount"], ["Oslo", 1], ["Rome", 2]]


@pytest.mark.parametrize(
    ("sheets", "prompt", "said"),
    [
        ({"About": [["Sales report"]], "Sales": DATA}, "mean of amount", "(sheet `Sales`)"),
        ({"About": [["Sales report"]], "Sales": DATA}, "mean of amount", "**1.5**"),
        ({"About": [["Sales report"]], "Sales": DATA}, "Load t.xlsx", "(sheet `Sales`)"),
        ({"A": [["n", "twice"], [1, "=A2*2"], [2, 3]]}, "mean of n", "**1.5**"),
        ({"A": DATA}, "mean of amount", "_`t.xlsx` is loaded as `t`._"),
        (
            {"A": [["city", 2023, 2024], ["Oslo", 1, 2], ["Rome", 2, 4]]},
            "mean of `2023`",
            "**1.5**",
        ),
    ],
)
def test_the_first_sheet_with_rows_is_loaded(
    tmp_path: Path, sheets: dict[str, list[list[Any]]], prompt: str, said: str
) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    assert said in Kernel(tmp_path).ask(prompt).text
