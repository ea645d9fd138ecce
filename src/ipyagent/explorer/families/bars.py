"""Bar charts: of counts, or of one statistic by groups."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask
from ipyagent.explorer.families.drawing import FIGURE, Plot, one_key, plot_of
from ipyagent.explorer.families.statistic import expressions, sentence_case, title
from ipyagent.explorer.markdown import block, cell, code, label, number, table
from ipyagent.explorer.snippets import assign_chain, literal
from ipyagent.explorer.steps import MisfitError, Step

_MAX_BARS = 20


def bars(ask: Ask) -> Step:
    """Draw bars of counts, or of one statistic by groups."""
    stats = ask.all("STAT", "EXTREME")
    return _statistic(ask, stats) if stats else _counts(ask)


def _counts(ask: Ask) -> Step:
    keys = ask.by or ask.columns
    if len(keys) != 1 or (ask.by and ask.columns):
        raise MisfitError("For bars of counts I need one column of categories.")
    (key,) = ask.groups(*keys)
    plot, column = plot_of(ask), f"[{literal(key)}]"
    if plot.polars:
        links = [column, ".drop_nulls()", ".value_counts(sort=True)"]
    else:
        links = [column, ".value_counts()"]
    return _draw_bars(plot, links, (ask.name(f"count_by_{key}"), key, "count"), "")


def _statistic(ask: Ask, stats: list[str]) -> Step:
    key = one_key(ask)
    if key is None or len(stats) != 1 or stats[0] in ("mode", "range", "quartiles"):
        raise MisfitError("Bars need one statistic of one column, by one column.")
    plot, column, stat = plot_of(ask), ask.number, stats[0]
    if plot.polars:
        links = [
            f".drop_nulls({literal(key)})",
            f".group_by({literal(key)})",
            f".agg({expressions(column, [stat])})",
            f".sort({literal(stat)}, descending=True)",
        ]
    else:
        links = [
            f".groupby({literal(key)})[{literal(column)}]",
            f".{stat}()",
            ".sort_values(ascending=False)",
        ]
    return _draw_bars(plot, links, (ask.name(f"{column}_by_{key}"), key, stat), column)


def _draw_bars(plot: Plot, links: list[str], names: tuple[str, str, str], column: str) -> Step:
    """Draw bars of a column's statistic, or of counts if the column is ""."""
    name, key, stat = names
    height = title(stat) if column else "rows"
    heading = sentence_case(f"{height} of {column}" if column else height)
    if plot.polars:
        bars_of = f"{name}[{literal(key)}].cast(str), {name}[{literal(stat)}]"
        writer = "write_csv()"
    else:
        bars_of, writer = f"{name}.index.astype(str), {name}", f"to_csv(header=[{literal(stat)}])"
    lines = [
        *assign_chain(name, plot.source, *links, f".head({_MAX_BARS})"),
        FIGURE,
        f"plt.bar({bars_of})",
        *plot.labels(key, height, f"{heading} by {key}"),
        f"print({name}.{writer})",
    ]

    def answer(output: str) -> str:
        body = [[cell(group), number(value)] for group, value in block(output, [key, stat])]
        height_title = sentence_case(f"{height} of {code(column)}" if column else height)
        head = f"**Bar chart: {height_title} by {code(key)}** in {plot.ask.about}"
        return f"{head}\n\n{table([label(key), height], body)}"

    return plot.run(f"bars: {heading} by {key}", lines, answer, name)
