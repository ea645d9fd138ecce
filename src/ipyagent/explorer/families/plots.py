"""Plots with matplotlib: histogram, boxes, scatter, line, and the choice among them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.families.bars import bars
from ipyagent.explorer.families.drawing import FIGURE, Plot, one_key, plot_of
from ipyagent.explorer.markdown import block, cell, code, codes, figures, label, number, table
from ipyagent.explorer.snippets import literal
from ipyagent.explorer.steps import MisfitError, Step


def _histogram(ask: Ask) -> Step:
    plot, key, column = plot_of(ask), one_key(ask), ask.number
    if key:
        return _histograms(plot, column, key)
    lines = [
        FIGURE,
        f"plt.hist({plot.values(column)}, bins=20)",
        *plot.labels(column, "rows", f"Distribution of {column}"),
        f'print(len({plot.values(column)}), "values, median", {plot.values(column)}.median())',
    ]

    def answer(output: str) -> str:
        count, median = figures(output, r"(\d+) values, median (\S+)")
        summary = f"{count} values in {ask.about}, median {number(median)}"
        return f"**Histogram of {code(column)}**: {summary}."

    return plot.run(f"histogram of {column}", lines, answer)


def _histograms(plot: Plot, column: str, key: str) -> Step:
    groups = plot.ask.name("groups")
    style = 'bins=20, histtype="stepfilled", alpha=0.6'
    lines = [
        *plot.by_group(groups, column, key),
        FIGURE,
        f"plt.hist(list({groups}.values()), {style}, label=list({groups}))",
        f"plt.legend(title={literal(key)})",
        *plot.labels(column, "rows", f"Distribution of {column} by {key}"),
        f"print({plot.medians(column, key)})",
    ]
    said = partial(_groups_said, plot.ask, "Histogram", column, key)
    return plot.run(f"histogram of {column} by {key}", lines, said, groups)


def _boxes(ask: Ask) -> Step:
    plot, key = plot_of(ask), one_key(ask)
    column = ask.number
    if key is None:
        lines = [
            FIGURE,
            f"plt.boxplot({plot.values(column)})",
            *plot.labels("", column, f"Distribution of {column}"),
            f'print("median", {plot.values(column)}.median())',
        ]
        return plot.run(f"box plot of {column}", lines, lambda out: _box_said(ask, column, out))
    groups = ask.name("groups")
    lines = [
        *plot.by_group(groups, column, key),
        FIGURE,
        f"plt.boxplot(list({groups}.values()), tick_labels=list({groups}))",
        *plot.labels(key, column, f"{column} by {key}"),
        f"print({plot.medians(column, key)})",
    ]
    said = partial(_groups_said, ask, "Box plot", column, key)
    return plot.run(f"box plot of {column} by {key}", lines, said, groups)


def _box_said(ask: Ask, column: str, output: str) -> str:
    (median,) = figures(output, r"median (\S+)")
    return f"**Box plot of {code(column)}** in {ask.about}: median {number(median)}."


def _groups_said(ask: Ask, kind: str, column: str, key: str, output: str) -> str:
    found = block(output, [key, "count", "median"])
    body = [[cell(row[0]), row[1], number(row[2])] for row in found if row[0]]
    if not body:
        return f"There are no values to draw in {ask.about}."
    head = f"**{kind} of {code(column)} by {code(key)}** in {ask.about}"
    return f"{head}\n\n{table([label(key), 'values', 'median'], body)}"


def _scatter(ask: Ask) -> Step:
    plot, key = plot_of(ask), one_key(ask)
    if len(ask.columns) != 2:
        raise MisfitError("A scatter plot needs two columns of numbers.")
    y, x = ask.numeric(*ask.columns)
    points, drop = ask.name("points"), "drop_nulls" if plot.polars else "dropna"
    chosen = literal([x, y, key] if key else [x, y])
    drawn, names = [f"plt.scatter({points}[{literal(x)}], {points}[{literal(y)}], s=12)"], [points]
    if key:
        name, group = ask.name("name"), ask.name("group")
        names += [name, group]
        drawn = [
            f"{replace(plot, source=points).loop(key, name, group)}:",
            f"    plt.scatter({group}[{literal(x)}], {group}[{literal(y)}], s=12, label={name})",
            f"plt.legend(title={literal(key)})",
        ]
    lines = [
        f"{points} = {plot.source}[{chosen}].{drop}()",
        FIGURE,
        *drawn,
        *plot.labels(x, y, f"{y} against {x}"),
        f'print(len({points}), "points")',
        f'print("correlation", {_corr(plot, points, x, y)})',
    ]

    def answer(output: str) -> str:
        (count,), (r,) = figures(output, r"(\d+) points"), figures(output, r"correlation (\S+)")
        split = f", coloured by {code(key)}" if key else ""
        summary = f"{count} points in {ask.about}, correlation {number(r, 2)}"
        return f"**{code(y)} against {code(x)}**{split}: {summary}."

    return plot.run(f"scatter plot of {y} against {x}", lines, answer, *names)


def _corr(plot: Plot, points: str, x: str, y: str) -> str:
    if plot.polars:
        return f"{points}.select(pl.corr({literal(x)}, {literal(y)})).item()"
    return f"{points}[{literal(x)}].corr({points}[{literal(y)}])"


def _line(ask: Ask) -> Step:
    plot, columns = plot_of(ask), [*ask.columns, *ask.by]
    if len(columns) != 2:
        raise MisfitError("A line plot needs a column to draw and one to draw it over.")
    y, x = columns
    ask.numeric(y)
    if ask.table.kind(x) not in ("number", "date"):
        raise MisfitError(f"A line needs numbers or dates along it; {code(x)} has neither.")
    line = ask.name("line")
    order = f"sort({literal(x)})" if plot.polars else f"sort_values({literal(x)})"
    lines = [
        f"{line} = {plot.source}[{literal([x, y])}].{order}",
        FIGURE,
        f"plt.plot({line}[{literal(x)}], {line}[{literal(y)}])",
        *plot.labels(x, y, f"{y} over {x}"),
        f'print(len({line}), "points")',
    ]

    def answer(output: str) -> str:
        (count,) = figures(output, r"(\d+) points")
        return f"**{code(y)} over {code(x)}**: a line through {count} rows of {ask.about}."

    return plot.run(f"line plot of {y} over {x}", lines, answer, line)


def _fitting(ask: Ask) -> Step:
    """Draw the plot that suits the columns if none is named."""
    columns, key = ask.columns, one_key(ask)
    kinds = [ask.table.kind(column) for column in columns]
    if kinds == ["number"] and key is None:
        return _histogram(ask)
    if kinds == ["number"] and key and ask.by:
        return _against_key(ask, key)
    if kinds in (["text"], ["bool"]) and key is None:
        return bars(ask)
    if kinds == ["number", "number"]:
        return _scatter(ask)
    if kinds == ["number", "date"] and key is None:
        return _line(ask)
    raise MisfitError(f"I know no plot that suits {codes(columns)} that way.")


def _against_key(ask: Ask, key: str) -> Step:
    kind = ask.table.kind(key)
    return _line(ask) if kind == "date" else _boxes(ask)


def _by_kind(ask: Ask) -> Step:
    """Draw a plot whose kind is named."""
    return {
        "hist": _histogram,
        "bar": bars,
        "scatter": _scatter,
        "line": _line,
        "box": _boxes,
    }[ask.all("CHART")[0]](ask)


def _only_bars(ask: Ask) -> Step:
    if ask.all("CHART") != ["bar"]:
        raise MisfitError("Of counts and statistics I draw bar charts only.")
    return bars(ask)


def _distribution(ask: Ask) -> Step:
    if ask.table.kind(ask.columns[0]) == "number":
        return _histogram(ask)
    return bars(ask)


_DRAW = "(PLOT|NEW|SHOW)? "
_OF = "(OF|FOR|WITH)?"
_TWO = "COL (VS|AND|WITH|OVER|TO) COL"
_SPLIT = "where by colour"
RULES = (
    SentenceRule(f"{_DRAW} CHART PLOT? {_OF} (COL | {_TWO})", _by_kind, _SPLIT),
    SentenceRule(f"{_DRAW} CHART PLOT? {_OF} (STAT|EXTREME) (OF)? COL", _only_bars, "where by"),
    SentenceRule(f"{_DRAW} CHART PLOT? {_OF} COUNT (OF? (ROWS|COL))?", _only_bars, "where by"),
    SentenceRule("COL CHART | PLOT COL AS CHART", _by_kind, _SPLIT),
    SentenceRule(f"PLOT {_OF} {_TWO} AS CHART", _by_kind, _SPLIT),
    SentenceRule(f"{_DRAW} (DISTRIBUTION {_OF} COL | COL DISTRIBUTION)", _distribution, _SPLIT),
    SentenceRule(
        f"PLOT {_OF} (STAT|EXTREME) (OF)? COL | PLOT COUNT (OF? (ROWS|COL))?", bars, "where by"
    ),
    SentenceRule(f"PLOT {_OF} (COL | {_TWO})", _fitting, _SPLIT),
)
