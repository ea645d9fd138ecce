"""Plots with matplotlib: histogram, bars, scatter, line, boxes."""

from __future__ import annotations

from dataclasses import dataclass

from ipyagent.llm.explorer.ask import Ask, Rule
from ipyagent.llm.explorer.families.statistic import expressions, title
from ipyagent.llm.explorer.markdown import block, cell, code, codes, figures, label, number, table
from ipyagent.llm.explorer.snippets import literal, selected
from ipyagent.llm.explorer.steps import MisfitError, Step

_FIGURE = "plt.figure(figsize=(7, 4))"


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

    def groups(self, key: str) -> tuple[str, str, str]:
        """The head of a loop over groups, and the names of a group's key and rows."""
        name, group = self.ask.name("name"), self.ask.name("group")
        if self.polars:
            drop = f"{self.source}.drop_nulls({literal(key)}).sort({literal(key)})"
            head = (
                f"for ({name},), {group} in {drop}.group_by({literal(key)}, maintain_order=True):"
            )
        else:
            head = f"for {name}, {group} in {self.source}.groupby({literal(key)}):"
        return head, name, group

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


def _plot(ask: Ask) -> Plot:
    lines, source = selected(ask.table, ask.where, ask.name("selected"))
    return Plot(ask, lines, source)


def _one_key(ask: Ask) -> str | None:
    keys = [*ask.by, *([ask.colour] if ask.colour else [])]
    if len(keys) > 1:
        raise MisfitError("I can split a plot by one column only.")
    return ask.groups(*keys)[0] if keys else None


def _histogram(ask: Ask) -> Step:
    plot, key = _plot(ask), _one_key(ask)
    (column,) = ask.numeric(*ask.columns)
    if key:
        head, name, group = plot.groups(key)
        drawn = [
            head,
            f"    plt.hist({plot.values(column, group)}, bins=20, alpha=0.6, label={name})",
            f"plt.legend(title={literal(key)})",
        ]
    else:
        drawn = [f"plt.hist({plot.values(column)}, bins=20)"]
    by = f" by {key}" if key else ""
    lines = [
        *plot.lines,
        _FIGURE,
        *drawn,
        *plot.labels(column, "rows", f"Distribution of {column}{by}"),
        f'print(len({plot.values(column)}), "values, median", {plot.values(column)}.median())',
    ]

    def answer(output: str) -> str:
        count, median = figures(output, r"(\d+) values, median (\S+)")
        split = f", coloured by {code(key)}" if key else ""
        seen = f"{count} values in {ask.about}, median {number(median)}"
        return f"**Histogram of {code(column)}**{split}: {seen}."

    return ask.python(f"histogram of {column}{by}", lines, answer)


def _boxes(ask: Ask) -> Step:
    plot, key = _plot(ask), _one_key(ask)
    (column,) = ask.numeric(*ask.columns)
    if key is None:
        lines = [
            *plot.lines,
            _FIGURE,
            f"plt.boxplot({plot.values(column)})",
            *plot.labels("", column, f"Distribution of {column}"),
            f'print("median", {plot.values(column)}.median())',
        ]
        return ask.python(f"box plot of {column}", lines, lambda out: _box_said(ask, column, out))
    head, name, group = plot.groups(key)
    boxes = ask.name("boxes")
    lines = [
        *plot.lines,
        f"{boxes} = {{}}",
        head,
        f"    {boxes}[{name}] = {plot.values(column, group)}",
        _FIGURE,
        f"plt.boxplot(list({boxes}.values()), tick_labels=list({boxes}))",
        *plot.labels(key, column, f"{column} by {key}"),
        f"print({plot.medians(column, key)})",
    ]
    return ask.python(
        f"box plot of {column} by {key}", lines, lambda out: _boxes_said(ask, column, key, out)
    )


def _box_said(ask: Ask, column: str, output: str) -> str:
    (median,) = figures(output, r"median (\S+)")
    return f"**Box plot of {code(column)}** in {ask.about}: median {number(median)}."


def _boxes_said(ask: Ask, column: str, key: str, output: str) -> str:
    found = block(output, [key, "count", "median"])
    body = [[cell(row[0]), row[1], number(row[2])] for row in found if row[0]]
    head = f"**Box plot of {code(column)} by {code(key)}** in {ask.about}"
    return f"{head}\n\n{table([label(key), 'values', 'median'], body)}"


def _scatter(ask: Ask) -> Step:
    plot, key = _plot(ask), _one_key(ask)
    if len(ask.columns) != 2:
        raise MisfitError("A scatter plot needs two columns of numbers.")
    y, x = ask.numeric(*ask.columns)
    if key:
        head, name, group = plot.groups(key)
        drawn = [
            head,
            f"    plt.scatter({group}[{literal(x)}], {group}[{literal(y)}], s=12, label={name})",
            f"plt.legend(title={literal(key)})",
        ]
    else:
        drawn = [f"plt.scatter({plot.source}[{literal(x)}], {plot.source}[{literal(y)}], s=12)"]
    drop = "drop_nulls" if plot.polars else "dropna"
    points = ask.name("points")
    lines = [
        *plot.lines,
        _FIGURE,
        *drawn,
        *plot.labels(x, y, f"{y} against {x}"),
        f"{points} = {plot.source}[{literal([x, y])}].{drop}()",
        f'print(len({points}), "points, correlation", {_corr(plot, points, x, y)})',
    ]

    def answer(output: str) -> str:
        count, r = figures(output, r"(\d+) points, correlation (\S+)")
        split = f", coloured by {code(key)}" if key else ""
        seen = f"{count} points in {ask.about}, correlation {number(r, 2)}"
        return f"**{code(y)} against {code(x)}**{split}: {seen}."

    return ask.python(f"scatter plot of {y} against {x}", lines, answer)


def _corr(plot: Plot, points: str, x: str, y: str) -> str:
    if plot.polars:
        return f"{points}.select(pl.corr({literal(x)}, {literal(y)})).item()"
    return f"{points}[{literal(x)}].corr({points}[{literal(y)}])"


def _line(ask: Ask) -> Step:
    plot, columns = _plot(ask), [*ask.columns, *ask.by]
    if len(columns) != 2:
        raise MisfitError("A line plot needs a column to draw and one to draw it over.")
    y, x = columns
    ask.numeric(y)
    if ask.table.kind(x) not in ("number", "date"):
        raise MisfitError(f"A line needs numbers or dates along it; {code(x)} has neither.")
    line = ask.name("line")
    order = f"sort({literal(x)})" if plot.polars else f"sort_values({literal(x)})"
    lines = [
        *plot.lines,
        f"{line} = {plot.source}[{literal([x, y])}].{order}",
        _FIGURE,
        f"plt.plot({line}[{literal(x)}], {line}[{literal(y)}])",
        *plot.labels(x, y, f"{y} over {x}"),
        f'print(len({line}), "points")',
    ]

    def answer(output: str) -> str:
        (count,) = figures(output, r"(\d+) points")
        return f"**{code(y)} over {code(x)}**: a line through {count} rows of {ask.about}."

    return ask.python(f"line plot of {y} over {x}", lines, answer)


def _bars(ask: Ask) -> Step:
    """Bars of counts, or of one statistic by groups."""
    stats = [*ask.all("STAT"), *ask.all("EXTREME")]
    if stats:
        return _stat_bars(ask, stats)
    keys = ask.by or ask.columns
    if len(keys) != 1 or (ask.by and ask.columns):
        raise MisfitError("For bars of counts I need one column of categories.")
    (key,) = ask.groups(*keys)
    counts = ask.name(f"count_by_{key}")
    plot = _plot(ask)
    made = (
        f"{plot.source}[{literal(key)}].drop_nulls().value_counts(sort=True).head(20)"
        if plot.polars
        else f"{plot.source}[{literal(key)}].value_counts().head(20).reset_index()"
    )
    return _drawn(ask, plot, [f"{counts} = {made}"], (counts, key, "count"), f"Rows by {key}")


def _stat_bars(ask: Ask, stats: list[str]) -> Step:
    key = _one_key(ask)
    if key is None or len(stats) != 1 or stats[0] in ("mode", "range", "quartiles"):
        raise MisfitError("Bars need one statistic of one column, by one column.")
    (column,) = ask.numeric(*ask.columns)
    stat, plot = stats[0], _plot(ask)
    name = ask.name(f"{column}_by_{key}")
    if plot.polars:
        made = (
            f"{plot.source}.drop_nulls({literal(key)}).group_by({literal(key)})"
            f".agg({expressions(column, [stat])}).sort({literal(stat)}, descending=True)"
        )
    else:
        made = (
            f"{plot.source}.groupby({literal(key)})[{literal(column)}].agg([{literal(stat)}])"
            f".sort_values({literal(stat)}, ascending=False).reset_index()"
        )
    heading = f"{title(stat).capitalize()} of {column} by {key}"
    return _drawn(ask, plot, [f"{name} = {made}"], (name, key, stat), heading)


def _drawn(ask: Ask, plot: Plot, made: list[str], bars: tuple[str, str, str], heading: str) -> Step:
    name, key, value = bars
    writer = "write_csv()" if plot.polars else "to_csv(index=False)"
    cast = ".cast(str)" if plot.polars else ".astype(str)"
    lines = [
        *plot.lines,
        *made,
        _FIGURE,
        f"plt.bar({name}[{literal(key)}]{cast}, {name}[{literal(value)}])",
        *plot.labels(key, title(value) if value != "count" else "rows", heading),
        f"print({name}.head(20).{writer})",
    ]

    def answer(output: str) -> str:
        body = [[cell(group), number(height)] for group, height in block(output, [key, value])]
        shown = table([label(key), "rows" if value == "count" else title(value)], body)
        return f"**Bar chart: {heading}** in {ask.about}\n\n{shown}"

    return ask.python(f"bars: {heading}", lines, answer)


def _fitting(ask: Ask) -> Step:
    """The plot that suits the columns where none is named."""
    columns, key = ask.columns, _one_key(ask)
    kinds = [ask.table.kind(column) for column in columns]
    if kinds == ["number"] and key is None:
        return _histogram(ask)
    if kinds == ["number"] and key and ask.by:
        return _against_key(ask, key)
    if kinds in (["text"], ["bool"]) and key is None:
        return _bars(ask)
    if kinds == ["number", "number"] and not ask.by:
        return _scatter(ask)
    if kinds == ["number", "date"] and key is None:
        return _line(ask)
    raise MisfitError(f"I know no plot that suits {codes(columns)} that way.")


def _against_key(ask: Ask, key: str) -> Step:
    kind = ask.table.kind(key)
    return _line(ask) if kind == "date" else _boxes(ask)


def _by_kind(ask: Ask) -> Step:
    """A plot whose kind is named."""
    return {
        "hist": _histogram,
        "bar": _bars,
        "scatter": _scatter,
        "line": _line,
        "box": _boxes,
    }[ask.all("CHART")[0]](ask)


def _distribution(ask: Ask) -> Step:
    if ask.table.kind(ask.columns[0]) == "number":
        return _histogram(ask)
    return _bars(ask)


_DRAW = "(PLOT|NEW|SHOW)? "
_OF = "(OF|FOR|WITH)?"
_TWO = "COL (VS|AND|WITH|OVER|TO) COL"
_SPLIT = "where by colour"
RULES = (
    Rule(f"{_DRAW} CHART PLOT? {_OF} COL", _by_kind, _SPLIT),
    Rule(f"{_DRAW} CHART PLOT? {_OF} {_TWO}", _by_kind, "where colour"),
    Rule(f"{_DRAW} CHART PLOT? (OF|WITH|FOR)? (STAT|EXTREME) (OF)? COL", _by_kind, "where by"),
    Rule(f"{_DRAW} CHART PLOT? {_OF} (COUNT (OF? (ROWS|COL))?)", _by_kind, "where by"),
    Rule("COL CHART | PLOT COL AS CHART", _by_kind, _SPLIT),
    Rule(f"PLOT {_OF} {_TWO} AS CHART", _by_kind, "where colour"),
    Rule(f"{_DRAW} (DISTRIBUTION {_OF} COL | COL DISTRIBUTION)", _distribution, _SPLIT),
    Rule(f"PLOT {_OF} (STAT|EXTREME) (OF)? COL | PLOT COUNT (OF? (ROWS|COL))?", _bars, "where by"),
    Rule(f"PLOT {_OF} (COL | {_TWO})", _fitting, _SPLIT),
)
