"""Bar charts: of counts, or of one statistic by groups."""

from __future__ import annotations

from ipyagent.llm.explorer.ask import Ask
from ipyagent.llm.explorer.families.drawing import FIGURE, Plot, one_key, plot_of
from ipyagent.llm.explorer.families.statistic import expressions, sentence_case, title
from ipyagent.llm.explorer.markdown import block, cell, code, label, number, table
from ipyagent.llm.explorer.snippets import chained, literal
from ipyagent.llm.explorer.steps import MisfitError, Step

_MAX_BARS = 20


def bars(ask: Ask) -> Step:
    """Bars of counts, or of one statistic by groups."""
    stats = ask.all("STAT", "EXTREME")
    return _statistic(ask, stats) if stats else _counts(ask)


def _counts(ask: Ask) -> Step:
    keys = ask.by or ask.columns
    if len(keys) != 1 or (ask.by and ask.columns):
        raise MisfitError("For bars of counts I need one column of categories.")
    (key,) = ask.groups(*keys)
    plot, name = plot_of(ask), ask.name(f"count_by_{key}")
    if plot.polars:
        links = [f"[{literal(key)}]", ".drop_nulls()", ".value_counts(sort=True)"]
    else:
        links = [f"[{literal(key)}]", ".value_counts()", ".reset_index()"]
    made = chained(name, plot.source, *links, f".head({_MAX_BARS})")
    return _drawn(plot, made, (name, key, "count"), "")


def _statistic(ask: Ask, stats: list[str]) -> Step:
    key = one_key(ask)
    if key is None or len(stats) != 1 or stats[0] in ("mode", "range", "quartiles"):
        raise MisfitError("Bars need one statistic of one column, by one column.")
    column, stat = ask.number, stats[0]
    plot, name = plot_of(ask), ask.name(f"{column}_by_{key}")
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
            f".agg([{literal(stat)}])",
            f".sort_values({literal(stat)}, ascending=False)",
            ".reset_index()",
        ]
    made = chained(name, plot.source, *links, f".head({_MAX_BARS})")
    return _drawn(plot, made, (name, key, stat), column)


def _drawn(plot: Plot, made: list[str], names: tuple[str, str, str], column: str) -> Step:
    """The lines that draw bars: of the statistic of a column, or of counts where it is ""."""
    name, key, stat = names
    height = title(stat) if column else "rows"
    writer = "write_csv()" if plot.polars else "to_csv(index=False)"
    cast = ".cast(str)" if plot.polars else ".astype(str)"
    heading = sentence_case(f"{height} of {column}" if column else height)
    lines = [
        *plot.lines,
        *made,
        FIGURE,
        f"plt.bar({name}[{literal(key)}]{cast}, {name}[{literal(stat)}])",
        *plot.labels(key, height, f"{heading} by {key}"),
        f"print({name}.{writer})",
    ]

    def answer(output: str) -> str:
        body = [[cell(group), number(value)] for group, value in block(output, [key, stat])]
        what = sentence_case(f"{height} of {code(column)}" if column else height)
        head = f"**Bar chart: {what} by {code(key)}** in {plot.ask.about}"
        return f"{head}\n\n{table([label(key), height], body)}"

    return plot.ask.python(f"bars: {heading} by {key}", lines, answer)
