"""Files that are not UTF-8 with newlines: read, searched and edited as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from test_file_tools import Hands

from ipyagent.errors import AgentError, InvalidArgumentsError, PathValidationError
from ipyagent.tools.file_change import (
    MIXED,
    Change,
    decode_file,
    detect_line_ending,
    normalize_newlines,
    replace_keeping_endings,
)
from ipyagent.tools.file_tools import SearchTool
from ipyagent.tools.workspace import Workspace

ROWS = {
    "cp1252": "Straße;Größe\nMüller;5 €\nRené;naïve\n",
    "latin-1": "name,ville\nRené,Orléans\nZoé,Besançon\n",
    "cp1251": "имя;город\nИван;Москва\nМария;Санкт-Петербург\n",
    "shift_jis": "名前,都市\n太郎,東京\n花子,大阪\n",
    "utf-16-le": "name,city\nRené,Paris\nZoë,Łódź\n",
    "utf-16-be": "name,city\nRené,Paris\nZoë,Łódź\n",
    "utf-16": "имя;город\nИван;Москва\nМария;Киров\n",
    "utf-32": "имя;город\nИван;Москва\nМария;Киров\n",
    "utf-8-sig": "имя;город\nИван;Москва\nМария;Киров\n",
}
NAMED = {
    "cp1252": "cp1252, guessed from its bytes",
    "latin-1": "cp1252, guessed from its bytes",
    "cp1251": "cp1251, guessed from its bytes",
    "shift_jis": "cp932, guessed from its bytes",
    "utf-16-le": "utf-16-le",
    "utf-16-be": "utf-16-be",
    "utf-16": "utf-16-le",
    "utf-32": "utf-32-le",
}
ENDS = {"CR": "\r", "CRLF": "\r\n", "LF": "\n"}


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("encoding", ROWS)
def test_a_file_is_read_whatever_its_encoding_and_line_ends(
    encoding: str, end: str, tmp_path: Path, hands: Hands
):
    first, second, third = ROWS[encoding].split("\n")[:3]
    (tmp_path / "a.csv").write_bytes(ROWS[encoding].replace("\n", ENDS[end]).encode(encoding))
    page = hands.run("read_file", path="a.csv", limit=100)
    assert page.startswith(f"     1\t{first}\n     2\t{second}\n     3\t{third}")
    assert (f"encoding {NAMED.get(encoding)}" in page) == (encoding in NAMED)
    assert ("line ends CR" in page) == (end == "CR")
    assert hands.run("read_file", path="a.csv", offset=2, limit=1).startswith(
        f"     2\t{second}\n("
    )


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("encoding", ROWS)
def test_an_edit_keeps_the_encoding_and_the_line_ends(
    encoding: str, end: str, tmp_path: Path, hands: Hands
):
    text = ROWS[encoding]
    path, second = tmp_path / "a.csv", text.split("\n")[1]
    path.write_bytes(text.replace("\n", ENDS[end]).encode(encoding))
    shown = hands.show("edit_file", path="a.csv", old_string=f"{second}\n", new_string="x\ny\n")
    assert f"-{second}\n+x\n+y\n" in shown.text
    hands.run("edit_file", path="a.csv", old_string=f"{second}\n", new_string="x\ny\n")
    expected = text.replace(f"{second}\n", "x\ny\n").replace("\n", ENDS[end]).encode(encoding)
    assert path.read_bytes() == expected
    hands.run("write_file", path="a.csv", content="z\n", mode="append")
    more = "z\n".replace("\n", ENDS[end]).encode(encoding.replace("utf-8-sig", "utf-8"))
    mark = b"" if encoding not in ("utf-16", "utf-32") else "".encode(encoding)
    assert path.read_bytes() == expected + more.removeprefix(mark)


def test_a_character_that_the_encoding_does_not_have_is_refused(tmp_path: Path, hands: Hands):
    path = tmp_path / "a.csv"
    path.write_bytes(before := ROWS["cp1251"].encode("cp1251"))
    for name, arguments in {
        "edit_file": {"old_string": "Иван", "new_string": "太郎"},
        "write_file": {"content": "太郎\n", "mode": "append"},
    }.items():
        with pytest.raises(InvalidArgumentsError, match=r"encoded as cp1251, which has no '太'"):
            hands.show(name, path="a.csv", **arguments)
    assert path.read_bytes() == before


def test_what_is_overwritten_in_another_encoding_says_so(tmp_path: Path, hands: Hands):
    (tmp_path / "a.csv").write_bytes(ROWS["cp1251"].replace("\n", "\r").encode("cp1251"))
    shown = hands.show("write_file", path="a.csv", content=ROWS["cp1251"])
    assert "--- a/a.csv (line ends CR, cp1251)\n+++ b/a.csv (line ends LF, utf-8)\n" in shown.text


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(20),
        b"\x1f\x8b\x08\xf6\x81\x8d",
        b"PK\x03\x04\xff\xee",
        b"\x89HDF\r\n\x1a\nabc",
        bytes(range(256)),
        b"\xff\xfe\x00",
        b"a\0b",
    ],
)
def test_what_is_no_text_stays_refused(data: bytes):
    with pytest.raises(PathValidationError, match=r"binary file|not UTF-8 text"):
        decode_file(data, "a.bin")


def test_lines_are_found_by_the_numbers_that_reading_gives(tmp_path: Path):
    (tmp_path / "mac.csv").write_bytes(b"name,year\rAnna,1952\rBo,1957\r")
    (tmp_path / "wide.csv").write_bytes("имя\nАнна\n".encode("utf-16"))
    (tmp_path / "old.csv").write_bytes("имя;город\r\nАнна;Москва\r\nПётр;Тверь".encode("cp1251"))
    find = SearchTool(Workspace(tmp_path)).search_files
    assert find("1957") == "mac.csv:3: Bo,1957"
    assert find("Анна") == "old.csv:2: Анна;Москва\nwide.csv:2: Анна"


def test_mixed_line_ends_stay_where_nothing_changes(tmp_path: Path, hands: Hands):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\rb\r\nc\nd\re")
    assert hands.run("read_file", path="a.txt").endswith("5\te\n(line ends mixed)")
    hands.run("edit_file", path="a.txt", old_string="b\nc\n", new_string="B\nC\nD\n")
    assert path.read_bytes() == b"a\rB\r\nC\r\nD\r\nd\re"


def test_a_change_of_line_ends_is_seen_in_the_diff():
    diff = Change("a.txt", b"a\nb\r\n", b"a\nb\n", summary="").diff()
    assert "-b\r\n+b\n" in diff
    assert (
        Change("a.txt", None, b"a\r\nb\r\n", summary="")
        .diff()
        .endswith("+++ b/a.txt (line ends CRLF)\n@@ -0,0 +1,2 @@\n+a\n+b\n")
    )


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "é"]), max_size=20).map("".join)


@given(
    text=PIECES.filter(lambda text: detect_line_ending(text) != MIXED),
    old=PIECES.map(normalize_newlines).filter(bool),
    new=PIECES.map(normalize_newlines),
)
def test_a_replacement_reads_as_that_of_plain_lines(text: str, old: str, new: str):
    edited = replace_keeping_endings(text, old, new)
    assert normalize_newlines(edited) == normalize_newlines(text).replace(old, new)
    assert detect_line_ending(edited) in (detect_line_ending(text), "") or not detect_line_ending(
        text
    )


@given(data=st.binary(max_size=60))
def test_whatever_a_file_holds_it_is_text_that_can_be_written_back_or_refused(data: bytes):
    try:
        file = decode_file(data, "a")
    except AgentError:
        return
    assert file.encode(file.text, "a") == data


def test_single_bytes_with_a_zero_in_each_line_are_no_utf_16() -> None:
    """Every zero is at an odd place, as in UTF-16, and as many as there may be in a text."""
    with pytest.raises(PathValidationError, match=r"a.csv is a binary file \(text/csv, 64 B\)"):
        decode_file(b"a,b\n" + b"0,x\0y\n" * 10, "a.csv")
