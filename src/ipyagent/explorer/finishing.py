"""Sentences that depend on what came out: ties, nothing missing, a profile."""

from __future__ import annotations

import re
from collections.abc import Callable

from ipyagent.explorer.frame import first_of
from ipyagent.explorer.intents import Answer
from ipyagent.explorer.markdown import (
    Rows,
    UnreadableError,
    block,
    cell,
    code,
    codes,
    format_count,
    label,
    number,
    percent,
    table,
)  # fmt: skip
from ipyagent.explorer.query import Query, sentence_case, title

_SHOWN = 30  # values or groups in an answer
_SAMPLE, _ADJUSTED = "of a sample (ddof=1)", "adjusted, as in pandas"
_NOTES = {
    "std": _SAMPLE, "var": _SAMPLE, "pstd": "ddof=0", "pvar": "ddof=0", "skew": _ADJUSTED,
    "kurt": "adjusted, normal = 0, as in pandas",
}  # fmt: skip


def describe_statistics(
    query: Query, columns: list[str], stats: list[str], output: str, library: str
) -> str:
    """Say the statistics of columns that were printed, each column in its line."""
    lines = [found.split() for found in re.findall(r"^figures (\S.*)$", output, re.MULTILINE)]
    names = [n for s in stats for n in (("0.25", "0.5", "0.75") if s == "quartiles" else (s,))]
    is_short = len(columns) > 1 and any(len(line) <= len(names) for line in lines)
    if len(lines) != len(columns) or is_short:
        raise UnreadableError("no figures")
    counts, digits = [line[0] for line in lines], query.frame.digits
    if {*counts} == {"0"}:
        return f"There are no values to compute from in {query.about}."
    if len(columns) == len(names) == 1:
        (stat,) = names
        note = _NOTES.get(stat, "")
        if library == "scipy" and stat in ("skew", "kurt"):
            note = "as in scipy, not adjusted"
        value = number(" ".join(lines[0][1:]).removesuffix(" 00:00:00"), digits)
        counted = f"({number(counts[0])} values in {query.about}{'; ' * bool(note)}{note})"
        return f"The {title(stat)} of {code(columns[0])} is **{value}** {counted}."
    body = [
        [title(n), *(number(line[i], digits) for line in lines)] for i, n in enumerate(names, 1)
    ]
    if stats == ["min", "max"] and len(columns) == 1:
        body.append(["range", number(str(float(lines[0][2]) - float(lines[0][1])), digits)])
    shown = table(["", *map(label, columns)], [*body, ["values", *map(number, counts)]])
    return f"**{codes(columns)}** in {query.about}\n\n{shown}"


def groups(given: Answer) -> str:
    """Say statistics by groups; of one that leads, all in a tie."""
    env, about, digits = given.env, given.env.query.about, given.digits
    keys, columns, stat = env.lists["keys"], env.lists["columns"], env.text["stat"]
    if not given.rows:
        return f"There are no rows in {about}."
    width, many = len(keys), int(env.lists["top"][0])
    named = [row for row in given.rows if all(row[:width])]
    head = f"**{sentence_case(stat)} of {codes(columns)} by {codes(keys)}** in {about}"
    if many == 1:
        best = named[0][width] if named else ""
        winners = [" / ".join(map(cell, row[:width])) for row in named if row[width] == best]
        verb, value = "has" if len(winners) == 1 else "have", number(best, digits)
        which = f"{verb} the {env.text['end']} {stat} {code(columns[0])}"
        head = f"**{', '.join(winners)}** {which}: **{value}** (in {about})."
    elif many:
        given.rows = named[:many]
        which = f"{codes(keys)} with the {env.text['end']} {stat} of {code(columns[0])}"
        head = f"**The {len(given.rows)} {which}** in {about}"
    return f"{head}\n\n{given.show()}"


def missing(given: Answer) -> str:
    """Say how many values are missing, in one column or in all that have gaps."""
    query, rows = given.env.query, given.figures[0]
    found = [(column, int(count)) for column, count in given.rows]
    some = sorted((each for each in found if each[1]), key=lambda each: -each[1])
    total, about = format_count(sum(count for _, count in found)), query.about
    size = f"{format_count(rows)} rows"
    if len(found) == 1:
        what = f"{code(found[0][0])} has **{total} missing values** in {size} of {about}"
        return f"{what} ({percent(found[0][1], rows)})."
    if not some:
        return f"**No missing values** in {about} ({size}, {len(found)} columns)."
    body = [[label(column), format_count(count), percent(count, rows)] for column, count in some]
    shown = table(["column", "missing", "share"], body)
    if ends := query.all("MOST", "EXTREME"):
        fewest = ends[0] == "min"
        best = min(count for _, count in found) if fewest else some[0][1]
        names = [f"**{code(column)}**" for column, count in found if count == best]
        verb, most = "has" if len(names) == 1 else "have", "fewest" if fewest else "most"
        which = f"{', '.join(names)} {verb} the {most}"
        share = f"**{format_count(best)}** of {format_count(rows)} ({percent(best, rows)})"
        return f"{which} missing values: {share}.\n\n{shown}"
    where = f"{len(some)} of {len(found)} columns of {about} ({size})"
    return f"**{total} missing values** in {where}\n\n{shown}"


def counts(given: Answer) -> str:
    """Say how many rows have which value."""
    query, keys = given.env.query, given.env.lists["keys"]
    many = min(first_of(query.frame.core, "NUMBER", default=_SHOWN), _SHOWN)
    named, every = sum(all(row[:-1]) for row in given.rows), len(given.rows)
    cut = every == 500  # there may be more, so that no total is known
    total = sum(int(row[-1]) for row in given.rows)
    shown = [
        [*map(cell, row[:-1]), number(row[-1]), "" if cut else percent(row[-1], total)]
        for row in given.rows[:many]
    ]
    head = f"**Rows by {codes(keys)}** in {query.about}"
    if len(keys) == 1:
        also = " and missing ones" if named < every else ""
        values = "value" if named == 1 else "different values"
        head = f"**{code(keys[0])} has {'at least ' * cut}{named} {values}{also}** in {query.about}"
    rest = f"\n\nThe {len(shown)} most frequent of {every}." if len(shown) < every else ""
    return f"{head}\n\n{table([*map(label, keys), 'rows', 'share'], shown, left=len(keys))}{rest}"


def mode(given: Answer) -> str:
    """Say the most common value, all in a tie."""
    about, column = given.env.query.about, given.env.text["key"]
    if not given.rows:
        return f"{column} has no values in {about}."
    times, how = given.rows[0][1], "least" if given.env.query.all("MOST") == ["min"] else "most"
    most = [number(value) for value, count in given.rows if count == times]
    if len(most) == 5:
        return f"{column} has many {how} common values, each {times} times in {about}."
    verb = "value of {} is" if len(most) == 1 else "values of {} are"
    sentence = f"The {how} common {verb.format(column)} **{', '.join(most)}**"
    return f"{sentence} ({times} times in {about})."


def leader(given: Answer) -> str:
    """Say the highest or lowest value, and what the columns that are asked for hold in its row."""
    query, env, heading = given.env.query, given.env, given.heading
    at, column, end = heading.index(env.lists["col"][0]), env.text["col"], env.text["end"]
    if not given.rows or not given.rows[0][at]:
        return f"There are no values of {column} in {query.about}."
    best, width = given.rows[0][at], len(heading)
    tied = [row for row in given.rows if row[at] == best]
    head = f"The {end} {column} is **{number(best, query.frame.digits)}** (in {query.about})"
    if query.also:
        said = {c: dict.fromkeys(cell(row[heading.index(c)]) for row in tied) for c in query.also}
        head += ": " + ", ".join(f"{code(c)} **{' / '.join(s)}**" for c, s in said.items())
    more = " or more" if len(tied) == len(given.rows) == 3 else ""
    ties = f" {len(tied)}{more} rows have it." if len(tied) > 1 else ""
    shown = table([*map(label, heading)], [[*map(cell, row)] for row in tied], left=width)
    found = r"^group \{(.+): (?:np\.float64\()?([-\d.e+]+)\)?\}$"
    if group := re.search(found, given.output, re.MULTILINE):
        name = cell(group[1].strip("'\""))
        mean = f"{env.text['key']} **{name}** that has the {end}: {number(group[2])}"
        shown += f"\n\nOn average it is {mean}."
    return f"{head}.{ties}\n\n{shown}"


def difference(given: Answer) -> str:
    """Say which of two groups has the higher mean or median, and by how much."""
    query, env, column = given.env.query, given.env, given.env.text["col"]
    names = [env.lists["one"][0], env.lists["other"][0]]
    stat = first_of(query.frame.core, "STAT", default="mean")
    found = {row[0]: row[given.heading.index(stat)] for row in given.rows}
    ends = [found.get(name) for name in names]
    if not all(ends):
        return f"One of {codes(names)} has no values of {column} in {query.about}."
    gap = float(ends[0] or 0) - float(ends[1] or 0)
    higher, by = cell(names[gap < 0]), number(str(abs(gap)), query.frame.digits)
    head = f"**{higher} has the higher {stat} {column}**, by **{by}**"
    if gap == 0:
        head = f"**{cell(names[0])} and {cell(names[1])} have the same {stat} {column}**"
    return f"{head} (in {query.about})\n\n{given.show()}"


def profile(given: Answer) -> str:
    """Say what an analyst looks at first."""
    rows, repeated = given.figures[:2]
    if not given.rows:
        raise UnreadableError("the profile has no columns")
    body = [
        [label(r[0]), cell(r[1]), *("" if v in ("", "nan", "None") else number(v) for v in r[2:])]
        for r in given.rows
    ]
    again = "no duplicate rows" if repeated == "0" else f"{format_count(repeated)} duplicate rows"
    head = f"**{given.env.text['plain']}: {format_count(rows)} rows, {len(body)} columns, {again}**"
    parts = [head, table(given.heading, body, left=2), _notes(given.rows, int(rows))]
    pairs = [each for each in block(given.output, ["a", "b", "r"]) if each[0] < each[1]][:3]
    said = [f"{code(a)} and {code(b)} ({number(r, 2)})" for a, b, r in pairs]
    parts += [f"Strongest correlations: {', '.join(said)}."] * bool(said)
    return "\n\n".join(parts)


def _notes(found: Rows, rows: int) -> str:
    notes = []
    if gaps := sorted((row for row in found if int(row[2])), key=lambda row: -int(row[2])):
        name, _, count, *_ = gaps[0]
        most = f"most in {code(name)} ({count}, {percent(count, rows)})"
        notes.append(f"- Missing: {len(gaps)} of {len(found)} columns, {most}")
    if constant := [row[0] for row in found if row[3] in ("0", "1") and rows > 1]:
        notes.append(f"- Constant: {codes(constant)}")
    if keys := [row[0] for row in found if int(row[3]) == rows and rows > 1]:
        notes.append(f"- Different in every row: {codes(keys)}")
    outside = [f"{code(row[0])} ({number(row[7])})" for row in found if float(row[7] or 0)]
    notes.append(f"- Outliers (IQR rule): {', '.join(outside) or 'none'}")
    return "\n".join(notes)


def tables(given: Answer) -> str:
    """Say how two tables differ."""
    env, mine = given.env, given.env.query.table.columns or {}
    one, other, theirs = env.text["plain"], env.text["other"], env.lists["theirs"]
    only = [[c for c in mine if c not in theirs], [c for c in theirs if c not in mine]]
    notes = [f"- Only in {n}: {codes(c)}" for n, c in zip((one, other), only, strict=True) if c]
    types = [c for c in mine if c in theirs and c not in env.lists["shared"]]
    notes += [f"- Of different types: {codes(types)}"] * bool(types)
    found = {row[0]: row[1] for row in given.rows}
    both, left, right = (found[each] for each in ("both", "left_only", "right_only"))
    notes.append(
        f"- Different rows over the {len(env.lists['shared'])} shared columns: {both} in both, "
        f"{left} only in {one}, {right} only in {other}"
    )
    sizes = [["rows", *given.figures], ["columns", str(len(mine)), str(len(theirs))]]
    return f"**{one} and {other}**\n\n{table(['', one, other], sizes)}\n\n" + "\n".join(notes)


FINISH: dict[str, Callable[[Answer], str]] = {
    each.__name__: each
    for each in (groups, missing, counts, mode, leader, difference, profile, tables)
}
