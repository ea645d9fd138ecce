"""From a row of the table of intents to code, and from what it printed to a sentence.

Some sentences depend on what came out: ties, nothing missing, a profile.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass

from ipyagent.explorer.frame import first_of, literal
from ipyagent.explorer.intents import STATISTICS, Env, Query, sentence_case, title
from ipyagent.explorer.text import (
    Rows,
    UnreadableError,
    block,
    cell,
    code,
    codes,
    format_count,
    label,
    number,
    numbers,
    percent,
    table,
)  # fmt: skip
from ipyagent.explorer.workspace import Part

_SHOWN = 30  # values or groups in an answer


@dataclass
class Answer:
    """The figures that a call printed, and the rows of its table."""

    env: Env
    output: str
    figures: list[str]
    rows: Rows
    heading: list[str]

    @property
    def digits(self) -> int | None:
        """The decimals to round to."""
        asked = self.env.query.frame.digits
        return asked if asked is not None else self.env.row.digits

    def show(self) -> str:
        """Return the table in Markdown."""
        row, columns = self.env.row, self.env.query.table.columns or {}
        is_keyed = row.block.startswith("keys")
        left = len(self.env.lists["keys"]) if is_keyed else min(row.left, len(self.heading))
        names = label if self.heading[0] == "column" else cell
        measured = numbers([each[left:] for each in self.rows], self.digits)
        measured = measured or [[] for _ in self.rows]
        body = [[*map(names, each[:left]), *m] for each, m in zip(self.rows, measured, strict=True)]
        heads = [
            label(name) if name in columns and f"'{name}'" not in row.block else title(name)
            for name in self.heading
        ]
        return table(heads, body, left=left)


def render(env: Env) -> Part:
    """Return the part that runs a row's code, and says what came out."""
    row, query, text = env.row, env.query, env.text
    for name in row.names.split():
        env.say(name, query.name(name))
    template = row.code
    if query.polars and row.polars:
        template, env.code["t"] = row.polars, query.table.name
    lines = [line for line in _fill(template, env).splitlines() if line.strip()]
    drop = [env.code[name] for name in row.names.split()]
    of = next((text[name] for name in ("a", "col", "keys") if name in text), "")
    rule = text.get("rule") or (f"{row.name} of {of.replace('`', '')}" if of else row.name)
    copies = query.polars and not row.polars
    rule = f"{rule} ({query.table.name})"
    return Part(rule, tuple(lines), lambda out: _answer(env, out), tuple(drop), copies)


def _fill(template: str, env: Env) -> str:
    """Put names into a template; within a text, as in `"mean of {col}"`, they become part of it."""

    def join(text: re.Match[str]) -> str:
        named = re.sub(r"(?<!\{)\{(\w+)\}", lambda name: env.lists[name[1]][0], text[1])
        made = literal(named).replace("{", "{{").replace("}", "}}")
        return made if named != text[1] else text[0]

    return re.sub(r'"([^"\n]*)"', join, template.strip("\n")).format_map(env.code)


def _answer(env: Env, output: str) -> str:
    row, figures = env.row, list[str]()
    if "figures" in row.code:
        found = re.search(r"^figures (\S.*)$", output, re.MULTILINE)
        if found is None:
            raise UnreadableError("no figures")
        figures = found[1].split()
    heading = _heading(env, output)
    given = Answer(env, output, figures, block(output, heading) if heading else [], heading)
    if row.finish:
        return _FINISH[row.finish](given)
    template = row.answer
    if row.none and figures[0] == "0":
        template = row.none
    if row.single and figures[-1] == "1":
        template = row.single
    said = _words(given)
    if heading and "{table}" in template:
        said["table"] = given.show()
    return re.sub(r"\{(\w+)\}", lambda found: said[found[1]], template)


def _words(given: Answer) -> dict[str, str]:
    """Return the words of a sentence: names of the row, and figures by their place."""
    figures, rows, query = given.figures, given.rows, given.env.query
    top = rows[0] if rows else ["", ""]
    said = {
        **given.env.text, "types": _types(query), "top": cell(top[0]),
        "top1": number(top[-1], given.digits),
        "count": "row" if len(rows) == 1 else f"{len(rows):,} rows",
    }  # fmt: skip
    for place, value in enumerate(figures):
        is_whole = re.fullmatch(r"-?\d+", value)
        said[str(place)] = number(value, None if is_whole else given.digits)
        said[f"n{place}"] = f"{int(value):,}" if is_whole else value
        said[f"s{place}"] = _significant(value, query.frame.digits)
    if len(figures) > 1 and figures[0].isdecimal() and figures[1].isdecimal():
        said["p"] = percent(*figures[:2])
    if figures and re.fullmatch(r"[-\d.e+]+|nan", figures[-1]):
        level = float(query.frame.options.get("ALPHA", 0.05))
        below = float(figures[-1]) < level
        said |= {"level": f"{level:g}", "sig": "" if below else "not "}
        said |= {"dep": "not " if below else "", "strength": _strength(figures[0])}
        said["follows"] = "does not follow" if below else "is compatible with"
    return said


def _types(query: Query) -> str:
    rows = [f"| {label(c)} | {cell(dtype)} |" for c, dtype in (query.table.columns or {}).items()]
    return "\n".join(["| column | type |", "|---|---|", *rows])


def _strength(r: str) -> str:
    size = abs(float(r)) if re.fullmatch(r"-?[\d.]+(e-?\d+)?", r) else 0.0
    if size < 0.1:
        return "hardly any"
    word = "strong" if size >= 0.7 else "moderate" if size >= 0.4 else "weak"
    return f"{word}, {'positive' if float(r) > 0 else 'negative'}"


def _significant(value: str, digits: int | None) -> str:
    """Return a number with the decimals that were asked for, or with four digits that matter."""
    try:
        return f"{float(value):.4g}" if digits is None else number(value, digits)
    except ValueError:
        return value


def _heading(env: Env, output: str) -> list[str]:
    """Return the heading of the table that a row's code prints."""
    if env.row.block == "every":
        return list(env.query.table.columns or {})
    found: list[str] = []
    for part in re.findall(r"'[^']*'|\S+", env.row.block):
        if part == "...":
            starts = [line for line in output.splitlines() if line.startswith(found[0])]
            found = next(csv.reader(starts), [])
        else:
            found += [part.strip("'")] if part.startswith("'") else env.lists[part]
    return found


# Sentences of their own.


def describe_statistics(query: Query, columns: list[str], stats: list[str], output: str) -> str:
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
        note = STATISTICS.get(stat, {}).get("note", "")
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
    if "key" in env.lists:
        by_group = [env.lists["key"][0], f"mean of {env.lists['col'][0]}"]
        ((name, mean),) = block(given.output, by_group)
        which = f"{env.text['key']} **{cell(name)}** that has the {end}: {number(mean)}"
        shown += f"\n\nOn average it is {which}."
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


_FINISH: dict[str, Callable[[Answer], str]] = {
    each.__name__: each for each in (groups, missing, counts, mode, leader, difference, profile)
}
