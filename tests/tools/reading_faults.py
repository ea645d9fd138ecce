"""Compare the reading that the description of a file gives with what the file holds."""

from __future__ import annotations

import contextlib
import re
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
