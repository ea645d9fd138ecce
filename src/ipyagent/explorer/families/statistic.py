"""What the families about numbers share: a question, and how statistics are spelled."""

from __future__ import annotations

from dataclasses import dataclass

from ipyagent.explorer.ask import Ask
from ipyagent.explorer.snippets import literal

_TITLES = {
    "std": "standard deviation",
    "var": "variance",
    "min": "minimum",
    "max": "maximum",
    "skew": "skewness",
    "count": "values",
}


@dataclass(frozen=True)
class Question:
    """Statistics of columns, perhaps by groups."""

    ask: Ask
    columns: list[str]
    stats: list[str]

    @property
    def rounding(self) -> list[str]:
        """The link of a chain that rounds, if that was asked for."""
        if self.ask.digits is None:
            return []
        if self.ask.table.library == "polars":
            return [f".with_columns(cs.float().round({self.ask.digits}))"]
        return [f".round({self.ask.digits})"]


def title(stat: str) -> str:
    """What a statistic is called in an answer."""
    return _TITLES.get(stat, stat)


def sentence_case(text: str) -> str:
    """The text with a capital at its start, the rest as it is."""
    return text[:1].upper() + text[1:]


def expressions(column: str, stats: list[str]) -> str:
    """Named polars expressions of statistics, as arguments."""
    calls = {"skew": "skew(bias=False)"}
    values = f"pl.col({literal(column)})"
    return ", ".join(f"{stat}={values}.{calls.get(stat, f'{stat}()')}" for stat in stats)
