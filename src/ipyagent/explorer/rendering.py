"""From a row of the table of intents to code, and from what it printed to a sentence."""

from __future__ import annotations

import csv
import re

from ipyagent.explorer.finishing import FINISH
from ipyagent.explorer.intents import Answer, Env
from ipyagent.explorer.markdown import UnreadableError, block, cell, label, number, percent
from ipyagent.explorer.query import Query
from ipyagent.explorer.snippets import literal
from ipyagent.explorer.workspace import Part


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
        return FINISH[row.finish](given)
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
