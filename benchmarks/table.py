"""The table of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure of ours, beside the raw client's and a bare loop's over httpx.

    `goal` is the most that `ours` may be: times `raw`, if there is one.
    """

    label: str
    unit: str
    ours: float
    raw: float | None = None
    http: float | None = None
    goal: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours beside raw."""
        return self.ours / self.raw if self.raw else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else (self.ratio or self.ours) <= self.goal

    def to_dict(self) -> dict[str, Any]:
        """Return the figures."""
        return asdict(self)


def print_table(rows: Iterable[Row], base: Iterable[Row] = ()) -> None:
    """Print the rows, beside another revision's rows if there are any."""
    before = {row.label: row for row in base}
    heads = ["", "ours", "raw openai", "httpx", "ratio", "goal", ""] + ["before"] * bool(before)
    print(_line(heads))
    for row in rows:
        cells = [
            row.label,
            f"{_number(row.ours)} {row.unit}".strip(),
            _number(row.raw),
            _number(row.http),
            _number(row.ratio),
            _number(row.goal),
            {True: "met", False: "not met", None: ""}[row.is_met],
        ]
        if before:
            earlier = before.get(row.label)
            cells.append(_number(earlier.ours) if earlier else "")
        print(_line(cells))


def _line(cells: list[str]) -> str:
    first, *others = cells
    return (first.ljust(44) + "".join(each.rjust(13) for each in others)).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
