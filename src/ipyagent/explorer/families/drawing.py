"""What the plots share: the rows they draw, and how their library spells things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ipyagent.explorer.ask import Ask
from ipyagent.explorer.families.statistic import expressions
from ipyagent.explorer.snippets import literal, selected
from ipyagent.explorer.steps import MisfitError, Step

FIGURE = "plt.figure(figsize=(7, 4))"


@dataclass(frozen=True)
class Plot:
    """The rows to draw and how their library spells things."""

    ask: Ask
    lines: list[str]
    source: str

    def values(self, column: str, of: str = "") -> str:
        """The values of a column that are there."""
        drop = "drop_nulls" if self.polars else "dropna"
        return f"{of or self.source}[{literal(column)}].{drop}()"

    @property
    def polars(self) -> bool:
        """Whether the table is polars."""
        return self.ask.table.library == "polars"

    def run(
        self, rule: str, lines: Sequence[str], answer: Callable[[str], str], *drop: str
    ) -> Step:
        """A task that draws; what the code needed on the way is dropped."""
        picked = [self.source] if self.lines else []
        return self.ask.python(rule, [*self.lines, *lines], answer, *picked, *drop)

    def loop(self, key: str, name: str, group: str) -> str:
        """The head of a loop over the groups of a column."""
        if not self.polars:
            return f"for {name}, {group} in {self.source}.groupby({literal(key)})"
        rows = f"{self.source}.drop_nulls({literal(key)}).sort({literal(key)})"
        return f"for ({name},), {group} in {rows}.group_by({literal(key)}, maintain_order=True)"

    def by_group(self, groups: str, column: str, key: str) -> list[str]:
        """Lines that make a dictionary of a column's values by groups."""
        values = self.values(column, "group")
        loop = self.loop(key, "name", "group")
        return [f"{groups} = {{", f"    name: {values}", f"    {loop}", "}"]

    def medians(self, column: str, key: str) -> str:
        """Code for the number of values and the median by groups, as CSV."""
        if self.polars:
            stats, by = expressions(column, ["count", "median"]), literal(key)
            return f"{self.source}.group_by({by}).agg({stats}).sort({by}).write_csv()"
        measured = f"groupby({literal(key)})[{literal(column)}]"
        return f'{self.source}.{measured}.agg(["count", "median"]).to_csv()'

    def labels(self, x: str, y: str, heading: str) -> list[str]:
        """Axis labels and a title."""
        return [
            f"plt.xlabel({literal(x)})",
            f"plt.ylabel({literal(y)})",
            f"plt.title({literal(heading)})",
        ]


def plot_of(ask: Ask) -> Plot:
    """A plot of the rows that are asked about."""
    lines, source = selected(ask.table, ask.where, ask.name("selected"))
    return Plot(ask, lines, source)


def one_key(ask: Ask) -> str | None:
    """The column that splits the plot, if any."""
    keys = [*ask.by, *([ask.colour] if ask.colour else [])]
    if len(keys) > 1:
        raise MisfitError("I can split a plot by one column only.")
    return ask.groups(*keys)[0] if keys else None
