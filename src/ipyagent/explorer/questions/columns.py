"""Columns as people write them: `wind speed` for WINDSPEED, `blood pressure` for BP."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import permutations

from ipyagent.explorer.names import UNITS, Words, words

_MOST_WORDS = 5


def parted(name: str) -> Words:
    """Return a name's words, also those of camel case, without a unit at the end."""
    found = words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    while len(found) > 1 and found[-1] in UNITS:
        found = found[:-1]
    return found


def match_loosely(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that these words name, whole, if loosely."""
    if len(run) > _MOST_WORDS:
        return []
    return [column for column in columns if _names(run, column)]


def nearest(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that these words may mean, the nearest first: for offers only."""
    ranked = sorted(((_likeness(run, each), each) for each in columns), reverse=True)
    return [column for likeness, column in ranked if likeness > 0.55][:3]


def _likeness(run: Words, column: str) -> float:
    shared = set(map(_singular, run)) & set(map(_singular, parted(column)))
    whole = SequenceMatcher(None, "".join(run), "".join(words(column))).ratio()
    return max(whole, 0.9 if shared else 0.0)


def _names(run: Words, column: str) -> bool:
    compact, own = "".join(words(column)), parted(column)
    if len(run) == 1 and len(own) > 2 and run[0] == "".join(word[0] for word in own):
        return True
    singular = (*run[:-1], _singular(run[-1]))
    for way in (run, singular):
        joined = "".join(way)
        if joined in (compact, "".join(own)):
            return True
        if len(way) > 1 or len(joined) > 3:
            if _is_abbreviation(compact, way) or _is_abbreviation("".join(own), way):
                return True
            if _pairs_up(own, way):
                return True
    return False


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _pairs_up(own: Words, run: Words) -> bool:
    """Return whether each word of the name shortens one of the words, in any order."""
    if len(own) != len(run) or len(own) > 4:
        return False
    return any(all(map(_shortens, own, way)) for way in permutations(run))


def _shortens(short: str, word: str) -> bool:
    """Return whether this is the word, its beginning, or its letters with gaps: `yrs` of years."""
    if word.startswith(short):
        return len(short) >= min(3, len(word))
    return len(short) >= 3 and short[0] == word[0] and _has_gaps(short, word)


def _has_gaps(short: str, word: str) -> bool:
    """Return whether the letters stand in the word in this order, its last one included."""
    rest = iter(word)
    return all(letter in rest for letter in short) and short[-1] == word[-1]


def _is_abbreviation(compact: str, run: Words) -> bool:
    """Return whether a name is made of beginnings of all the words: `mpg`, `watertemp`."""
    if len(compact) < (2 if len(run) > 1 else 3):
        return False
    return _consume(compact, run)


def _consume(rest: str, run: Words) -> bool:
    if not run:
        return not rest
    first, *others = run
    return any(
        rest.startswith(first[:length]) and _consume(rest[length:], tuple(others))
        for length in range(1, min(len(first), len(rest)) + 1)
    ) or any(
        _shortens(rest[:length], first) and _consume(rest[length:], tuple(others))
        for length in range(3, len(rest) + 1)
    )
