"""The common part of plots: the rows to draw, and the library's spelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ipyagent.explorer.ask import Ask
from ipyagent.explorer.families.statistic import expressions
from ipyagent.explorer.snippets import literal, select_rows
from ipyagent.explorer.steps import MisfitError, Step

FIGURE = "plt.figure(figsize=(7, 4))"


@dataclass(frozen=True)
class Plot:
    """The rows to draw, and the library's spelling."""

    ask: Ask
    lines: list[str]
    source: str

    def values(self, column: str, of: str = "") -> str:
        """Return the values of a column without missing ones."""
        drop = "drop_nulls" if self.polars else "dropna"
        return f"{of or self.source}[{literal(column)}].{drop}()"

    @property
    def polars(self) -> bool:
        """True if the table is polars."""
        return self.ask.table.library == "polars"

    def run(
        self, rule: str, lines: Sequence[str], answer: Callable[[str], str], *drop: str
    ) -> Step:
        """Return a task that draws; its helper variables are deleted."""
        picked = [self.source] if self.lines else []
        return self.ask.python(rule, [*self.lines, *lines], answer, *picked, *drop)

    def loop(self, key: str, name: str, group: str) -> str:
        """Return the head of a loop over the groups of a column."""
        if not self.polars:
            return f"for {name}, {group} in {self.source}.groupby({literal(key)})"
        rows = f"{self.source}.drop_nulls({literal(key)}).sort({literal(key)})"
        return f"for ({name},), {group} in {rows}.group_by({literal(key)}, maintain_order=True)"

    def by_group(self, groups: str, column: str, key: str) -> list[str]:
        """Return lines that make a dictionary of a column's values by groups."""
        values = self.values(column, "group")
        loop = self.loop(key, "name", "group")
        return [f"{groups} = {{", f"    name: {values}", f"    {loop}", "}"]

    def medians(self, column: str, key: str) -> str:
        """Return code for the number of values and the median by groups, as CSV."""
        if self.polars:
            stats, by = expressions(column, ["count", "median"]), literal(key)
            return f"{self.source}.group_by({by}).agg({stats}).sort({by}).write_csv()"
        measured = f"groupby({literal(key)})[{literal(column)}]"
        return f'{self.source}.{measured}.agg(["count", "median"]).to_csv()'

    def labels(self, x: str, y: str, heading: str) -> list[str]:
        """Return lines for axis labels and a title."""
        return [
            f"plt.xlabel({literal(x)})",
            f"plt.ylabel({literal(y)})",
            f"plt.title({literal(heading)})",
        ]


def plot_of(ask: Ask) -> Plot:
    """Return a plot of the rows in question."""
    lines, source = select_rows(ask.table, ask.where, ask.name("selected"))
    return Plot(ask, lines, source)


def one_key(ask: Ask) -> str | None:
    """Return the column that splits the plot, if any."""
    keys = [*ask.by, *([ask.colour] if ask.colour else [])]
    if len(keys) > 1:
        raise MisfitError("I can split a plot by one column only.")
    return ask.groups(*keys)[0] if keys else None
