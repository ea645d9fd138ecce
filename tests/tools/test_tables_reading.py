"""A description of a file and what pandas loads by its `read with:` line are the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

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


def profile(text: str) -> dict[str, list[str]]:
    """The rows of the profile by column: dtype, nulls, unique, values."""
    block = next(part for part in text.split("\n\n") if part.startswith("column"))
    rows = [[cell for cell in line.split("  ") if cell] for line in block.splitlines()[1:]]
    return {row[0]: [cell.strip() for cell in row[1:]] for row in rows}


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
