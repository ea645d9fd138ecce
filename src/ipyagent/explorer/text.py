"""Words of names, and unused names; values and tables in Markdown."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, count

from ipyagent.plaintext import ellipsize, join_words

Words = tuple[str, ...]

_UNITS = """
    mm cm m km in ft mi g kg mg lb lbs oz t s sec secs ms min mins h hr hrs days c f k pct percent
    usd eur gbp l ml hpa kwh mph kmh sqm sqft minutes hours seconds years euros dollars miles
"""
UNITS = frozenset(_UNITS.split())
_RESERVED = frozenset({"pd", "pl", "np", "plt", "In", "Out", "get_ipython", "ipyagent"})
_MOST_ROWS = 60
"""Rows of a table in an answer."""


@lru_cache(4096)
def words(text: str) -> Words:
    """Return a name's words in lower case and the singular, also the words of camel case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return tuple(map(singular, re.findall(r"[^\W_]+", spaced.casefold())))


def without_unit(name: Words) -> Words:
    """Return a name's words without the unit at their end."""
    while len(name) > 1 and (name[-1] in UNITS or f"{name[-1]}s" in UNITS):
        name = name[:-1]
    return name


def singular(word: str) -> str:
    """Return a word without the ending of a plural."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def usable(name: str) -> bool:
    """Return whether a variable may have this name without hiding something else."""
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        return False
    return not (name.startswith("_") or name in _RESERVED or hasattr(builtins, name))


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a valid, unused variable name like `name`."""
    base = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")[:60] or "table"
    base = base if usable(base) else f"table_{base}"
    used = set(taken)
    names = chain([base], (f"{base}_{number}" for number in count(2)))
    return next(name for name in names if name not in used)


def literal(value: object) -> str:
    """Return a Python literal; plain text gets double quotes, as from a formatter."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}:
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


# Markdown ----------------------------------------------------------------------------------------


def number(value: object) -> str:
    """Format a value of a result; nothing becomes n/a."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "n/a" if value is None else cell(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    if abs(value) >= 10:
        return f"{value:,.2f}" if abs(value) >= 10_000 else f"{value:.2f}"
    return f"{value:.4g}"


def percent(part: float, whole: float) -> str:
    """Format a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else "n/a"


def code(text: str) -> str:
    """Return text as a code span, whatever it contains."""
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def codes(names: Iterable[str]) -> str:
    """Return names as code spans: `a`, `b` and `c`."""
    return join_words(map(code, names))


def label(name: object) -> str:
    """Return a column's name for a cell of a table."""
    return code(str(name)).replace("|", "\\|")


def cell(value: object) -> str:
    """Return a value as plain text that Markdown leaves alone; nothing is `(missing)`."""
    if value is None or value == "":
        return "(missing)"
    flat = ellipsize(" ".join(str(value).removesuffix("T00:00:00.000").split()), 80)
    return re.sub(r"([\\`*_\[\]<>|#~&!$])", r"\\\1", flat)


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; columns of numbers are right-aligned."""
    shown, marks = list[list[str]](), list[str]()
    for at, name in enumerate(heading):
        column = [row[at] for row in rows[:_MOST_ROWS]]
        is_number = any(isinstance(each, int | float) for each in column)
        write = label if name == "column" else number if is_number else cell
        shown.append([write(each) for each in column])
        marks.append("---:" if is_number else "---")
    lines = [map(label, heading), marks, *zip(*shown, strict=True)]
    more = f"\n\n… and {len(rows) - _MOST_ROWS} more." if len(rows) > _MOST_ROWS else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def fence(text: str, lines: int = 30) -> str:
    """Return text as a code block that it cannot close, cut after so many lines."""
    shown = text.rstrip().splitlines()
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    more = [f"… ({len(shown) - lines} more lines)"] * (len(shown) > lines)
    return "\n".join([f"{ticks}text", *shown[:lines], *more, ticks])
