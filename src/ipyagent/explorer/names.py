"""Spellings of names, columns as people write them, typing errors, and unused names."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain, count, permutations

Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")
_UNITS = """
    mm cm m km in ft mi g kg mg lb lbs oz t s sec secs ms min mins h hr hrs days c f k pct percent
    usd eur gbp l ml pa hpa kpa w kw kwh wh v hz khz mhz kb mb gb mps kmh mph ha sqm sqft m2 m3
    minutes hours seconds years year euros dollars pounds meters metres kilometers miles feet
"""
UNITS = frozenset(_UNITS.split())
_RESERVED = frozenset({"pd", "pl", "np", "plt", "stats", "In", "Out", "get_ipython", "ipyagent"})
_MOST_WORDS = 5


@lru_cache(4096)
def words(text: str) -> Words:
    """Return a name's words in lower case: `bill_length_mm` gives bill, length, mm."""
    return tuple(_WORD.findall(text.casefold()))


@lru_cache(4096)
def split_name(name: str) -> Words:
    """Return a name's words, also those of camel case, without a unit at the end."""
    found = words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    while len(found) > 1 and found[-1] in UNITS:
        found = found[:-1]
    return found


def spellings(name: str) -> set[Words]:
    """Return spellings of a name: in words, as one word, plural, without its unit."""
    ways = {words(name), words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)), split_name(name)}
    return {way for each in ways if each for way in (each, *_numbers(each))}


def _numbers(name: Words) -> Iterable[Words]:
    """Return the name in the singular and in the plural."""
    *front, last = name
    ends = [last + ("es" if last.endswith(("x", "ch", "sh")) else "s")]
    ends += [last[:-1] + "ies"] * last.endswith("y")
    ends = [last[:-1], last + "es"] if last.endswith("s") else ends
    return [(*front, end) for end in ends] if len(last) > 2 else []


def singular(word: str) -> str:
    """Return a word without the ending of a plural."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@lru_cache(4096)
def match_loosely(run: Words, columns: tuple[str, ...]) -> list[str]:
    """Return the columns that these words name, whole, if loosely."""
    if len(run) > _MOST_WORDS:
        return []
    return [column for column in columns if _names(run, column)]


def match_parts(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that have all of these words among their own: `price` in AveragePrice."""
    wanted = [singular(word) for word in run]
    return [
        column
        for column in columns
        if all(word in map(singular, split_name(column)) for word in wanted)
    ]


def nearest(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that these words may mean, the nearest first: for offers only."""
    ranked = sorted(((_likeness(run, each), each) for each in columns), reverse=True)
    return [column for likeness, column in ranked if likeness > 0.55][:3]


def _likeness(run: Words, column: str) -> float:
    shared = set(map(singular, run)) & set(map(singular, split_name(column)))
    whole = SequenceMatcher(None, "".join(run), "".join(words(column))).ratio()
    return max(whole, 0.9 if shared else 0.0)


def _names(run: Words, column: str) -> bool:
    compact, own = "".join(words(column)), split_name(column)
    bare = "".join(own)
    if len(run) == 1 and len(own) > 2 and run[0] == "".join(word[0] for word in own):
        return True
    for way in (run, (*run[:-1], singular(run[-1]))):
        if "".join(way) in (compact, bare):
            return True
        if len(way) == 1:
            if _stands_alone(bare, way[0]):
                return True
        elif any(_consume(each, way, after_word=False) for each in {compact, bare} - {""}):
            return len(compact) > 1
        elif len(own) == len(way) < 5 and _pairs_up(own, way):
            return True
    return False


def _pairs_up(own: Words, run: Words) -> bool:
    """Return whether each word of the name shortens one of the words, in any order."""
    return any(all(map(_shortens, own, way)) for way in permutations(run))


def _shortens(short: str, word: str) -> bool:
    """Return whether this is the word, its beginning, or its letters with gaps: `yrs` of years."""
    if word.startswith(short):
        return len(short) >= min(3, len(word))
    return len(short) >= 3 and short[0] == word[0] and _has_gaps(short, word)


def _stands_alone(short: str, word: str) -> bool:
    """Return whether one word is clearly meant: `educ` is education, but `age` no agency."""
    enough = len(short) >= 4 or (len(short) == 3 and len(word) > 6)
    return enough and short[-1] not in "aeiouy" and word.startswith(short)


def _has_gaps(short: str, word: str) -> bool:
    """Return whether the letters stand in the word in this order, its last one included."""
    rest = iter(word)
    return all(letter in rest for letter in short) and short[-1] == word[-1]


def _consume(rest: str, run: Words, *, after_word: bool) -> bool:
    """Return whether pieces of the words, one of each, make up the rest of the name.

    After a whole word a piece has three letters: `income` is not `incom` and an `e`.
    """
    if not run:
        return not rest
    first, *others = run
    for length in range(3 if after_word else 1, len(rest) + 1):
        piece = rest[:length]
        if not (first.startswith(piece) or (length >= 3 and _shortens(piece, first))):
            continue
        whole = after_word or piece == first
        if _consume(rest[length:], tuple(others), after_word=whole):
            return True
    return False


def correct(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that this one is, with one typing error, or two in a long one."""
    if len(word) < 4 or not word.isalpha():
        return []
    most = 1 if len(word) < 8 else 2
    ranked = [
        (distance, each)
        for each in known
        if abs(len(each) - len(word)) <= most
        and len(each) >= 4
        and each[0] == word[0]
        and (distance := _distance(word, each)) <= most
    ]
    best = min((distance for distance, _ in ranked), default=0)
    return [each for distance, each in ranked if distance == best]


def _distance(one: str, other: str) -> int:
    """Return the number of typing errors: letters left out, added, changed or swapped."""
    before: list[int] = []
    line = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, line = line, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, line[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            line.append(cost)
    return line[-1]


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
