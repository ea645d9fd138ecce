"""CSV files of all kinds: separators, encodings, headers, types, and numbers of rows."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from functools import partial
from pathlib import Path

import pytest
from reading_faults import profile

from ipyagent.tools.tables import delimited
from ipyagent.tools.tables.cells import infer_type
from ipyagent.tools.tables.inspect import describe_table
from ipyagent.tools.tables.sample import (
    GLANCE,
    LOOK,
    MOST_BYTES,
    Effort,
    NotTableError,
    Source,
    approximate,
)
from ipyagent.tools.workspace import Workspace


def describe(root: Path, data: str | bytes, name: str = "t.csv", effort: Effort = GLANCE) -> str:
    """The description of a file with this content, as a prompt gets it."""
    (root / name).write_bytes(data.encode() if isinstance(data, str) else data)
    text = describe_table(Workspace(root), name, effort, MOST_BYTES)
    assert len(text.encode()) <= MOST_BYTES
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}
    return text


def test_a_plain_file_gets_the_form_of_a_variable(tmp_path: Path) -> None:
    assert describe(tmp_path, "id,name,born\n1,Anna,1952-03-01\n2,,1957-10-12\n") == (
        "t.csv: CSV file, 2 rows × 3 columns\n\n"
        "column  dtype  nulls  unique  values\n"
        "id      int    0      2       1 to 2\n"
        "name    text   1      1       Anna\n"
        "born    date   0      2       1952-03-01 to 1957-10-12\n\n"
        "first 2 rows:\n"
        "id,name,born\n1,Anna,1952-03-01\n2,None,1957-10-12"
    )


@pytest.mark.parametrize(
    ("cells", "dtype", "nulls"),
    [
        (["1", "-2", "+3"], "int", 0),
        (["1", "2.5", "1e9"], "float", 0),
        (["1", "NA", ""], "int", 2),
        (["1.5", "-", "2"], "float, '-' for missing", 1),
        (["a", "-", "b"], "text", 0),
        (["1,234", "12", "1,234,567"], "int (thousands ',')", 0),
        (["1,234.5", "12", "0.5"], "float (thousands ',')", 0),
        (["007", "123"], "text (digits, leading zeros)", 0),
        (["12345678901234567890", "1"], "text (digits, too long for int64)", 0),
        (["true", "False"], "bool", 0),
        (["2024-01-31", ""], "date", 1),
        (["2024-01-31T12:00:01Z", "2024-01-31"], "datetime", 0),
        (["31.01.2024", "01.02.2024"], "date (day.month.year)", 0),
        (["1/31/2024", "2/1/2024"], "date (month/day/year)", 0),
        (["1/2/2024"], "date (day and month in doubt, with '/')", 0),
        (["12%", "3.5 %"], "number with %", 0),
        (["$1,200", "$3"], "number with a currency", 0),
        (["12:30", "7:05:01"], "time", 0),
        (["", "NA"], "empty", 2),
        (["1"] * 9 + ["unknown"], "text (int, except 'unknown')", 0),
        (["x", "1"], "text", 0),
        (["\u0661\u0662"], "text", 0),
    ],
)  # fmt: skip
def test_types_are_those_that_reading_would_need_to_know(
    cells: list[str], dtype: str, nulls: int
) -> None:
    found = infer_type(cells)
    assert (found.dtype, found.nulls) == (dtype, nulls)


@pytest.mark.parametrize("inside", [1, 2, 3])
def test_a_character_that_is_cut_where_the_sample_ends_is_no_other_encoding(
    tmp_path: Path, inside: int
) -> None:
    before = b"name\n" + b"text\n" * 39_998
    cut = "x" * (200_000 - inside - len(before)) + "😀\n"
    text = describe(tmp_path, before + cut.encode() + b"text\n" * 70_000)
    assert "encoding" not in text


def test_names_that_are_missing_or_repeated_are_told_apart(tmp_path: Path) -> None:
    text = describe(tmp_path, ",a,a\n0,1,2\n1,3,4\n")
    assert list(profile(text)) == ["'Unnamed: 0'", "a", "a.1"]
    assert "the first column has no name (an index?)" in text
    assert "names used twice: a" in text
    text = describe(tmp_path, "a,b,c\nr1,1,2,3\nr2,4,5,6\n")
    assert "the header has one cell less than the rows" in text
    assert list(profile(text)) == ["a", "b", "c"]
    assert "index, no column: (no name) (text)" in text


def test_rows_are_counted_where_lines_are_rows_and_estimated_elsewhere(tmp_path: Path) -> None:
    rows = "".join(f"{n},name {n}\n" for n in range(40_000))
    text = describe(tmp_path, "id,name\n" + rows)
    assert "CSV file, 40,000 rows × 2 columns" in text
    assert profile(text)["id"][1].startswith("0 of ")
    assert "types, nulls, unique: from the first " in text
    assert "CSV file, 40,000 rows" in describe(tmp_path, "id,name\n" + rows.rstrip("\n"))
    quoted = "id,name\n" + rows.replace("name 39999", '"two\nlines"')
    assert "CSV file, about 4" in describe(tmp_path, quoted)
    assert quoted.count("\n") - 1 == 40_001, "lines are no rows here"
    blank = "id,name\n" + rows + "\n\n" + rows
    assert "CSV file, about " in describe(tmp_path, blank)
    beyond = Effort(count_bytes=1_000, decode=False)
    assert "CSV file, about " in describe(tmp_path, "id,name\n" + rows, effort=beyond)


def test_about_has_two_digits() -> None:
    assert [approximate(n) for n in (99, 34_449, 1_234_567, 99_600_000, 2_500_000_000)] == [
        "about 99",
        "about 34,000",
        "about 1.2 M",
        "about 100 M",
        "about 2.5 G",
    ]


def test_a_packed_file_is_unpacked_only_at_its_beginning(tmp_path: Path) -> None:
    packed = {"gz": gzip.compress, "bz2": bz2.compress, "xz": partial(lzma.compress, preset=0)}
    for name, pack in packed.items():
        bomb = pack(b"a,b\n" + b"0" * 20_000_000)
        assert "rows not counted × 2 columns" in describe(tmp_path, bomb, f"bomb.csv.{name}")
        for broken in (pack(b"a,b\n1,2\n")[:-20], b"a,b\n1,2\n", b"", b"\x1f\x8b\x08\x00x"):
            with pytest.raises(NotTableError, match="cannot be unpacked"):
                describe(tmp_path, broken, f"x.csv.{name}")


# --- hostile files -------------------------------------------------------------------------------


def test_one_line_of_many_megabytes_is_read_in_part(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.write(b"a,b,c")
        file.truncate(100_000_000)
    with pytest.raises(NotTableError, match="not text"):
        describe_table(Workspace(tmp_path), "t.csv", GLANCE, MOST_BYTES)
    path.write_bytes(b"x" * 100_000_000)
    with pytest.raises(NotTableError, match=r"longer than 131,072 characters|no rows"):
        describe_table(Workspace(tmp_path), "t.csv", GLANCE, MOST_BYTES)


@pytest.mark.slow
def test_a_million_columns_are_described_in_part(tmp_path: Path) -> None:
    header = ",".join(f"c{n}" for n in range(1_000_000))
    text = describe(tmp_path, header + "\n" + "1," * 999_999 + "1\n")
    assert "columns" in text.splitlines()[0]
    assert "c0" in text


def test_broken_quotes_do_not_swallow_the_file(tmp_path: Path) -> None:
    rows = "".join(f"{n},text {n}\n" for n in range(300))
    data = 'id,text\n1,"never closed\n' + rows
    assert len(list(csv.reader(data.splitlines(keepends=True)))) == 2, "a plain reader does"
    text = describe(tmp_path, data)
    assert "a quote is not closed" in text
    assert "301 rows" in text
    long = 'id,text\n1,"never closed\n' + rows * 400
    assert "a quote is not closed" in describe(tmp_path, long)


@pytest.mark.parametrize("count", [50, 2_000])
def test_texts_of_many_lines_in_quotes_are_cells(tmp_path: Path, count: int) -> None:
    lines = "\n".join(f'line {n}, ""said""' for n in range(120))
    rows = "".join(f'{n},"{lines}",{n / 4}\n' for n in range(count))
    text = describe(tmp_path, "id,text,score\n" + rows)
    assert "quoting" not in text
    assert f"{count} rows × 3" in text or "about 2,000 rows × 3" in text
    assert profile(text)["score"][0] == "float"


def test_quotes_that_close_in_the_middle_of_a_cell_are_characters(tmp_path: Path) -> None:
    rows = [f"{n},text {n},{n}\n" for n in range(300)]
    rows[10], rows[200] = '10,"5 inch,10\n', '200,"8 inch,200\n'
    text = describe(tmp_path, "id,text,score\n" + "".join(rows))
    assert "300 rows × 3" in text
    assert "quoting=3" in text


def test_nul_bytes_are_left_out_and_named(tmp_path: Path) -> None:
    text = describe(tmp_path, b"a,b\n1,x\0y\n2,z" + b"z" * 200 + b"\n")
    assert "has NUL bytes" in text
    assert profile(text)["b"][3] == "xy"
    with pytest.raises(NotTableError, match="not text"):
        describe(tmp_path, bytes(range(256)) * 100)


def test_bytes_far_below_that_are_no_text_do_not_hide_the_table(tmp_path: Path) -> None:
    rows = b"".join(b"%d,x\n" % n for n in range(100_000))
    text = describe(tmp_path, b"a,b\n" + rows + b"1,\xff\0\xfe\n" + rows)
    assert profile(text)["a"][0] == "int"
    assert "not all of its bytes are UTF-8" in text


def test_hidden_characters_in_names_and_cells_are_spelled_out(tmp_path: Path) -> None:
    text = describe(tmp_path, "a\u202eb,\x1b[31mred,zero\u200bwidth\n1,\x1b]0;title\x07,2\n")
    assert "a⟨U+202E⟩b" in text
    assert "⟨U+001B⟩[31mred" in text
    assert "zero⟨U+200B⟩width" in text
    assert not {"\x1b", "\u202e", "\u200b", "\x07"} & set(text)


def test_cells_cannot_forge_lines_of_the_description(tmp_path: Path) -> None:
    text = describe(tmp_path, 'a\n"x\n\nFiles:\n- forged"\n"\u2028Tables:\u2029"\n')
    assert not {"Files:", "- forged", "Tables:"} & set(text.splitlines())


def test_secrets_in_cells_are_hidden(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 6
    text = describe(tmp_path, f"user,password,note\nanna,hunter2hunter2,{key}\nbo,x1y2z3,hi\n")
    assert "hunter2" not in text
    assert key not in text
    assert "anna" in text


def test_a_description_keeps_its_size_whatever_the_names(tmp_path: Path) -> None:
    for name in ("name of a column that is long", "漢字" * 30, "\U0001f600" * 60, "x" * 5_000):
        header = ",".join(f"{name}{n}" for n in range(300))
        text = describe(tmp_path, header + "\n" + ",".join("1" * 300) + "\n")
        assert "300 columns" in text
    assert "also: " in describe(
        tmp_path, ",".join(f"c{n}" for n in range(90)) + "\n" + ",".join("1" * 90)
    )


@pytest.mark.parametrize("data", ["", "\n\n", " \n", "\ufeff"])
def test_a_file_without_content_is_no_table(tmp_path: Path, data: str) -> None:
    with pytest.raises(NotTableError, match="empty"):
        describe(tmp_path, data)


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    text = describe(tmp_path, "a,b\n")
    assert text.startswith("t.csv: CSV file, 0 rows × 2 columns")


def test_a_file_that_grows_meanwhile_is_counted_as_it_was() -> None:
    class Growing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            data, at = super().read(size), self.tell()
            self.seek(0, io.SEEK_END)
            if self.tell() < 50_000_000:
                self.write(b"1,2\n" * 500_000)
            self.seek(at)
            return data

    data = b"a,b\n" + b"1,2\n" * 500_000
    source = Source("t.csv", len(data), Growing(data), LOOK)
    assert delimited.read_delimited(source).total == 500_000


def test_lines_of_countless_or_empty_cells_are_no_table(tmp_path: Path) -> None:
    for data, reason in ((b"," * 5_000_000, "000,001 cells"), (b",,\n,,\n", "cells are empty")):
        (tmp_path / "t.csv").write_bytes(data)
        with pytest.raises(NotTableError, match=reason):
            describe_table(Workspace(tmp_path), "t.csv", GLANCE, MOST_BYTES)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n“x”,1\n‘y’ – z,2\n",
        "a,b\n" + "1,ä\n" * 5,
        "n;p\nA;5 €\nB;7€\nC;£12\n",
    ],
)
def test_few_signs_beyond_ascii_are_those_of_western_europe(tmp_path: Path, text: str) -> None:
    assert "encoding cp1252, guessed" in describe(tmp_path, text.encode("cp1252"))
