"""Separators, quotes, encodings and packings of files as people have them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from pathlib import Path

import pytest
from reading_faults import find_fault

from ipyagent.tools.tables.inspect import describe_table
from ipyagent.tools.tables.sample import LOOK, NotTableError
from ipyagent.tools.workspace import Workspace

DOUBT = None


def pack(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("t.csv", data)
    return buffer.getvalue()


PRICES = b"city;v\nOslo;1,5\nRome;2,5\n"
MEANS: dict[tuple[str, bytes], float | None] = {
    ("t.csv", b"name      v   n\nOslo         10   1\nNew York     20   3\n"): 15,
    ("t.csv", b"city v n\nOslo 1 5\nRome 2 6\n"): 1.5,
    ("t.csv", b" yr  mo  v\n1990   1  -2.5\n1990   2   3.5\n1990  12  -1.0\n"): 0,
    ("t.csv", b"city^v\nOslo^1\nRome^2\n"): 1.5,
    ("t.csv", b"city~v\nOslo~1\nRome~2\n"): 1.5,
    ("t.csv", b"city:v\nOslo:1\nRome:2\n"): 1.5,
    ("t.csv", b"city\x01v\nOslo\x011\nRome\x012\n"): 1.5,
    ("t.csv", b"city\x1fv\nOslo\x1f1\nRome\x1f2\n"): 1.5,
    ("t.csv", b"city\tv\nOslo, N\t1\nRome, I\t2\n"): 1.5,
    ("t.tsv", b"city,v\nOslo,1\nRome,2\n"): 1.5,
    ("t.tsv", PRICES): 2,
    ("t.tsv", b"city\tv\nOslo\t1\nRome\t2\n"): 1.5,
    ("t.csv", b"sep=;\n" + PRICES): 2,
    ("t.csv", b'"sep=;"\n' + PRICES): 2,
    ("t.csv", b"\xef\xbb\xbfsep=;\r\n" + PRICES): 2,
    ("t.csv", b"sep=\t\ncity\tv\nOslo\t1\nRome\t2\n"): 1.5,
    ("t.csv", b"'city','v'\n'Oslo, N','1'\n'Rome, I','2'\n"): 1.5,
    ("t.csv", b'city,v\n"Os\\"lo, N",1\n"Rome",2\n'): 1.5,
    ("t.csv", b"city,v\nOslo,1,50\nRome,2,75\n"): DOUBT,
    ("t.csv", b"city,v\nOslo,1,500\nRome,2,750\n"): DOUBT,
    ("t.csv", b"city,v\nOslo,1\nRome,2\n".replace(b"\n", b"\r")): 1.5,
    ("t.csv", "city,v\nOslo,\u2013\nRome,1\nUlm,2\n".encode()): 1.5,
    ("t.tsv.gz", gzip.compress(PRICES.replace(b";", b"\t"))): 2,
    ("t.jsonl.gz", gzip.compress(b'{"a": 1, "v": 1}\n{"a": 2, "v": 2}\n')): 1.5,
    ("t.json.gz", gzip.compress(b'[{"a": 1, "v": 1}, {"a": 2, "v": 2}]')): 1.5,
    ("t.csv.gz", gzip.compress(PRICES)): 2,
    ("t.csv.zip", pack(PRICES)): 2,
    ("t.csv.bz2", bz2.compress(PRICES)): 2,
    ("t.tsv.xz", lzma.compress(PRICES.replace(b";", b"\t"))): 2,
    ("t.jsonl.xz", lzma.compress(b'{"a": 1, "v": 1}\n{"a": 2, "v": 2}\n')): 1.5,
}
ROWS = [{"city": "Oslo", "v": 1}, {"city": "Rome", "v": 2}]
LINES = "\n".join(map(json.dumps, ROWS))
JSON: dict[tuple[str, str, str], float | None] = {
    ("t.json", json.dumps(ROWS), "utf-8-sig"): 1.5,
    ("t.json", json.dumps(ROWS), "utf-16"): 1.5,
    ("t.json", json.dumps([{**ROWS[0], "city": "K\u00f6ln"}, *ROWS[1:]]), "utf-8"): 1.5,
    ("t.json", '[{"city": "K\u00f6ln", "v": 1}, {"city": "Ulm", "v": 2}]', "cp1252"): 1.5,
    ("t.json", LINES, "utf-8"): 1.5,
    ("t.jsonl", LINES.replace("\n", "\n\n"), "utf-8"): 1.5,
    ("t.jsonl", LINES, "utf-8-sig"): 1.5,
    ("t.jsonl", json.dumps(ROWS), "utf-8"): 1.5,
    (
        "t.json",
        '{"columns": ["a", "v"], "index": [0, 1], "data": [[5, 1], [6, 2]]}',
        "utf-8",
    ): 1.5,
    (
        "t.json",
        '{"schema": {"fields": []}, "data": [{"v": 1}, {"v": 2}]}',
        "utf-8",
    ): 1.5,
    ("t.json", '{"0": {"a": "x", "v": 1}, "1": {"a": "y", "v": 2}}', "utf-8"): 1.5,
    ("t.json", '{"Oslo": {"a": "x", "v": 1}, "Rome": {"a": "y", "v": 2}}', "utf-8"): 1.5,
    ("t.json", '{"a": {"0": "x", "1": "y"}, "v": {"0": 1, "1": 2}}', "utf-8"): 1.5,
    ("t.json", '{"Oslo": {"n": 3, "v": 1}, "Rome": {"n": 4, "v": 2}}', "utf-8"): DOUBT,
    ("t.json", json.dumps({"tags": ["a", "b"], "data": ROWS}), "utf-8"): 1.5,
    ("t.json", json.dumps({"errors": [{"x": 1}, {"x": 2}], "data": ROWS}), "utf-8"): DOUBT,
    ("t.json", '[{"v": 1}, {"v": NaN}, {"v": 3}]', "utf-8"): 2,
    ("t.json", '[{"date": 1, "v": 1700000000}, {"date": 2, "v": 1700000002}]', "utf-8"): 1700000001,
    ("t.json", '[{"v": 10}, {"v": -9999}, {"v": 12}]', "utf-8"): DOUBT,
    ("t.json", '[{"c": "a", "v": 1}, {"c": "b", "v": 2}, {"c": "Total", "v": 3}]', "utf-8"): DOUBT,
}
CODECS = {
    "cp1252": ("preis \u20ac", "K\u00f6ln", "\n"),
    "iso8859_15": ("preis \u20ac", "K\u00f6ln", "\n"),
    "cp1250": ("cena", "\u0141\u00f3d\u017a Wroc\u0142aw", "\n"),
    "cp850": ("Gr\u00f6\u00dfe", "M\u00fcnchen", "\r\n"),
    "mac_roman": ("Gr\u00f6\u00dfe", "M\u00fcnchen", "\r"),
    "utf-16-le": ("preis \u20ac", "K\u00f6ln", "\n"),
}
"""A name, a place and the end of a line that tell an encoding."""


def test_a_file_is_loaded_in_whatever_form_it_comes(tmp_path: Path) -> None:
    faults = {}
    for (name, data), mean in MEANS.items():
        (tmp_path / name).write_bytes(data)
        faults[name, data] = find_fault(tmp_path / name, mean)
    assert not {data: fault for data, fault in faults.items() if fault}


def test_a_json_file_is_loaded_in_whatever_form_it_comes(tmp_path: Path) -> None:
    faults = {}
    for (name, text, codec), mean in JSON.items():
        (tmp_path / name).write_text(text, codec)
        faults[name, text, codec] = find_fault(tmp_path / name, mean)
    assert not {data: fault for data, fault in faults.items() if fault}


def test_text_and_numbers_of_a_json_file_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[{"zip": "01234", "created_at": 1700000000}, {"zip": "1"}]')
    text = describe_table(Workspace(tmp_path), "t.json", LOOK)
    assert "read with: pd.read_json('t.json', dtype=False)" in text
    (tmp_path / "t.json").write_text('[{"id": 12345678901234567890123}, {"id": 1}]')
    with pytest.raises(NotTableError, match="too large"):
        describe_table(Workspace(tmp_path), "t.json", LOOK)


def test_long_numbers_beside_missing_values_keep_their_digits(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,v\n9007199254740993,1\n,2\n9007199254740995,3\n")
    text = describe_table(Workspace(tmp_path), "t.csv", LOOK)
    assert "dtype={'id': 'Int64'}" in text
    assert not find_fault(tmp_path / "t.csv", 2)


def test_names_and_places_are_read_in_their_encoding(tmp_path: Path) -> None:
    for codec, (name, place, end) in CODECS.items():
        lines = [f"{name};v", f"{place};1", f"{place}e;2", f"{place};3", ""]
        (tmp_path / "t.csv").write_bytes(end.join(lines).encode(codec))
        text = describe_table(Workspace(tmp_path), "t.csv", LOOK)
        assert f"encoding={codec!r}" in text
        assert name in text
        assert place in text
        assert not find_fault(tmp_path / "t.csv", 2)


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"<!DOCTYPE html>\n<html><p>Error 404, not found</p></html>", "an HTML page"),
        (b'<?xml version="1.0"?>\n<a b="1, 2"/>', "XML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "Git LFS"),
        (b'[{"city": "Oslo", "v": 1}, {"city": "Rome", "v": 2}]', "JSON"),
    ],
)
def test_other_content_under_the_name_of_a_table_is_named(
    tmp_path: Path, data: bytes, content: str
) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(NotTableError, match=content):
        describe_table(Workspace(tmp_path), "t.csv", LOOK)


@pytest.mark.parametrize(
    "data", ["name\nJohn Smith\nJane Doe\n", "at\n12:30\n12:45\n", "12:30:00\n12:45:00\n"]
)
def test_a_column_of_text_or_times_is_one(tmp_path: Path, data: str) -> None:
    (tmp_path / "t.csv").write_text(data)
    assert "1 columns" in describe_table(Workspace(tmp_path), "t.csv", LOOK)
