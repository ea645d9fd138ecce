"""The highest and the lowest: of groups, and of rows."""

from __future__ import annotations

from ipyagent.explorer.ask import Ask, SentenceRule
from ipyagent.explorer.families.grouping import MAX_GROUPS, by_group
from ipyagent.explorer.families.statistic import StatisticQuestion
from ipyagent.explorer.markdown import block, code, label, number, table
from ipyagent.explorer.snippets import literal, print_chain, rows
from ipyagent.explorer.steps import MisfitError, Step

_RANKABLE = ("mean", "median", "sum", "std")


def _which(ask: Ask) -> Step:
    """Answer `which species has the highest mean body mass`, `top 3 islands by mean body mass`."""
    key, *measured = ask.columns
    if len(measured) != 1:
        raise MisfitError("I need one column to group by and another one to measure.")
    question = StatisticQuestion(ask.group_by(key), ask.numeric(*measured), [_stat(ask)])
    return by_group(question, (_how_many(ask, 1), ask.all("EXTREME", "COMPARATIVE", "TOP")[0]))


def _highest(ask: Ask) -> Step:
    """Answer `highest mean body mass by species`."""
    if len(ask.by) != 1:
        raise MisfitError("To find the highest or lowest I need one column to group by.")
    question = StatisticQuestion(ask, ask.numeric(*ask.columns), [_stat(ask)])
    return by_group(question, (1, ask.all("EXTREME")[0]))


def _stat(ask: Ask) -> str:
    stats = ask.all("STAT")
    if len(stats) != 1 or stats[0] not in _RANKABLE:
        raise MisfitError("To rank groups I need a mean, median, sum or standard deviation.")
    return str(stats[0])


def _how_many(ask: Ask, otherwise: int) -> int:
    count = next(iter(ask.all("NUMBER")), otherwise)
    if not (isinstance(count, int) and 0 < count <= MAX_GROUPS):
        raise MisfitError(f"I can show the first 1 to {MAX_GROUPS}.")
    return count


def _rows(ask: Ask) -> Step:
    """Answer `top 5 rows by body mass`, `5 highest body masses`."""
    ranked = [*ask.columns, *ask.by]
    if len(ranked) != 1:
        raise MisfitError("I need one column to rank the rows by.")
    (column,) = ask.numeric(*ranked)
    count, highest = _how_many(ask, 5), ask.all("TOP", "EXTREME")[0] == "max"
    source, heading = rows(ask.table, ask.where), list(ask.table.columns or {})
    if ask.table.library == "polars":
        order = f".sort({literal(column)}, descending={highest}, nulls_last=True)"
        lines = print_chain(source, order, f".head({count})", ".write_csv()")
    else:
        pick = f".{'nlargest' if highest else 'nsmallest'}({count}, {literal(column)})"
        lines = print_chain(source, pick, ".to_csv(index=False)")
    which = "highest" if highest else "lowest"

    def answer(output: str) -> str:
        body = [[number(value) for value in row] for row in block(output, heading)]
        shown = table([*map(label, heading)], body, left=len(heading))
        title = f"**The {len(body)} rows with the {which} {code(column)}** in {ask.about}"
        return f"{title}\n\n{shown}"

    return ask.python(f"the {count} rows with the {which} {column}", lines, answer)


_WHERE = "where digits"
RULES = (
    SentenceRule("NUMBER? COL (HAS|IS? WITH) EXTREME STAT (OF|IN|FOR)? COL", _which, _WHERE),
    SentenceRule("COL (HAS|IS? WITH) COMPARATIVE STAT (OF|IN|FOR)? COL", _which, _WHERE),
    SentenceRule("TOP NUMBER COL BY STAT (OF|IN|FOR)? COL", _which, _WHERE),
    SentenceRule("EXTREME STAT (OF|IN|FOR)? COL", _highest, _WHERE, "by"),
    SentenceRule("TOP NUMBER ROWS?", _rows, "where", "by"),
    SentenceRule("TOP NUMBER COL VALUES?", _rows, "where"),
    SentenceRule("(NUMBER EXTREME | EXTREME NUMBER) COL VALUES?", _rows, "where"),
    SentenceRule("NUMBER ROWS? WITH EXTREME COL | ROWS WITH NUMBER EXTREME COL", _rows, "where"),
)
