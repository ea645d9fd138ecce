"""The common part of the families about numbers: a question, and names of statistics."""

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
class StatisticQuestion:
    """Statistics of columns, perhaps by groups."""

    ask: Ask
    columns: list[str]
    stats: list[str]

    @property
    def rounding(self) -> list[str]:
        """The link of a chain that rounds, if asked for."""
        if self.ask.digits is None:
            return []
        if self.ask.table.library == "polars":
            return [f".with_columns(cs.float().round({self.ask.digits}))"]
        return [f".round({self.ask.digits})"]


def title(stat: str) -> str:
    """Return a statistic's name in an answer."""
    return _TITLES.get(stat, stat)


def sentence_case(text: str) -> str:
    """Return the text with a capital at its start, the rest unchanged."""
    return text[:1].upper() + text[1:]


def expressions(column: str, stats: list[str]) -> str:
    """Return named polars expressions of statistics, as arguments."""
    calls = {"skew": "skew(bias=False)"}
    values = f"pl.col({literal(column)})"
    return ", ".join(f"{stat}={values}.{calls.get(stat, f'{stat}()')}" for stat in stats)
