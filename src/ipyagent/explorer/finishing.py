"""Sentences that depend on what came out: ties, nothing missing, a profile."""

from __future__ import annotations

import re
from collections.abc import Callable

from ipyagent.explorer.markdown import (
    Rows,
    block,
    cell,
    code,
    codes,
    label,
    number,
    numbers,
    percent,
    table,
)
from ipyagent.explorer.query import Query, sentence_case, title
from ipyagent.explorer.rendering import Answer
from ipyagent.explorer.steps import UnreadableError

_SHOWN = 30  # values or groups in an answer
_NOTES = {
    "std": "of a sample (ddof=1)", "var": "of a sample (ddof=1)", "pstd": "ddof=0",
    "pvar": "ddof=0", "skew": "adjusted, as in pandas",
    "kurt": "adjusted, normal = 0, as in pandas",
}  # fmt: skip


def describe_statistics(
    query: Query, columns: list[str], stats: list[str], output: str, library: str
) -> str:
    """Say the statistics of columns that were printed, each column in its line."""
    lines = [found.split() for found in re.findall(r"^figures (\S.*)$", output, re.MULTILINE)]
    names = [
        n for stat in stats for n in (("0.25", "0.5", "0.75") if stat == "quartiles" else (stat,))
    ]
    if len(lines) != len(columns) or any(
        len(line) <= len(names) and len(columns) > 1 for line in lines
    ):
        raise UnreadableError("no figures")
    counts = [line[0] for line in lines]
    if set(counts) == {"0"}:
        return f"There are no values to compute from in {query.about}."
    if len(columns) == len(names) == 1:
        stat = names[0]
        note = (
            "as in scipy, not adjusted"
            if library == "scipy" and stat in ("skew", "kurt")
            else _NOTES.get(stat, "")
        )
        value = number(" ".join(lines[0][1:]).removesuffix(" 00:00:00"), query.digits)
        named = (
            f"{stat.removeprefix('quantile ')} quantile"
            if stat.startswith("quantile")
            else title(stat)
        )
        counted = f"({number(counts[0])} values in {query.about}{'; ' * bool(note)}{note})"
        return f"The {named} of {code(columns[0])} is **{value}** {counted}."
    body = [
        [title(n), *(number(line[i + 1], query.digits) for line in lines)]
        for i, n in enumerate(names)
    ]
    if stats == ["min", "max"] and len(columns) == 1:
        body.append(["range", number(str(float(lines[0][2]) - float(lines[0][1])), query.digits)])
    shown = table(["", *map(label, columns)], [*body, ["values", *map(number, counts)]])
    return f"**{codes(columns)}** in {query.about}\n\n{shown}"


def describe_groups(
    query: Query,
    columns: list[str],
    stats: list[str],
    found: Rows,
    heading: list[str],
    top: tuple[int, str] | None,
) -> str:
    """Say statistics by groups; of one that leads, all in a tie."""
    keys = query.by
    width, many = len(keys), top[0] if top else 0
    if not found:
        return f"There are no rows in {query.about}."
    named = [row for row in found if all(row[:width])]
    kept = named[:many] if many > 1 else found
    stat = ", ".join(title(each) for each in stats if each != "count")
    end = "highest" if top and top[1] == "max" else "lowest"
    head = f"**{sentence_case(stat)} of {codes(columns)} by {codes(keys)}** in {query.about}"
    if many == 1:
        best = named[0][width] if named else ""
        winners = [" / ".join(map(cell, row[:width])) for row in named if row[width] == best]
        verb, value = "has" if len(winners) == 1 else "have", number(best, query.digits)
        which = f"{verb} the {end} {stat} {code(columns[0])}"
        head = f"**{', '.join(winners)}** {which}: **{value}** (in {query.about})."
    elif top:
        which = f"{codes(keys)} with the {end} {stat} of {code(columns[0])}"
        head = f"**The {len(kept)} {which}** in {query.about}"
    measured = numbers([row[width:] for row in kept], query.digits)
    body = [[*map(cell, row[:width]), *m] for row, m in zip(kept, measured, strict=True)]
    heads = [label(h) if h in columns else title(h) for h in heading[width:]]
    return f"{head}\n\n{table([*map(label, keys), *heads], body, left=width)}"


def missing(given: Answer) -> str:
    """Say how many values are missing, in one column or in all that have gaps."""
    query, rows = given.env.query, given.figures[0]
    found = [(column, int(count)) for column, count in given.rows]
    some = sorted((each for each in found if each[1]), key=lambda each: -each[1])
    total, about = sum(count for _, count in found), query.about
    if len(found) == 1:
        share = percent(total, rows)
        column = code(found[0][0])
        return f"{column} has **{total} missing values** in {rows} rows of {about} ({share})."
    if not some:
        return f"**No missing values** in {about} ({rows} rows, {len(found)} columns)."
    body = [[label(column), number(str(count)), percent(count, rows)] for column, count in some]
    shown = table(["column", "missing", "share"], body)
    if ends := query.all("MOST", "EXTREME"):
        best = min(c for _, c in found) if ends[0] == "min" else some[0][1]
        names = [f"**{code(column)}**" for column, count in found if count == best]
        verb, most = "has" if len(names) == 1 else "have", "fewest" if ends[0] == "min" else "most"
        share = f"**{best}** of {rows} ({percent(best, rows)})"
        return f"{', '.join(names)} {verb} the {most} missing values: {share}.\n\n{shown}"
    where = f"{len(some)} of {len(found)} columns of {about} ({rows} rows)"
    return f"**{total} missing values** in {where}\n\n{shown}"


def counts(given: Answer) -> str:
    """Say how many rows have which value."""
    query, keys = given.env.query, given.env.lists["keys"]
    many = next(iter(query.all("NUMBER")), _SHOWN)
    named = sum(all(row[:-1]) for row in given.rows)
    cut = len(given.rows) == 500  # there may be more, so that no total is known
    total, every = sum(int(row[-1]) for row in given.rows), len(given.rows)
    shown = [
        [*map(cell, row[:-1]), number(row[-1]), "" if cut else percent(row[-1], total)]
        for row in given.rows[: min(many, _SHOWN)]
    ]
    head = f"**Rows by {codes(keys)}** in {query.about}"
    if len(keys) == 1:
        also = " and missing ones" if named < every else ""
        values = "value" if named == 1 else "different values"
        head = f"**{code(keys[0])} has {'at least ' * cut}{named} {values}{also}** in {query.about}"
    rest = f"\n\nThe {len(shown)} most frequent of {every}." if len(shown) < every else ""
    return f"{head}\n\n{table([*map(label, keys), 'rows', 'share'], shown, left=len(keys))}{rest}"


def shares(given: Answer) -> str:
    """Say which share of each group meets a condition."""
    env = given.env
    body = [[cell(k), percent(mean), number(part), number(n)] for k, mean, part, n in given.rows]
    tests, key, of = (env.text[each] for each in ("tests", "key", "plain"))
    head = f"**Share of rows that meet {tests}, by {key}** in {of}"
    return f"{head}\n\n{table([env.text['key'], 'share', 'rows that do', 'rows'], body)}"


def mode(given: Answer) -> str:
    """Say the most common value, all in a tie."""
    query, column = given.env.query, given.env.text["key"]
    if not given.rows:
        return f"{column} has no values in {query.about}."
    times, how = given.rows[0][1], "least" if query.all("MOST") == ["min"] else "most"
    most = [number(value) for value, count in given.rows if count == times]
    if len(most) == 5:
        return f"{column} has many {how} common values, each {times} times in {query.about}."
    verb = "value of {} is" if len(most) == 1 else "values of {} are"
    sentence = f"The {how} common {verb.format(column)} **{', '.join(most)}**"
    return f"{sentence} ({times} times in {query.about})."


def leader(given: Answer) -> str:
    """Say the highest or lowest value, and what the columns that are asked for hold in its row."""
    query, env = given.env.query, given.env
    at = given.heading.index(env.lists["col"][0])
    if not given.rows or not given.rows[0][at]:
        return f"There are no values of {env.text['col']} in {query.about}."
    best, end = given.rows[0][at], env.text["end"]
    tied = [row for row in given.rows if row[at] == best]
    head = f"The {end} {env.text['col']} is **{number(best, query.digits)}** (in {query.about})"
    if query.also:
        said = [
            " / ".join(dict.fromkeys(cell(r[given.heading.index(c)]) for r in tied))
            for c in query.also
        ]
        head += ": " + ", ".join(
            f"{code(c)} **{s}**" for c, s in zip(query.also, said, strict=True)
        )
    more = " or more" if len(tied) == len(given.rows) == 3 else ""
    ties = f" {len(tied)}{more} rows have it." if len(tied) > 1 else ""
    shown = table(
        [*map(label, given.heading)], [[*map(cell, r)] for r in tied], left=len(given.heading)
    )
    if group := re.search(
        r"^group \{(.+): (?:np\.float64\()?([-\d.e+]+)\)?\}$", given.output, re.MULTILINE
    ):
        name = cell(group[1].strip("'\""))
        mean = f"{env.text['key']} **{name}** that has the {end}: {number(group[2])}"
        shown += f"\n\nOn average it is {mean}."
    return f"{head}.{ties}\n\n{shown}"


def difference(given: Answer) -> str:
    """Say which of two groups has the higher mean or median, and by how much."""
    query, env = given.env.query, given.env
    names = [env.lists["one"][0], env.lists["other"][0]]
    stat = next(iter(query.all("STAT")), "mean")
    found = {row[0]: row[1:] for row in given.rows}
    ends = [found.get(name, [""] * 4)[given.heading.index(stat) - 1] for name in names]
    if not all(ends):
        return f"One of {codes(names)} has no values of {env.text['col']} in {query.about}."
    gap = float(ends[0]) - float(ends[1])
    if gap == 0:
        head = f"**{cell(names[0])} and {cell(names[1])} have the same {stat} {env.text['col']}**"
    else:
        by = number(str(abs(gap)), query.digits)
        higher = cell(names[0] if gap > 0 else names[1])
        head = f"**{higher} has the higher {stat} {env.text['col']}**, by **{by}**"
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
    again = "no duplicate rows" if repeated == "0" else f"{repeated} duplicate rows"
    head = f"**{given.env.text['plain']}: {number(rows)} rows, {len(body)} columns, {again}**"
    parts = [
        head,
        table(given.heading, body, left=2),
        _notes(given.rows, int(rows)),
        _strongest(given),
    ]
    return "\n\n".join(part for part in parts if part)


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


def _strongest(given: Answer) -> str:
    columns = given.env.lists["number_cols"][:20]
    try:
        matrix = block(given.output, ["", *columns])
    except UnreadableError:
        return ""
    pairs = [
        (float(r), row[0], other)
        for i, row in enumerate(matrix)
        for other, r in zip(columns[:i], row[1:], strict=False)
        if r
    ]
    best = sorted(pairs, key=lambda pair: -abs(pair[0]))[:3]
    sentences = [f"{code(a)} and {code(b)} ({number(str(r), 2)})" for r, a, b in best]
    return f"Strongest correlations: {', '.join(sentences)}." if sentences else ""


FINISH: dict[str, Callable[[Answer], str]] = {
    each.__name__: each for each in (missing, counts, shares, mode, leader, difference, profile)
}
