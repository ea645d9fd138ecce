"""Compare the reading that the description of a file gives with what the file holds."""

from __future__ import annotations

import contextlib
import re
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from ipyagent.tools.tables.inspect import describe_table
from ipyagent.tools.tables.sample import LOOK
from ipyagent.tools.workspace import Workspace

_PLAIN = {
    ".xlsx": "pd.read_excel({})", ".json": "pd.read_json({})",
    ".jsonl": "pd.read_json({}, lines=True)",
}  # fmt: skip


def profile(text: str) -> dict[str, list[str]]:
    """The rows of the profile by column: dtype, nulls, unique, values."""
    block = next(part for part in text.split("\n\n") if part.startswith("column"))
    rows = [[cell for cell in line.split("  ") if cell] for line in block.splitlines()[1:]]
    return {row[0]: [cell.strip() for cell in row[1:]] for row in rows}


def parts_of(path: Path) -> dict[str, bytes]:
    """The files in an archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def replace_parts(path: Path, **parts: bytes) -> None:
    """Replace parts of a workbook; the names are those below `xl/`, without `.xml`."""
    changed = {f"xl/{name.replace('__', '/')}.xml": data for name, data in parts.items()}
    files = parts_of(path) | changed
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def load(path: Path, code: str) -> pd.DataFrame:
    with contextlib.chdir(path.parent):
        frame: pd.DataFrame = eval(code, {"pd": pd})
    return frame


def find_fault(path: Path, mean: float | None) -> str:
    """What is wrong with the reading of the column `v`, whose mean is given; None for a doubt."""
    text = describe_table(Workspace(path.parent), path.name, LOOK)
    first = text.splitlines()[1]
    if first.startswith("in doubt: "):
        one, _, other = first[first.index("pd.") :].partition(" or ")
        reasons = first.partition(": pd.")[0].split("; ")
        touches = any("'v'" in each or re.search(r" in ['\d]", each) is None for each in reasons)
        if mean is not None:
            means = [load(path, each)["v"].mean() for each in (one, other)]
            return first if touches or means != [pytest.approx(mean)] * 2 else ""
        if not touches:
            return f"v is not in doubt: {first}"
        same = load(path, one).to_csv() == load(path, other).to_csv()
        return f"the same: {first}" if same else ""
    plain = _PLAIN.get(path.suffix, "pd.read_csv({})").format(repr(path.name))
    code = first.removeprefix("read with: ") if first.startswith("read with") else plain
    frame = load(path, code)
    if f", {len(frame):,} rows" not in text:
        return f"{text.splitlines()[0]}, but {len(frame)} with {code}"
    found = frame["v"].mean() if pd.api.types.is_numeric_dtype(frame["v"]) else frame["v"]
    return "" if mean is not None and found == pytest.approx(mean) else f"{found} by {code}"
