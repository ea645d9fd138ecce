"""Spellings of names, and unused names."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")
UNITS = frozenset(
    [
        "mm",
        "cm",
        "m",
        "km",
        "in",
        "ft",
        "mi",
        "g",
        "kg",
        "mg",
        "lb",
        "lbs",
        "oz",
        "t",
        "s",
        "sec",
        "secs",
        "ms",
        "min",
        "mins",
        "h",
        "hr",
        "hrs",
        "days",
        "c",
        "f",
        "k",
        "pct",
        "percent",
        "usd",
        "eur",
        "gbp",
        "l",
        "ml",
        "pa",
        "hpa",
        "kpa",
        "w",
        "kw",
        "kwh",
        "wh",
        "v",
        "hz",
        "khz",
        "mhz",
        "kb",
        "mb",
        "gb",
        "mps",
        "kmh",
        "mph",
        "ha",
        "sqm",
        "m2",
        "m3",
    ]
)
_RESERVED = frozenset({"pd", "pl", "np", "plt", "stats", "In", "Out", "get_ipython", "ipyagent"})


def words(text: str) -> Words:
    """Return a name's words in lower case: `bill_length_mm` gives bill, length, mm."""
    return tuple(_WORD.findall(text.casefold()))


def spellings(name: str) -> set[Words]:
    """Return spellings of a name: in words, as one word, plural, without its unit."""
    parted = words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    ways = {words(name), parted}
    for way in list(ways):
        if len(way) > 1 and way[-1] in UNITS:
            ways.add(way[:-1])
    return {way for each in ways if each for way in (each, *_numbers(each))}


def _numbers(name: Words) -> Iterable[Words]:
    """Yield the name in the singular and in the plural."""
    *front, last = name
    if len(last) < 3:
        return
    if last.endswith("s"):
        yield (*front, last[:-1])
        yield (*front, last + "es")
    else:
        yield (*front, last + ("es" if last.endswith(("x", "ch", "sh")) else "s"))
        if last.endswith("y"):
            yield (*front, last[:-1] + "ies")


def usable(name: str) -> bool:
    """Return whether a variable may have this name without hiding something else."""
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        return False
    return not (name.startswith("_") or name in _RESERVED or hasattr(builtins, name))


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a valid, unused variable name like `name`."""
    base = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")[:60] or "table"
    base = base if usable(base) else f"table_{base}"
    number, candidate, used = 1, base, set(taken)
    while candidate in used:
        number += 1
        candidate = f"{base}_{number}"
    return candidate
