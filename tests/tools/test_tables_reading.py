"""A description of a file and what pandas loads by its `read with:` line are the same."""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest
from reading_faults import parts_of, profile, replace_parts

from ipyagent.tools.tables.inspect import describe_table
from ipyagent.tools.tables.sample import GLANCE, MOST_BYTES
from ipyagent.tools.workspace import Workspace

NARROW, NO_BREAK, QUOTE = "\u202f", "\u00a0", "\N{RIGHT SINGLE QUOTATION MARK}"


def describe(path: Path) -> str:
    text = describe_table(Workspace(path.parent), path.name, GLANCE, MOST_BYTES)
    assert len(text.encode()) <= MOST_BYTES
    return text


def written(text: str, word: str = "read with") -> str:
    """What the description says after a word at the start of its second line."""
    line = text.splitlines()[1]
    return line.partition(f"{word}: ")[2] if line.startswith(word) else ""


def load(path: Path, code: str = "") -> pd.DataFrame:
    """What pandas loads, by this code or without any option."""
    plain = f"pd.read_{'excel' if path.suffix == '.xlsx' else 'csv'}({path.name!r})"
    code = (code or plain).replace(f"({path.name!r}", f"({str(path)!r}")
    frame: pd.DataFrame = eval(code, {"pd": pd})
    return frame


def name_of(label: Any) -> str:
    plain = str(label)
    odd = plain != plain.strip() or not plain or any(c in "\"',:()[]=|" for c in plain)
    return repr(plain) if odd and isinstance(label, str) else plain


def differences(text: str, frame: pd.DataFrame) -> Iterator[str]:
    """Where a description is not that of the frame: names, numbers, missing values, rows."""
    described = profile(text)
    names = [name_of(label) for label in frame.columns]
    if list(described) != names:
        yield f"{list(described)} but {names}"
        return
    if f", {len(frame):,} rows" not in text.splitlines()[0]:
        yield f"{text.splitlines()[0]} but {len(frame)}"
    if ("index, no column" in text) == isinstance(frame.index, pd.RangeIndex):
        yield f"index {frame.index}"
    for label, (dtype, nulls, *_) in zip(frame.columns, described.values(), strict=True):
        number = dtype.startswith(("int", "float", "empty"))
        if number != pd.api.types.is_numeric_dtype(frame[label]):
            yield f"{label}: {dtype} but {frame[label].dtype}"
        if int(nulls) != frame[label].isna().sum():
            yield f"{label}: {nulls} nulls but {frame[label].isna().sum()}"


def test_what_is_described_is_what_is_loaded_in_each_dialect(tmp_path: Path) -> None:
    draw = random.Random(7)
    failures = []
    for number in range(400):
        path = tmp_path / f"t{number}.csv"
        amounts, data = write_dialect(draw)
        path.write_bytes(data)
        text = describe(path)
        try:
            frame = load(path, written(text))
            found = [*differences(text, frame)]
            values = frame.iloc[:, 1].dropna().tolist()
            if values != amounts:
                found.append(f"{values} but {amounts}")
        except Exception as error:
            found = [repr(error)]
        if found:
            failures.append("\n".join([data.decode("latin-1")[:300], text[:600], *found]))
    assert not failures, f"{len(failures)} of 400:\n" + "\n=====\n".join(failures[:5])


def write_dialect(draw: random.Random) -> tuple[list[float], bytes]:
    """The amounts in a file, and the file in a dialect drawn by chance."""
    separator = draw.choice([",", ";", "\t", "|"])
    decimal = draw.choice([".", ","])
    thousands = draw.choice(["", "", ",", ".", " ", "'", QUOTE, NO_BREAK, NARROW])
    thousands = "" if thousands == decimal else thousands
    amounts = [draw.choice([1234.5, 7.25, 1002003.75, 80.5, 0.5, -3456.25]) for _ in range(5)]
    amounts[0] = 1234.5
    cells = [f"{amount:,.2f}".replace(",", "T").replace(".", decimal) for amount in amounts]
    cells = [cell.replace("T", thousands) for cell in cells]
    names = ["place", "amount", "day", "code"]
    names = [draw.choice([f" {each}", each, f"{each} ", each]) for each in names]
    places = ["Oslo", "K\u00f6ln", "Oslo", "Paris", "Rom"]
    days = ["31.01.2024", "01.02.2024", "12.12.2023", "03.03.2024", "24.12.2024"]
    codes = ["007", "010", "", "100", "NA"]
    rows = [list(each) for each in zip(places, cells, days, codes, strict=True)]
    if draw.random() < 0.2:
        rows[3][1:2], amounts[3:4] = [draw.choice(["", "-", " ", "?"])], []
    if draw.random() < 0.3:
        rows = [[str(n), *row] for n, row in enumerate(rows)]
        rows = [[row[1], row[2], row[0], *row[3:]] for row in rows]
        names.insert(2, "")
    quoted = draw.random() < 0.3
    lines = [[_quote(cell, separator, quoted) for cell in row] for row in [names, *rows]]
    head = draw.random() < 0.8
    ends = draw.choice(["none", "none", "all", "rows", "some", "two"])
    for n, line in enumerate(lines):
        some = {"all": True, "rows": n > 0, "some": n in (2, 4), "two": n > 0}.get(ends, False)
        line += [""] * (some + (ends == "two" and some))
    texts = [separator.join(line) for line in lines[0 if head else 1 :]]
    if head and draw.random() < 0.3:
        texts[:0] = draw.choice([
            ["Sales report 2024", "Printed 3 January", ""],
            ["# made by hand", "# in 2024"],
            [separator * 4],
            ["Sales of 2024" + separator * 4, ""],
        ])  # fmt: skip
    if draw.random() < 0.2:
        texts.insert(len(texts) - 2, "# a note, in between")
    if draw.random() < 0.2:
        texts.insert(len(texts) - 1, draw.choice(["", "   "]))
    end = draw.choice(["\n", "\r\n"])
    text = end.join(texts) + draw.choice([end, ""])
    codec = draw.choice(["utf-8", "utf-8", "utf-8-sig", "cp1252", "utf-16"])
    codec = "utf-8" if thousands == NARROW and codec == "cp1252" else codec
    return amounts, text.encode(codec)


def _quote(cell: str, separator: str, always: bool) -> str:
    return f'"{cell}"' if separator in cell or (always and cell) else cell


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("city,sales\nOslo,100,\nRome,103,\n", "index_col=False"),
        ("city,sales\nOslo,100\nRome,103,\n", "usecols=range(2), index_col=False"),
        ("city,sales,\nOslo,100,\n", "usecols=range(2)"),
        ("zip,n\n02013,1\n02014,2\n", "dtype={'zip': str}"),
        (
            "d;v\n31.01.2024;1.234,5\n",
            "sep=';', decimal=',', thousands='.', parse_dates=['d'], date_format={'d': '%d.%m.%Y'}",
        ),
        ("ip;v\n1.2.3;1.234,5\n", "sep=';', decimal=',', thousands='.', dtype={'ip': str}"),
        ('a,list\n"1,234","1,2,3"\n', "thousands=',', dtype={'list': str}"),
        ("a,b\n1, NA\n2,3\n", "na_values={'b': [' NA']}"),
        ("a,b\n1, \n2,3\n", "na_values={'b': [' ']}"),
        ('a,b\n1, "x, y"\n2, "z, w"\n', "skipinitialspace=True"),
        ('a;b\n1;"x\n' + "2;y\n" * 200, "sep=';', quoting=3"),
        ("a,b\n1,2\n# note, here\n3,4\n", "comment='#'"),
        ("#chrom\tstart\nx\t1\n", "sep='\\t'"),
        ("1,x\n2,y\n", "header=None"),
        ("1,x,\n2,y,\n", "header=None, usecols=range(2)"),
        ("a;b\nx;1,5\ny;1,234\n", "sep=';', decimal=','"),
        ("a;b\nx;0,234\ny;1,234\n", "sep=';', decimal=','"),
        ("a;b\nx;1,234,567\ny;1,234\n", "sep=';', thousands=','"),
        ("a;b;c\nx;1.5;1,234\n", "sep=';', thousands=','"),
        ("a|b\n1|2\n", "sep='|'"),
        ("price\n1,50\n2,75\n", "sep=';', decimal=','"),
        ("a,a,a.1,,b\n1,2,3,4,5\n", ""),
        ("a,b\nr1,1,2\nr2,3,4\n", ""),
        (" a,b \nr1,1\n", ""),
        ("a,b\n1,2\n   \n3,4\n", ""),
        ("a,b\n#DIV/0!,2\n#N/A,4\n5,6\n", "na_values={'a': ['#DIV/0!']}"),
        ("a,b\n#1,2\n#2,4\n", ""),
        ("a,2024-01-01,2024-01-02\nx,1,2\n", ""),
        ("a;01.01.2024;01.02.2024\nx;1;2\n", "sep=';'"),
        ("Ulm,2024-01-01,2024-02-01\nBonn,2024-03-01,2024-04-01\n", "header=None"),
        (",0,1\n0,1.5,2\n1,2.5,3\n", ""),
        (",0\na,1.5\nb,2.5\n", ""),
        ("0,1,2\n5,6,7\n", ""),
        ("id,b\n-12345678901234567890,1\n5,2\n", "dtype={'id': str}"),
        ('a,b\n"5 pipe,1\n6 pipe,2\n', "quoting=3"),
        ('a,b\n1,"x\n"\n', ""),
        ("a,b\n1,2\n\n3,4\n\nSource: Census\n\n", "skipfooter=3, engine='python'"),
        ('a,b,c\n1,2,3\n\n"Note: x, y",,\n', "skipfooter=2, engine='python'"),
        ("a,b\n1,2\n\n5,\n", ""),
    ],
)
def test_the_line_says_no_more_than_is_needed(tmp_path: Path, data: str, code: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(data)
    text = describe(path)
    assert written(text) == (f"pd.read_csv('t.csv', {code})" if code else "")
    assert not [*differences(text, load(path, written(text)))]


@pytest.mark.parametrize(
    "data",
    [
        "a,b\n1,2\n3,4,x\n",
        "a,b\n1,2,\n3,4,x\n",
        "a,b,c\n1,2,3,4,5\n1,2,3,4,5\n",
        "a;b\nx;1,234\ny;12,345\n",
        "a;b\nx;1.234\ny;12.345\n",
        "a\tb\nx\t1,234\n",
        "a;b;c\nx;1,5;1.5\n",
        "a,b\nx,1\ny,2\nTotal,3\n",
        "a;b\nx;1\ny;2\nSumme:;3\n",
        "n,a,b\n1,x,1\n2,y,2\n,Total,3\n",
        "a,b\nTotal,3\nx,1\ny,2\n",
        "a,b\nx,1\ny,2\nSubtotal N,3\nz,4\nSubtotal S,4\nGrand total,7\n",
        "t,v,name\ns,m/s,\n0,1,x\n1,,y\n3,4,z\n",
        ",sales,sales\nregion,2023,2024\nN,2,3\nS,6,7\n",
        ",2023,,2024,\nregion,sales,costs,sales,costs\nN,1,2,3,4\nS,5,6,7,8\n",
        ",North,,South,\nday,min,max,min,max\n1,1,2,3,4\n2,5,6,7,8\n",
        "sales,,costs,\n2023,2024,2023,2024\n1,2,3,4\n5,6,7,8\n",
    ],
)
def test_where_two_readings_are_possible_both_are_given(tmp_path: Path, data: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(data)
    text = describe(path)
    assert "float" not in text, "no number is named where its sign is in doubt"
    doubt = written(text, "in doubt")
    one, _, other = doubt[doubt.index(": ") + 2 :].partition(" or ")
    assert load(path, one).to_csv() != load(path, other).to_csv()


@pytest.mark.parametrize(
    "row", ["all cities together,a whole country,1", "n/a,m/s,1", "s,2,1", "n/a,n/a,1"]
)
def test_a_row_that_holds_no_units_is_data(tmp_path: Path, row: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"t,v,n\n{row}\n0,1,1\n1,2,1\n3,4,1\n")
    assert "in doubt" not in describe(path)


def test_small_files_are_looked_at_as_a_whole_and_parts_of_large_ones_say_so(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    for rows, nulls in ((30_000, "15,000"), (300_000, " of ")):
        lines = (f"{n}," + ("" if n % 2 else "x") for n in range(rows))
        path.write_text("id,kind\n" + "\n".join(lines) + "\n")
        assert nulls in profile(describe(path))["kind"][1]


@pytest.mark.parametrize(
    ("end", "fact"),
    [
        ("Total,9\n", "in doubt: the last row may be a total: pd.read_csv('t.csv') or "),
        ("\n,,\nSource: Census\n\n", "skipfooter=4, engine='python'"),
        ("\nTotal or not,9\n", ""),
        ('"A line\n\nTotal\n",5\n', ""),
    ],
)
def test_the_end_of_a_large_file_is_looked_at(tmp_path: Path, end: str, fact: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("city,sales\n" + "Oslo,100\n" * 60_000 + end)
    text = describe(path)
    assert fact in text if fact else "read_csv" not in text


def test_repeated_rows_ends_and_few_values_are_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = ["9,male,2024-02-01", "10,female,2023-12-24", "9,male,2024-02-01", "9,male,2024-02-01"]
    path.write_text("\n".join(["n,sex,day", *rows]))
    text = describe(path)
    assert "2 repeated rows" in text
    found = profile(text)
    assert found["n"][-1] == "9 to 10"
    assert found["sex"][-1] == "male, female"
    assert found["day"][-1] == "2023-12-24 to 2024-02-01"
    assert "first 2 rows" in text
    path.write_text("pin,password\n" + "1234,hunter2\n5678,hunter3\n1234,hunter2\n")
    assert "hunter" not in describe(path)


def test_text_that_looks_like_another_value_is_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sign,on\n-,True \nx,False\nx,False\n")
    found = profile(describe(path))
    assert found["sign"] == ["text", "0", "2", "-, x"]
    assert found["on"][0] == "text"
    assert load(path)["on"][0] == "True "


# --- workbooks -----------------------------------------------------------------------------------


def save(path: Path, *sheets: list[list[Any]], hidden: int = 0) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"S{number}")
        sheet.sheet_state = "hidden" if number < hidden else "visible"
        for row in rows:
            sheet.append(row)
    book.save(path)


@pytest.mark.parametrize("word", ["1", "true", "0", "false", None])
def test_a_workbook_has_its_own_epoch(tmp_path: Path, word: str | None) -> None:
    path = tmp_path / "t.xlsx"
    save(path, [["day", "n"], [datetime.date(2024, 3, 1), 1]])
    given = f'<workbookPr date1904="{word}"/>' if word else ""
    book = re.sub(rb"<workbookPr ?/>", given.encode(), parts_of(path)["xl/workbook.xml"])
    assert given.encode() in book
    replace_parts(path, workbook=book)
    assert str(load(path)["day"][0].date()) in describe(path)


DAY, LATER = datetime.datetime(2024, 3, 1), datetime.datetime(2024, 4, 1)
TABLE = [["city", "amount"], ["Oslo", 1], ["Rome", 2]]


@pytest.mark.parametrize(
    ("sheets", "hidden", "code"),
    [
        ([TABLE], 0, ""),
        ([[["old"], [9]], TABLE], 1, "sheet_name='S1'"),
        ([[["old"], [9]], [["old"], [9]], TABLE], 2, "sheet_name='S2'"),
        ([[], TABLE], 0, "sheet_name='S1'"),
        ([[["Quarterly sales"], [], *TABLE]], 0, "skiprows=2"),
        ([[["Quarterly sales"], *TABLE]], 0, "skiprows=1"),
        ([[["old"], [9]], [["Sales"], [], *TABLE]], 1, "sheet_name='S1', skiprows=2"),
        ([[["zip", "n"], ["007", 1], ["010", 2]]], 0, "dtype={'zip': str}"),
        ([[["city", "n"], ["Oslo", "-"], ["Rome", 2]]], 0, "na_values={'n': ['-']}"),
        ([[["a ", " b"], [1, 2]]], 0, ""),
        ([[["city", 2023, 2024], ["Oslo", "-", 1], ["Rome", 2, 3]]], 0, "na_values={2023: ['-']}"),
        ([[["city", DAY], ["Oslo", 1]]], 0, "header=None"),
        ([[["n", "time"], [1, datetime.time(12, 30)], [2, datetime.time(8)]]], 0, ""),
        ([[["n", "k"], ["#1", 1], ["x", 2]]], 0, ""),
        ([[*TABLE, [], ["Source: Census"]]], 0, "skipfooter=2"),
        ([[["n", "a"], ["1\xa0234,5", 1], ["2,5", 2]]], 0, "decimal=',', thousands='\\xa0'"),
    ],
)
def test_a_workbook_is_read_as_it_is_described(
    tmp_path: Path, sheets: list[Any], hidden: int, code: str
) -> None:
    path = tmp_path / "t.xlsx"
    save(path, *sheets, hidden=hidden)
    text = describe(path).replace("Excel sheet", "file")
    assert written(text) == (f"pd.read_excel('t.xlsx', {code})" if code else "")
    assert not [*differences(text, load(path, written(text)))]
    assert ("hidden sheets, not shown here: 'S0'" in text) == bool(hidden)


def test_cells_of_a_workbook_are_what_a_library_makes_of_them(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    lasts = datetime.timedelta(days=1, hours=6)
    for row in ["name", DAY, LATER], ["y", "-", 4], ["z", 5, 6]:
        sheet.append(row)
    path = tmp_path / "t.xlsx"
    book.save(path)
    assert list(load(path, written(describe(path)))) == ["name", DAY, LATER]
    assert load(path, written(describe(path)))[DAY].sum() == 5
    sheet.delete_rows(1, 3)
    for row in ["name", "part", "lasts", "at", "old"], ["x", 1, lasts, None, DAY], ["y", 2]:
        sheet.append(row)
    sheet["B2"].data_type, sheet["B2"].value = "e", "#DIV/0!"
    sheet["A3"].data_type, sheet["A3"].value = "e", "#N/A"
    sheet["D2"].value, sheet["D2"].number_format = 0.5, "hh:mm"
    sheet["E2"].value, sheet["E2"].number_format = 1, "yyyy-mm-dd"
    sheet["B3"].number_format = "_d##_m"
    book.save(path)
    frame, text = load(path), describe(path)
    assert frame.isna().sum().tolist() == [1, 1, 1, 1, 1]
    assert {name: row[1] for name, row in profile(text).items()} == dict.fromkeys(frame, "1")
    assert frame["lasts"][0] == lasts
    assert "\nx,None,30:00:00,12:00:00,1900-01-01\nNone,2,None,None,None" in text
    assert frame["at"][0] == datetime.time(12)
    assert str(frame["old"][0]).startswith("1900-01-01")


# --- several sheets, and formulas ----------------------------------------------------------------

MONTH = [["city", "amount"], ["Oslo", 1], ["Rome", 2]]
COVERS: list[list[list[Any]]] = [
    [["Sales report 2024"]],
    [["Sales report 2024"], [], ["made by Anna"], ["numbers in EUR"]],
    [["Sales report"], [], ["Created by", "Anna"], ["Date", datetime.date(2024, 1, 3)]],
    [["Author", "Anna"], ["Department", "Sales"], ["Version", 2]],
    [["Version", 2], ["Year", 2024]],
    [[None, None, "Sales report"], [], [None, None, None, "by Anna"]],
    [["Created by", "Anna"], ["From", DAY], ["To", LATER]],
    [["Contents"], ["1", "Data"], ["2", "Notes"]],
    [["column", "meaning"], ["city", "where it was"], ["amount", "in EUR"]],
]


@pytest.mark.parametrize("cover", COVERS)
def test_a_cover_sheet_is_no_table(tmp_path: Path, cover: list[list[Any]]) -> None:
    path = tmp_path / "t.xlsx"
    save(path, cover, MONTH)
    text = describe(path)
    assert written(text) == "pd.read_excel('t.xlsx', sheet_name='S1')"
    assert not [*differences(text.replace("Excel sheet", "file"), load(path, written(text)))]
    assert "\nExcel sheet 'S0'" in text, "the cover is named too"
    save(path, cover)
    assert "Excel sheet 'S0'" in describe(path).splitlines()[0], "it is all there is"


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        (MONTH, MONTH, ""),
        (MONTH, [["amount", "City "], [3, "Bonn"]], ""),
        (MONTH, [[*MONTH[0], "note"], ["Bonn", 3, "late"]], ""),
        (MONTH, [["Sales of May"], [], *MONTH], ""),
        ([["Sales of May"], [], *MONTH], MONTH, ", skiprows=2"),
    ],
)
def test_sheets_with_the_same_columns_are_a_doubt(
    tmp_path: Path, first: list[list[Any]], second: list[list[Any]], one: str
) -> None:
    path = tmp_path / "t.xlsx"
    save(path, [["Sales report"]], first, second)
    text = describe(path)
    assert "in doubt: 2 sheets have the same columns: 'S1', 'S2': " in text
    ways = written(text, "in doubt").partition("'S2': ")[2].partition(" or ")
    assert ways[0] == f"pd.read_excel('t.xlsx', sheet_name='S1'{one})"
    assert "sheet_name='S2'" in ways[2]
    for way in (ways[0], ways[2]):
        assert {str(name).strip().lower() for name in load(path, way)} >= {"city", "amount"}


def test_sheets_with_other_columns_are_no_doubt(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    save(path, MONTH, [["city", "people"], ["Oslo", 7], ["Rome", 8]], [["amount"], [1]])
    assert "in doubt" not in describe(path)
    assert written(describe(path)) == "pd.read_excel('t.xlsx', sheet_name='S0')", "it is named"
    save(path, MONTH, [["Source: Census"]])
    assert written(describe(path)) == "", "notes are no other table"


RESULTS: list[tuple[str, list[str], bool]] = [
    ("", ["<f>B2*2</f>", "<f>B3*2</f>"], True),
    ("", ["<f>B2*2</f><v></v>", "<f>B3*2</f><v/>"], True),
    ("", ["<f>B2*2</f><v>2</v>", "<f>B3*2</f>"], True),
    ("", ["<f>B2*2</f><v>2</v>", "<f>B3*2</f><v>4</v>"], False),
    ("", ["<f>B2*2</f><v>0</v>", "<f>B3*2</f><v>0</v>"], False),
    ("1", ["<f>B2*2</f><v>0</v>", "<f>B3*2</f><v>0</v>"], True),
    ("1", ["<f>B2*2</f><v>0</v>", "<f>B3*2</f><v>4</v>"], False),
    ("1", ["<v>0</v>", "<v>0</v>"], False),
]


@pytest.mark.parametrize(("loads", "cells", "doubt"), RESULTS)
def test_no_number_is_said_of_formulas_without_results(
    tmp_path: Path, loads: str, cells: list[str], doubt: bool
) -> None:
    path = tmp_path / "t.xlsx"
    save(path, [["city", "n", "twice"], ["Oslo", 1, 7], ["Rome", 2, 8]])
    parts = parts_of(path)
    sheet = parts["xl/worksheets/sheet1.xml"].decode()
    for number, cell in enumerate(cells):
        sheet = sheet.replace(f"<v>{7 + number}</v>", cell)
    book = re.sub(
        r'fullCalcOnLoad="1"', f'fullCalcOnLoad="{loads or 0}"', parts["xl/workbook.xml"].decode()
    )
    replace_parts(path, worksheets__sheet1=sheet.encode(), workbook=book.encode())
    text = describe(path)
    assert ("formulas have no results" in written(text, "in doubt")) == doubt
    assert (profile(text)["twice"][0] == "number, in doubt") == doubt
    assert profile(text)["n"] == ["int", "0", "2", "1 to 2"]


@pytest.mark.parametrize(
    ("merged", "doubt"),
    [
        (["A3:A4"], True),
        (["A3:B4"], True),
        (["A3:B3"], False),
        (["A1:C1"], False),
        (["A1:A2"], False),
    ],
)
def test_labels_in_merged_cells_may_stand_for_each_of_their_rows(
    tmp_path: Path, merged: list[str], doubt: bool
) -> None:
    path = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    rows = [["region", "shop", "n"], ["N", "a", 1], ["S", "b", 2], ["T", "c", 3]]
    for row in [["Sales"], *rows] if doubt else rows:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    book.save(path)
    text = describe(path)
    assert (
        "in doubt: merged cells may stand for each of their rows in 'region': " in text
    ) == doubt
    if doubt:
        filled = load(path, written(text, "in doubt").rpartition(" or ")[2])
        assert filled["region"].tolist() == ["N", "N", "T"]


def test_a_formula_in_a_title_touches_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    save(path, [["Printed", "=TODAY()"], [], *MONTH])
    assert "in doubt" not in describe(path)
